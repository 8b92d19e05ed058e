import { decode as decodeStrictly, type TagDecoder } from 'cborg';

/** CBOR (RFC 8949) with the tags that devices use: times and big numbers. Others show their content. */

const asIs: TagDecoder = (decodeContent) => decodeContent();
const LISTED_TAGS = 64;

function tagsByNumber(): Record<number, TagDecoder> {
  const tags: Record<number, TagDecoder> = {};
  for (let tag = 0; tag < LISTED_TAGS; tag += 1) tags[tag] = asIs;
  tags[1] = (decodeContent) => new Date(Number(decodeContent()) * 1000).toISOString();
  return tags;
}

export function decode(bytes: Uint8Array): unknown {
  return decodeStrictly(bytes, { useMaps: true, allowBigInt: true, tags: tagsByNumber() });
}
