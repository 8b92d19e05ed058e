/**
 * JSON with integers beyond 2^53, which messages may have: as BigInt instead of the nearest number. A browser without
 * the source of a number (ECMAScript 2026, JSON.parse source text access) reads the nearest one.
 */

interface Source {
  source?: string;
}

interface RawJson {
  rawJSON?: (text: string) => unknown;
}

const INTEGER = /^-?\d+$/;

function exact(_name: string, value: unknown, context?: Source): unknown {
  const isRounded = typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value);
  const source = context?.source;
  return isRounded && source !== undefined && INTEGER.test(source) ? BigInt(source) : value;
}

export function parseExact(text: string): unknown {
  return JSON.parse(text, exact as (name: string, value: unknown) => unknown);
}

/** What JSON.stringify writes as the digits of a BigInt; other values stay. */
export function writable(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  return (JSON as RawJson).rawJSON?.(value.toString()) ?? Number(value);
}

/** The text of a value in which integers may be BigInt. */
export function stringifyExact(value: unknown, indent?: number): string {
  return JSON.stringify(value, (_name, member: unknown) => writable(member), indent);
}
