// @vitest-environment jsdom
import { screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, expect, it, vi } from 'vitest';
import { NO_SESSION, bindSession } from '@/api/http';
import type { Address } from '@/api/types';
import { render } from '@/test/render';
import { BulkDialog } from './BulkDialog';

afterEach(() => {
  bindSession(NO_SESSION);
  vi.unstubAllGlobals();
});

const ADDRESSES = ['orders', 'bills'].map(
  (name) =>
    ({
      metadata: { name: `shop.${name}`, namespace: 'default', uid: name },
      spec: { address: name, type: 'queue', plan: 'small' },
      status: { statistics: { stored: { messages: 3 } } },
    }) as unknown as Address,
);

it.each([
  ['delete', 'Delete'],
  ['purge', 'Purge'],
] as const)('stops to %s addresses once the session is of another user', async (action, verb) => {
  bindSession({ ...NO_SESSION, user: 'alice', csrf: 'first' });
  const sent = vi.fn<typeof fetch>(() => {
    // The page takes over the session of another tab while the first address is in progress.
    bindSession({ ...NO_SESSION, user: 'bob', csrf: 'second' });
    return Promise.resolve(new Response(JSON.stringify({ messages: 3 })));
  });
  vi.stubGlobal('fetch', sent);
  const onDone = vi.fn();
  render(<BulkDialog bulk={{ action, addresses: ADDRESSES }} onClose={vi.fn()} onDone={onDone} />);
  await userEvent.click(screen.getByRole('button', { name: verb }));
  expect(await screen.findByText(/Another account has logged in: bob/)).toBeVisible();
  expect(sent).toHaveBeenCalledOnce();
  expect(onDone).not.toHaveBeenCalled();
});
