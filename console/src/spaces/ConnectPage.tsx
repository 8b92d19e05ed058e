import {
  Button,
  Card,
  CardBody,
  CardTitle,
  Content,
  Form,
  Grid,
  GridItem,
  Label,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import DownloadIcon from '@patternfly/react-icons/dist/esm/icons/download-icon';
import { useState } from 'react';
import { AddressKind } from '@/api/kinds';
import { useList } from '@/api/list';
import type { Address, EndpointStatus } from '@/api/types';
import { useSession } from '@/app/session';
import { Code, CodeTabs } from '@/ui/Code';
import { DataTable, type Column } from '@/ui/DataTable';
import { SelectField, TextField } from '@/ui/fields';
import { Empty } from '@/ui/States';
import { samplesFor, type Target } from './clientCode';
import { useSpace } from './SpaceLayout';

/** Everything a program needs to connect: hosts, ports, certificate and code. */

interface Way {
  endpoint: string;
  host: string;
  port: number;
  protocol: string;
}

const PROTOCOLS: Record<string, { title: string; listener: string }> = {
  amqps: { title: 'AMQP over TLS', listener: 'amqps' },
  amqp: { title: 'AMQP', listener: 'amqp' },
  'amqp-wss': { title: 'AMQP over WebSocket and TLS', listener: 'wss' },
  'amqp-ws': { title: 'AMQP over WebSocket', listener: 'ws' },
};

/** Each endpoint with each of its ports, the external host first. */
export function waysOf(endpoints: readonly EndpointStatus[]): Way[] {
  return endpoints.flatMap((endpoint) => {
    const host = endpoint.externalHost ?? endpoint.serviceHost ?? '';
    const ports = endpoint.externalHost ? endpoint.externalPorts : endpoint.servicePorts;
    return (ports ?? []).map((port) => ({
      endpoint: endpoint.name ?? '',
      host,
      port: port.port,
      protocol: port.name ?? '',
    }));
  });
}

const COLUMNS: Column<Way>[] = [
  { key: 'endpoint', title: 'Endpoint', render: (way) => way.endpoint },
  { key: 'protocol', title: 'Protocol', render: (way) => PROTOCOLS[way.protocol]?.title ?? way.protocol },
  { key: 'host', title: 'Host', render: (way) => <code>{way.host}</code> },
  { key: 'port', title: 'Port', isNumeric: true, render: (way) => <code>{way.port}</code> },
];

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/x-pem-file' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

function CertificateCard({ pem, name }: { pem: string; name: string }) {
  return (
    <Card isCompact>
      <CardTitle>Certificate authority</CardTitle>
      <CardBody>
        <Stack hasGutter>
          <Content component="p">
            Clients that connect with TLS trust this authority, which signs the certificates of this address
            space only.
          </Content>
          <StackItem>
            <Button
              variant="secondary"
              icon={<DownloadIcon />}
              onClick={() => {
                download(`${name}-ca.crt`, pem);
              }}
            >
              Download ca.crt
            </Button>
          </StackItem>
        </Stack>
      </CardBody>
    </Card>
  );
}

export function ConnectPage() {
  const { space, namespace, name } = useSpace();
  const { platform } = useSession();
  const ways = waysOf(space.status?.endpointStatuses ?? []);
  const listeners: Way[] = ['amqp', 'amqps', 'ws', 'wss'].flatMap((listener) => {
    const at = platform.endpoints[listener];
    const protocol = Object.keys(PROTOCOLS).find((key) => PROTOCOLS[key]?.listener === listener) ?? listener;
    return at ? [{ endpoint: 'this platform', host: at.host, port: at.port, protocol }] : [];
  });
  const at = (way: Way) => `${way.protocol} ${way.host}:${String(way.port)}`;
  const known = new Set(listeners.map(at));
  // An endpoint without a host of its own has the listeners of the platform.
  const shown = [...listeners, ...ways.filter((way) => !known.has(at(way)))];
  const direct = shown.filter((way) => way.protocol === 'amqp' || way.protocol === 'amqps');
  const [chosen, setChosen] = useState('0');
  const [typed, setTyped] = useState<string | null>(null);
  const addresses = useList<Address>(AddressKind, {
    namespace,
    query: { sortBy: 'name', limit: 1, fieldSelector: `spec.type=queue`, contains: `${name}.` },
  });
  const address = typed ?? addresses.data?.items[0]?.spec.address ?? 'orders';
  const way = direct[Number(chosen)];
  const needsUser =
    space.spec.authenticationService?.name !== 'none' && space.spec.authenticationService?.type !== 'none';
  const pem = space.status?.caCert ? atob(space.status.caCert) : null;
  const target: Target | null = way
    ? {
        host: way.host,
        port: way.port,
        isTls: way.protocol === 'amqps',
        virtualHost: `${name}.${namespace}`,
        address,
        needsUser,
      }
    : null;
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        <Card isCompact>
          <CardTitle>
            Endpoints{' '}
            {needsUser ? (
              <Label isCompact>login required</Label>
            ) : (
              <Label isCompact color="orange">
                open to every client
              </Label>
            )}
          </CardTitle>
          <CardBody>
            <DataTable
              label="Endpoints"
              columns={COLUMNS}
              rows={shown}
              keyOf={(one) => `${one.endpoint} ${one.protocol} ${one.host}`}
              empty={<Empty title="No endpoints">The address space is not ready yet.</Empty>}
            />
          </CardBody>
        </Card>
        <Grid hasGutter lg={6}>
          <GridItem>
            <Card isCompact isFullHeight>
              <CardTitle>Name of the address space for clients</CardTitle>
              <CardBody>
                <Content component="p">
                  A client names it in TLS (SNI), in SASL or as the host name of <code>open</code>. Without
                  it, it gets the platform's default space.
                </Content>
                <Code text={`${name}.${namespace}`} />
              </CardBody>
            </Card>
          </GridItem>
          <GridItem>{pem ? <CertificateCard pem={pem} name={name} /> : null}</GridItem>
        </Grid>
        {target ? (
          <Card isCompact>
            <CardTitle>A first message</CardTitle>
            <CardBody>
              <Form isHorizontal={false}>
                <Grid hasGutter md={6}>
                  <GridItem>
                    <SelectField
                      label="Connect to"
                      value={chosen}
                      onChange={setChosen}
                      options={direct.map((one, index) => ({
                        value: String(index),
                        title: `${PROTOCOLS[one.protocol]?.title ?? one.protocol}, ${one.host}:${String(one.port)}`,
                      }))}
                    />
                  </GridItem>
                  <GridItem>
                    <TextField label="Address" value={address} onChange={setTyped} />
                  </GridItem>
                </Grid>
              </Form>
              <CodeTabs label="Client libraries" choices={samplesFor(target)} />
            </CardBody>
          </Card>
        ) : null}
      </Stack>
    </PageSection>
  );
}
