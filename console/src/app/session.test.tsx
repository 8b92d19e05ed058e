// @vitest-environment jsdom
import { screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { useQuery } from '@tanstack/react-query';
import { request } from '@/api/http';
import { render } from '@/test/render';
import { SessionProvider, useSessionControl } from './session';

/** The session of the cookie, which all tabs share. */
let cookie: { user: string; csrf: string } | null;

function answer(path: string, init?: RequestInit): Response {
  const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status });
  if (!cookie) return json(401, { message: 'no session' });
  if (path === '/console/session') return json(200, cookie);
  if (init?.method === 'POST' && (init.headers as Headers).get('X-CSRF-Token') !== cookie.csrf)
    return json(403, { message: 'send the header X-CSRF-Token', details: { code: 'E2006' } });
  return json(200, { seenBy: cookie.user });
}

beforeEach(() => {
  cookie = { user: 'alice', csrf: 'first' };
  vi.stubGlobal('fetch', (path: string, init?: RequestInit) => Promise.resolve(answer(path, init)));
});

afterEach(() => {
  vi.unstubAllGlobals();
});

function Tab() {
  const { state } = useSessionControl();
  const { data } = useQuery({
    queryKey: ['page'],
    queryFn: () => request<{ seenBy: string }>('GET', '/apis/page'),
    enabled: state.phase === 'in',
    staleTime: Infinity,
  });
  return (
    <>
      <p>{state.phase === 'in' ? state.session.user : state.phase}</p>
      <p>page of {data?.seenBy}</p>
    </>
  );
}

async function openTab() {
  render(
    <SessionProvider>
      <Tab />
    </SessionProvider>,
  );
  await screen.findByText('page of alice');
}

it('writes after the same user has logged in again in another tab', async () => {
  await openTab();
  cookie = { user: 'alice', csrf: 'second' };
  expect(await request('POST', '/apis/page', { body: {} })).toEqual({ seenBy: 'alice' });
});

it('writes nothing as another user, and shows who it is now', async () => {
  await openTab();
  cookie = { user: 'bob', csrf: 'second' };
  await expect(request('POST', '/apis/page', { body: {} })).rejects.toThrow('Another account has logged in');
  expect(await screen.findByText('bob')).toBeVisible();
  expect(await screen.findByText('page of bob')).toBeVisible();
  expect(screen.getByText(/goes on as bob/)).toBeVisible();
});

it.each([
  [null, 'out'],
  [{ user: 'bob', csrf: 'second' }, 'bob'],
])('looks at the session when the tab is shown again: %j', async (other, shown) => {
  await openTab();
  cookie = other;
  document.dispatchEvent(new Event('visibilitychange'));
  await waitFor(() => {
    expect(screen.getByText(shown)).toBeVisible();
  });
});
