import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';

/** The resource name of an address or user: as enmasse.resources.naming. */

const PART_MAX = 50;
const HASH_LENGTH = 8;

function cleaned(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, PART_MAX)
    .replace(/^-+|-+$/g, '');
}

function hash(text: string): string {
  return bytesToHex(sha256(new TextEncoder().encode(text))).slice(0, HASH_LENGTH);
}

/** A valid text is unchanged; from others the valid characters are kept and a hash makes the name unique. */
export function resourceName(space: string, text: string): string {
  const kept = cleaned(text);
  if (kept === text && text !== '') return `${space}.${text}`;
  return `${space}.${[kept, hash(text)].filter(Boolean).join('-')}`;
}
