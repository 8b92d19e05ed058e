import { afterEach, expect, it, vi } from 'vitest';
import { firstMessage } from './messages';
import { EMPTY_SLICES_MAX } from './slices';
import type { Address } from './types';

const ADDRESS = { metadata: { name: 'shop.dead', namespace: 'default' } } as Address;
const SELECTION = { filter: "m.cause = 'expired'" };

/** Answer each peek by its number; returns what was asked. */
function peeks(answer: (slice: number) => object): unknown[] {
  const asked: unknown[] = [];
  vi.stubGlobal('fetch', (_path: string, init: RequestInit) => {
    asked.push(JSON.parse(init.body as string));
    return Promise.resolve(new Response(JSON.stringify(answer(asked.length - 1))));
  });
  return asked;
}

afterEach(() => {
  vi.unstubAllGlobals();
});

it('looks for the first message of a selection beyond empty slices', async () => {
  const asked = peeks((slice) =>
    slice === 0 ? { items: [], continue: '7-9' } : { items: [{ id: 8, bytes: 1 }] },
  );
  expect(await firstMessage(ADDRESS, SELECTION)).toEqual({ id: 8, bytes: 1 });
  const peek = { ...SELECTION, limit: 1, form: 'typed' };
  expect(asked).toEqual([peek, { ...peek, continue: '7-9' }]);
});

it('finds none where the selection is empty, or after a number of slices', async () => {
  peeks(() => ({ items: [] }));
  expect(await firstMessage(ADDRESS, SELECTION)).toBeNull();
  const asked = peeks(() => ({ items: [], continue: '7-9' }));
  expect(await firstMessage(ADDRESS, SELECTION)).toBeNull();
  expect(asked).toHaveLength(EMPTY_SLICES_MAX);
});
