import { Button, Card, CardBody, CardHeader, CardTitle } from '@patternfly/react-core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';
import type { Kind } from '@/api/kinds';
import { useList } from '@/api/list';
import { useMay } from '@/api/rights';
import type { Resource } from '@/api/types';
import { remove } from '@/api/write';
import { useNotify } from '@/app/notices';
import { Confirm } from '@/ui/Confirm';
import { DataTable, type Column } from '@/ui/DataTable';
import { Age } from '@/ui/Moment';
import { Name } from '@/ui/Name';
import { Empty } from '@/ui/States';

/** Resources of one kind of the operator, each with its editor. */

export const INFRA_NAMESPACE = 'enmasse-infra';

export interface AdminTableProps<T extends Resource> {
  title: string;
  kind: Kind;
  /** The section of the address bar: `plans`, `infra`, `authentication`. */
  section: string;
  columns: readonly Column<T>[];
}

export function editPath(section: string, kind: Kind, namespace: string, name: string): string {
  return `/operator/${section}/${kind.plural}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

export function AdminTable<T extends Resource>({ title, kind, section, columns }: AdminTableProps<T>) {
  const list = useList<T>(kind, { query: { limit: 1000 } });
  const may = useMay('*');
  const [leaving, setLeaving] = useState<T | null>(null);
  const client = useQueryClient();
  const notify = useNotify();
  const create = may('create', kind) ? (
    <Button
      variant="secondary"
      component={(props) => <Link {...props} to={editPath(section, kind, INFRA_NAMESPACE, '+')} />}
    >
      Create
    </Button>
  ) : null;
  const all: Column<T>[] = [
    {
      key: 'name',
      title: 'Name',
      width: 25,
      render: (one) => (
        <Name to={editPath(section, kind, one.metadata.namespace ?? '', one.metadata.name)}>
          {one.metadata.name}
        </Name>
      ),
    },
    { key: 'namespace', title: 'Namespace', render: (one) => one.metadata.namespace },
    ...columns,
    { key: 'age', title: 'Age', render: (one) => <Age of={one.metadata.creationTimestamp} /> },
  ];
  return (
    <Card isCompact>
      <CardHeader actions={{ actions: create }}>
        <CardTitle>{title}</CardTitle>
      </CardHeader>
      <CardBody>
        <DataTable
          label={title}
          columns={all}
          rows={list.data?.items}
          keyOf={(one) => `${one.metadata.namespace ?? ''}/${one.metadata.name}`}
          nameOf={(one) => one.metadata.name}
          error={list.error}
          retry={() => void list.refetch()}
          actions={(one) =>
            may('delete', kind)
              ? [
                  {
                    title: 'Delete',
                    onClick: () => {
                      setLeaving(one);
                    },
                  },
                ]
              : []
          }
          empty={<Empty title="None yet" action={create} />}
        />
      </CardBody>
      {leaving ? (
        <Confirm
          title={`Delete ${kind.title}?`}
          action="Delete"
          run={() => remove(kind, leaving)}
          onDone={() => {
            notify(`${leaving.metadata.name} was deleted.`);
            void client.invalidateQueries({ queryKey: [kind.plural] });
          }}
          onClose={() => {
            setLeaving(null);
          }}
        >
          <strong>{leaving.metadata.name}</strong> is deleted only if nothing uses it.
        </Confirm>
      ) : null}
    </Card>
  );
}
