import {
  Card,
  CardBody,
  Flex,
  FlexItem,
  Grid,
  GridItem,
  Skeleton,
  ToggleGroup,
  ToggleGroupItem,
} from '@patternfly/react-core';
import { Suspense, lazy, useState } from 'react';
import { RANGES, RESOLUTIONS, useHistory, type Range } from '@/api/history';
import { ActionError } from './States';

/** Graphs of one thing over a range that the person chooses. */

export interface Graph {
  title: string;
  format: (value: number | undefined) => string;
  /** Label of a line and its query; `$window` is the window of a rate. */
  lines: readonly { label: string; query: string }[];
}

// The page is there before what draws its graphs.
const Chart = lazy(async () => ({ default: (await import('./Chart')).Chart }));

export function HistoryCharts({
  namespace,
  graphs,
}: {
  namespace: string | undefined;
  graphs: readonly Graph[];
}) {
  const [range, setRange] = useState<Range>('1h');
  const { window, seconds } = RESOLUTIONS[range];
  const queries = graphs.flatMap((graph) =>
    graph.lines.map((line) => line.query.replaceAll('$window', window)),
  );
  const history = useHistory(namespace, queries, range);
  const to = Math.floor(history.dataUpdatedAt / 1000);
  return (
    <Card isCompact>
      <CardBody>
        <Flex justifyContent={{ default: 'justifyContentFlexEnd' }}>
          <FlexItem>
            <ToggleGroup aria-label="Range of the graphs" isCompact>
              {RANGES.map((one) => (
                <ToggleGroupItem
                  key={one}
                  text={one}
                  isSelected={one === range}
                  onChange={() => {
                    setRange(one);
                  }}
                />
              ))}
            </ToggleGroup>
          </FlexItem>
        </Flex>
        {history.error && !history.data ? (
          <ActionError
            error={history.error}
            title="The history could not be read"
            retry={() => void history.refetch()}
          />
        ) : (
          <Grid hasGutter md={6}>
            {graphs.map((graph, number) => {
              const first = graphs.slice(0, number).reduce((sum, one) => sum + one.lines.length, 0);
              const series = history.data?.slice(first, first + graph.lines.length).map((found, index) => ({
                label: graph.lines[index]?.label ?? '',
                values: found[0]?.values ?? [],
              }));
              return (
                <GridItem key={graph.title}>
                  <Suspense fallback={<Skeleton height="200px" screenreaderText={graph.title} />}>
                    <Chart
                      title={graph.title}
                      series={series}
                      format={graph.format}
                      from={to - seconds}
                      to={to}
                    />
                  </Suspense>
                </GridItem>
              );
            })}
          </Grid>
        )}
      </CardBody>
    </Card>
  );
}
