/** Numbers, sizes and times as people read them. Rounded for the eye; titles have the exact value. */

const COUNT = new Intl.NumberFormat('en');
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const EXACT_BELOW = 100_000;
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
const TIME_UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
  ['s', 1],
] as const;

export const NONE = '–';

export function count(value: number | undefined): string {
  if (value === undefined) return NONE;
  return Math.abs(value) < EXACT_BELOW ? COUNT.format(value) : SHORT.format(value);
}

export function exact(value: number): string {
  return COUNT.format(value);
}

/** A rate with the precision that matters: 0.5, 12, 3.4K. */
export function rate(perSecond: number | undefined): string {
  if (perSecond === undefined) return NONE;
  if (perSecond === 0) return '0';
  if (perSecond < 0.1) return '<0.1';
  if (perSecond < 10) return perSecond.toFixed(1).replace(/\.0$/, '');
  return perSecond < 10_000 ? COUNT.format(Math.round(perSecond)) : SHORT.format(perSecond);
}

export function bytes(value: number | undefined): string {
  if (value === undefined) return NONE;
  let scaled = value;
  let unit = 0;
  while (scaled >= 1024 && unit < BYTE_UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || scaled >= 100 ? 0 : 1;
  return `${scaled.toFixed(digits).replace(/\.0$/, '')} ${BYTE_UNITS[unit] ?? ''}`;
}

/** The two largest units of a duration: 3d 4h, 12m, 5s, 0.4s. */
export function duration(seconds: number | undefined): string {
  if (seconds === undefined || Number.isNaN(seconds)) return NONE;
  if (seconds <= 0) return '0s';
  if (seconds < 1) return `${seconds.toFixed(1)}s`;
  const parts: string[] = [];
  let rest = Math.floor(seconds);
  for (const [unit, size] of TIME_UNITS) {
    if (rest >= size) {
      parts.push(`${String(Math.floor(rest / size))}${unit}`);
      rest %= size;
    }
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}

export function milliseconds(value: number | string | undefined): string {
  if (value === undefined) return NONE;
  return typeof value === 'string' ? value : duration(value / 1000);
}

/** How long ago a moment was. */
export function age(moment: string | undefined, now = Date.now()): string {
  if (!moment) return NONE;
  const seconds = (now - Date.parse(moment)) / 1000;
  if (seconds < 2) return 'just now';
  return duration(seconds).split(' ')[0] ?? NONE;
}

export function moment(text: string | undefined): string {
  if (!text) return NONE;
  return new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' }).format(new Date(text));
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0)} %`;
}

export function plural(value: number, word: string, many = `${word}s`): string {
  return `${count(value)} ${value === 1 ? word : many}`;
}

/** Labels of an axis; small values that would read the same are named once. */
export function labelled(ticks: readonly number[], format: (value: number) => string): string[] {
  const labels = ticks.map((tick) => format(tick));
  return labels.map((label, index) => (labels.indexOf(label) === index ? label : ''));
}
