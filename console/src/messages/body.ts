import { parseExact, stringifyExact, writable } from '@/api/exactJson';
import type { StoredMessage } from '@/api/messages';

/** A body as text, JSON, CBOR or hexadecimal. Always text on the page: it is never parsed as markup or run. */

export const VIEWS = ['text', 'json', 'cbor', 'hex'] as const;
export type View = (typeof VIEWS)[number];

const HEX_COLUMNS = 16;
export const SHOWN_BYTES_MAX = 65_536;

export function bytesOf(message: StoredMessage): Uint8Array {
  if (message.raw) return Uint8Array.from(atob(message.raw.body), (character) => character.charCodeAt(0));
  const body = message.message?.body;
  return new TextEncoder().encode(typeof body === 'string' ? body : stringifyExact(body ?? null));
}

export function hexOf(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += HEX_COLUMNS) {
    const part = [...bytes.subarray(at, at + HEX_COLUMNS)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${hex.padEnd(HEX_COLUMNS * 3 - 1)}  ${text}`);
  }
  return lines.join('\n');
}

/** Members in order, big numbers with all digits, bytes as text: what JSON cannot write stays readable. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(
    value,
    (_name, member: unknown) => {
      if (member instanceof Uint8Array)
        return `h'${[...member].map((byte) => byte.toString(16).padStart(2, '0')).join('')}'`;
      if (member instanceof Map)
        return Object.fromEntries([...member].map(([key, one]) => [String(key), one as unknown]));
      return writable(member);
    },
    2,
  );
}

/** The view that suits the content type and the body. */
export function suitableView(message: StoredMessage): View {
  const type = String(message.message?.properties?.content_type ?? '').toLowerCase();
  const body = message.message?.body;
  if (type.includes('cbor')) return 'cbor';
  if (type.includes('json')) return 'json';
  if (typeof body === 'string') {
    if (body.includes('\ufffd')) return 'hex';
    return /^\s*[[{]/.test(body) && canParse(body) ? 'json' : 'text';
  }
  return 'json';
}

function canParse(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The body in a view. Throws an Error that says why it cannot be shown so. */
export async function bodyText(message: StoredMessage, view: View): Promise<string> {
  const body = message.message?.body;
  if (view === 'hex') return hexOf(bytesOf(message));
  if (view === 'cbor') {
    const { decode } = await import('./cbor');
    return jsonOf(decode(bytesOf(message)));
  }
  if (view === 'json') return jsonOf(typeof body === 'string' ? parseExact(body) : body);
  return typeof body === 'string' ? body : jsonOf(body);
}

/** One line of a body for a table. */
export function bodyLine(message: StoredMessage): string {
  if (message.problem) return `Cannot be decoded: ${message.problem}`;
  const body = message.message?.body;
  if (body === undefined) return '';
  const text = typeof body === 'string' ? body : stringifyExact(body);
  return text.replace(/\s+/g, ' ').slice(0, 200);
}
