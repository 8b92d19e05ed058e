import {
  Card,
  CardBody,
  CardTitle,
  Content,
  Grid,
  GridItem,
  Progress,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import type { Overview } from '@/api/types';
import { useSession } from '@/app/session';
import { DataTable, type Column } from '@/ui/DataTable';
import { Facts } from '@/ui/Facts';
import { bytes, count, percent } from '@/ui/format';

type Node = NonNullable<Overview['node']>;
interface Worker {
  number: number;
  busy: number;
  connections: number;
}

const WORKERS: Column<Worker>[] = [
  { key: 'number', title: 'Worker', render: (worker) => worker.number },
  {
    key: 'busy',
    title: 'Busy',
    width: 50,
    render: (worker) => (
      <Progress
        aria-label={`Worker ${String(worker.number)} busy`}
        value={worker.busy * 100}
        label={percent(worker.busy)}
        size="sm"
      />
    ),
  },
  {
    key: 'connections',
    title: 'Connections',
    isNumeric: true,
    render: (worker) => count(worker.connections),
  },
];

/** How full the disk is; a process that keeps no data, as a stand-by, has none. */
function Disk({ disk }: { disk: NonNullable<Node['disk']> }) {
  const used = disk.sizeBytes > 0 ? 1 - disk.freeBytes / disk.sizeBytes : 0;
  return (
    <Progress
      title="Disk"
      value={used * 100}
      label={`${bytes(disk.sizeBytes - disk.freeBytes)} of ${bytes(disk.sizeBytes)}`}
      {...(used > 0.9 ? { variant: 'danger' as const } : used > 0.8 ? { variant: 'warning' as const } : {})}
    />
  );
}

/** The process that serves messaging: its workers, its disk and where it listens. */
export function NodeCard({ node }: { node: Node }) {
  const { version, endpoints } = useSession().platform;
  const { disk, journal } = node;
  return (
    <Card isCompact>
      <CardTitle>Node</CardTitle>
      <CardBody>
        <Grid hasGutter lg={6}>
          <GridItem>
            <DataTable
              label="Workers"
              columns={WORKERS}
              rows={node.workers.map((worker, number) => ({ ...worker, number }))}
              keyOf={(worker) => String(worker.number)}
              empty={<Content component="small">A stand-by has no workers.</Content>}
            />
          </GridItem>
          <GridItem>
            <Stack hasGutter>
              {disk ? (
                <StackItem>
                  <Disk disk={disk} />
                </StackItem>
              ) : null}
              <StackItem>
                <Facts
                  of={[
                    ['Version', version],
                    [
                      'Journal',
                      journal
                        ? `${bytes(journal.usedBytes)} on disk, ${bytes(journal.aliveBytes)} in use`
                        : 'none',
                    ],
                    ...Object.entries(endpoints).map(
                      ([name, at]) => [`Listener ${name}`, `${at.host}:${String(at.port)}`] as const,
                    ),
                  ]}
                />
              </StackItem>
            </Stack>
          </GridItem>
        </Grid>
      </CardBody>
    </Card>
  );
}
