import { Content, Skeleton } from '@patternfly/react-core';
import { useEffect, useMemo, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useTheme } from '@/app/theme';
import { labelled } from './format';

/** Series over time. Drawn on a canvas; the text below it says the last values to those who do not see it. */

export interface ChartSeries {
  label: string;
  /** Seconds since 1970 and values, as `query_range` answers. */
  values: readonly (readonly [number, string])[];
}

export interface ChartProps {
  title: string;
  series: readonly ChartSeries[] | undefined;
  format: (value: number | undefined) => string;
  /** First and last second of the axis. */
  from: number;
  to: number;
  height?: number;
}

const COLORS = [
  '--pf-t--chart--color--blue--300',
  '--pf-t--chart--color--teal--300',
  '--pf-t--chart--color--orange--300',
  '--pf-t--chart--color--purple--300',
];
const FALLBACK = ['#0066cc', '#37a3a3', '#ca6c0f', '#5e40be'];
const AXIS_PX = 56;

function cssColor(name: string, fallback: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || fallback;
}

/** Put series with times of their own on one axis; a missing value is a gap. */
export function aligned(series: readonly ChartSeries[]): [number[], ...(number | null)[][]] {
  const times = [...new Set(series.flatMap((one) => one.values.map(([time]) => time)))].sort((a, b) => a - b);
  const columns = series.map((one) => {
    const byTime = new Map(one.values.map(([time, value]) => [time, Number(value)]));
    return times.map((time) => byTime.get(time) ?? null);
  });
  return [times, ...columns];
}

function optionsOf(props: ChartProps, width: number): uPlot.Options {
  const { series = [], format, from, to, height = 180 } = props;
  const text = cssColor('--pf-t--global--text--color--subtle', '#6a6e73');
  const grid = cssColor('--pf-t--global--border--color--default', '#d2d2d2');
  const axis = { stroke: text, grid: { stroke: grid, width: 0.5 }, ticks: { stroke: grid, width: 0.5 } };
  return {
    width,
    height,
    scales: {
      x: { time: true, range: [from, to] },
      y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [axis, { ...axis, size: AXIS_PX, values: (_plot, ticks) => labelled(ticks, format) }],
    series: [
      { value: '{HH}:{mm}:{ss}' },
      ...series.map((one, index) => {
        const color = cssColor(COLORS[index % COLORS.length] ?? '', FALLBACK[index % FALLBACK.length] ?? '');
        return {
          label: one.label,
          stroke: color,
          fill: `${color}22`,
          width: 1.5,
          points: { show: false },
          value: (_plot: uPlot, value: number | null) => (value === null ? '–' : format(value)),
        };
      }),
    ],
    legend: { live: true },
    cursor: { drag: { x: false, y: false } },
  };
}

function summary(props: ChartProps): string {
  const lasts = (props.series ?? []).map(
    (one) => `${one.label} ${props.format(Number(one.values.at(-1)?.[1] ?? Number.NaN) || 0)}`,
  );
  return `${props.title}: ${lasts.join(', ') || 'no values'}`;
}

export function Chart(props: ChartProps) {
  const { series, title, height = 180 } = props;
  const host = useRef<HTMLDivElement>(null);
  const theme = useTheme().resolved;
  const text = useMemo(() => JSON.stringify([series, props.from, props.to]), [series, props.from, props.to]);
  useEffect(() => {
    const element = host.current;
    if (!element || !series) return;
    const plot = new uPlot(optionsOf(props, element.clientWidth), aligned(series), element);
    const observer = new ResizeObserver(() => {
      plot.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
    // A chart is drawn anew when its values or its colors change.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [text, theme, height]);
  const hasValues = series?.some((one) => one.values.length > 0);
  return (
    <figure className="em-chart" aria-label={summary(props)}>
      <figcaption>{title}</figcaption>
      {series === undefined ? <Skeleton height={`${String(height)}px`} /> : null}
      {series && !hasValues ? (
        <Content component="small">Nothing was recorded in this range yet.</Content>
      ) : null}
      <div ref={host} hidden={!hasValues} />
    </figure>
  );
}
