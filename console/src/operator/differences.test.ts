import { expect, it } from 'vitest';
import { differences } from './differences';

it('names each changed path with both values', () => {
  const before = { metadata: { resourceVersion: '1' }, spec: { a: 1, b: { c: [1] }, d: 'x' } };
  const after = { metadata: { resourceVersion: '2' }, spec: { a: 1, b: { c: [1, 2] }, e: true } };
  expect(differences(before, after)).toEqual([
    { path: 'spec.b.c', before: '[1]', after: '[1,2]' },
    { path: 'spec.d', before: '"x"', after: 'absent' },
    { path: 'spec.e', before: 'absent', after: 'true' },
  ]);
});

it('has none for the same document', () => {
  expect(differences({ spec: { a: [] } }, { spec: { a: [] } })).toEqual([]);
});
