const WIDTH = 72;
const HEIGHT = 20;

/** The shape of a series in a row of a table. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  if (values.length < 2) return <svg width={WIDTH} height={HEIGHT} aria-hidden="true" />;
  const top = Math.max(...values, 0.001);
  const step = WIDTH / (values.length - 1);
  const points = values.map(
    (value, index) =>
      `${(index * step).toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 3)).toFixed(1)}`,
  );
  return (
    <svg
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${String(WIDTH)} ${String(HEIGHT)}`}
      role="img"
      aria-label={label}
    >
      <polyline points={points.join(' ')} className="em-spark" />
    </svg>
  );
}
