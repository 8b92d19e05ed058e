// @vitest-environment jsdom
import { useInfiniteQuery } from '@tanstack/react-query';
import { screen } from '@testing-library/react';
import { expect, it, vi } from 'vitest';
import { render } from '@/test/render';
import { NO_SESSION, bindSession } from './http';
import { EMPTY_SLICES_MAX, inParts, useFirstRow } from './slices';

/** A list whose slices are given by number. */
function List({ read }: { read: (slice: number) => Promise<string[]> }) {
  const found = useInfiniteQuery({
    queryKey: ['slices'],
    queryFn: ({ pageParam }) => read(pageParam),
    initialPageParam: 0,
    getNextPageParam: (_last, _all, slice) => slice + 1,
  });
  const rows = found.data?.pages.flat();
  const isLooking = useFirstRow(found, rows);
  return <p>{isLooking || !rows ? 'looking' : `${rows.length} rows after ${found.data?.pages.length}`}</p>;
}

it('reads empty slices until the first row is found', async () => {
  const read = vi.fn((slice: number) => Promise.resolve(slice === 3 ? ['row'] : []));
  render(<List read={read} />);
  expect(await screen.findByText('1 rows after 4')).toBeVisible();
  expect(read).toHaveBeenCalledTimes(4);
});

it('stops after a number of empty slices', async () => {
  const read = vi.fn(() => Promise.resolve([]));
  render(<List read={read} />);
  expect(await screen.findByText(`0 rows after ${EMPTY_SLICES_MAX}`)).toBeVisible();
  expect(read).toHaveBeenCalledTimes(EMPTY_SLICES_MAX);
});

it('stops at an error', async () => {
  const read = vi.fn((slice: number) =>
    slice === 2 ? Promise.reject(new Error('away')) : Promise.resolve<string[]>([]),
  );
  render(<List read={read} />);
  expect(await screen.findByText('0 rows after 2')).toBeVisible();
  expect(read).toHaveBeenCalledTimes(3);
});

it.each([
  ['bob', /Another account has logged in: bob/],
  [null, /The session is over/],
])('begins no further part once the session is of %s', async (user, message) => {
  bindSession({ ...NO_SESSION, user: 'alice' });
  const ask = vi.fn(() => {
    bindSession({ ...NO_SESSION, user });
    return Promise.resolve({ messages: 1, continue: 'next' });
  });
  await expect(inParts(ask)).rejects.toThrow(message);
  expect(ask).toHaveBeenCalledOnce();
});

it('goes on with the next part in a renewed session of the same user', async () => {
  bindSession({ ...NO_SESSION, user: 'alice' });
  const ask = vi.fn((next: string | undefined) => {
    bindSession({ ...NO_SESSION, user: 'alice', csrf: 'renewed' });
    return Promise.resolve({ messages: 1, continue: next ? undefined : 'next' });
  });
  expect(await inParts(ask)).toBe(2);
});
