import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { HOSTILE_NAMES } from '@/test/hostileNames';
import { previewsOf, pruned, shellWord } from './preview';

it('leaves out what is absent or empty, and keeps zero and false', () => {
  expect(pruned({ a: undefined, b: '', c: {}, d: { e: [] }, f: 0, g: false })).toEqual({ f: 0, g: false });
});

it.each(HOSTILE_NAMES)('writes YAML that reads back: %s', (name) => {
  const document = { metadata: { name: 'x' }, spec: { address: name } };
  expect(parse(previewsOf(document)[0]?.text ?? '')).toEqual(document);
});

it('quotes words of the shell', () => {
  expect(shellWord('orders/new')).toBe('orders/new');
  expect(shellWord("it's $(x)")).toBe(`'it'\\''s $(x)'`);
});
