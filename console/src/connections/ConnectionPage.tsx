import { Button, Label, StackItem } from '@patternfly/react-core';
import PlugIcon from '@patternfly/react-icons/dist/esm/icons/plug-icon';
import { useState } from 'react';
import { useNavigate, useParams } from 'react-router';
import { useMay } from '@/api/rights';
import type { Link } from '@/api/types';
import { useNotify } from '@/app/notices';
import { spacePath } from '@/spaces/paths';
import { linkColumns } from '@/addresses/LinkTable';
import { Confirm } from '@/ui/Confirm';
import { DataTable, type Column } from '@/ui/DataTable';
import { Facts } from '@/ui/Facts';
import { Name } from '@/ui/Name';
import { DetailCard, DetailPage } from '@/ui/DetailPage';
import { Empty } from '@/ui/States';
import { bytes, exact, rate } from '@/ui/format';
import { ConnectionKind } from './SpaceConnectionsPage';
import { Trace } from './Trace';
import { closeConnection, useConnection } from './queries';

const ADDRESS: Column<Link> = {
  key: 'address',
  title: 'Address',
  width: 20,
  render: (link) => <Name>{link.address}</Name>,
};

/** One client: who it is, what it moves, its links, its frames. */
export function ConnectionPage() {
  const { namespace = '', space = '', connection: id = '' } = useParams();
  const found = useConnection(namespace, id);
  const may = useMay(namespace);
  const [isClosing, setIsClosing] = useState(false);
  const navigate = useNavigate();
  const notify = useNotify();
  const listing = spacePath(namespace, space, 'connections');
  const title = found.data?.container ?? `Connection ${id}`;
  const columns = linkColumns(() => '').filter((column) => column.key !== 'client' && column.key !== 'user');
  return (
    <>
      <DetailPage
        found={found}
        isErrorShown
        title={title}
        subtitle={(one) => `${one.product ?? 'unknown product'} · ${one.peer ?? ''}`}
        crumbs={[
          { title: 'Address spaces', to: '/spaces' },
          { title: space, to: spacePath(namespace, space) },
          { title: 'Connections', to: listing },
          { title },
        ]}
        labels={(one) =>
          one.tls ? (
            <Label isCompact status="success">
              TLS
            </Label>
          ) : null
        }
        actions={() =>
          may('delete', ConnectionKind) ? (
            <Button
              variant="secondary"
              isDanger
              onClick={() => {
                setIsClosing(true);
              }}
            >
              Close
            </Button>
          ) : null
        }
      >
        {(one) => (
          <>
            <DetailCard title="Client">
              <Facts
                columns={3}
                of={[
                  ['User', one.user ?? 'anonymous'],
                  [
                    'Container',
                    <bdi key="c" className="em-break">
                      {one.container ?? ''}
                    </bdi>,
                  ],
                  ['From', one.peer],
                  ['Protocol', `${one.protocol} (${one.transport})`],
                  ['Product', one.product],
                  ['Messages in', `${exact(one.messagesIn)}, ${rate(one.messagesInPerSecond)}/s`],
                  ['Messages out', `${exact(one.messagesOut)}, ${rate(one.messagesOutPerSecond)}/s`],
                  ['Bytes in', bytes(one.bytesIn)],
                  ['Bytes out', bytes(one.bytesOut)],
                ]}
              />
            </DetailCard>
            <DetailCard title="Links">
              <DataTable
                label="Links"
                columns={[ADDRESS, ...columns]}
                rows={one.links ?? []}
                keyOf={(link) => `${link.role} ${link.name}`}
                empty={
                  <Empty title="No links" icon={PlugIcon}>
                    The client is connected and has attached nothing.
                  </Empty>
                }
              />
            </DetailCard>
            {may('delete', ConnectionKind) ? (
              <StackItem>
                <Trace namespace={namespace} id={id} />
              </StackItem>
            ) : null}
          </>
        )}
      </DetailPage>
      {isClosing ? (
        <Confirm
          title="Close the connection?"
          action="Close"
          run={() => closeConnection(namespace, id)}
          onDone={() => {
            notify('The connection was closed.');
            void navigate(listing);
          }}
          onClose={() => {
            setIsClosing(false);
          }}
        >
          <bdi>{title}</bdi> sees <code>amqp:connection:forced</code> and may connect again.
        </Confirm>
      ) : null}
    </>
  );
}
