// @vitest-environment jsdom
import { screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { useQuery } from '@tanstack/react-query';
import { reportReached } from '@/api/connectivity';
import { request } from '@/api/http';
import { render } from '@/test/render';
import { SessionProvider, useSessionControl } from './session';

/** The session of the cookie, which all tabs share. */
let cookie: { user: string; csrf: string } | null;
/** Whose writes the platform has done. */
let done: string[];
/** What a request for the session is answered with, or `away` if with nothing; absent: the session. */
let failing: number | 'away' | undefined;
/** Answers of writes arrive after this. */
let writesAnswered: Promise<void>;

const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status });

function answer(path: string, init?: RequestInit): Response {
  if (path === '/console/session' && typeof failing === 'number')
    return json(failing, { message: 'the platform is busy' });
  if (!cookie) return json(401, { message: 'no session' });
  const isWrite = init?.method !== 'GET';
  if (isWrite && (init?.headers as Headers).get('X-CSRF-Token') !== cookie.csrf)
    return json(403, { message: 'send the header X-CSRF-Token', details: { code: 'E2006' } });
  if (isWrite) done.push(cookie.user);
  if (path !== '/console/session') return json(200, { seenBy: cookie.user });
  if (!isWrite) return json(200, cookie);
  cookie = null;
  return new Response(null, { status: 204 });
}

beforeEach(() => {
  cookie = { user: 'alice', csrf: 'first' };
  done = [];
  failing = undefined;
  writesAnswered = Promise.resolve();
  vi.stubGlobal('fetch', async (path: string, init?: RequestInit) => {
    if (path === '/console/session' && failing === 'away') throw new TypeError('network');
    const response = answer(path, init);
    if (init?.method !== 'GET') await writesAnswered;
    return response;
  });
});

afterEach(() => {
  reportReached();
  vi.unstubAllGlobals();
});

function Tab() {
  const { state, resume, logOut } = useSessionControl();
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
      {state.phase === 'failed' ? <p>{state.error.message}</p> : null}
      <button onClick={() => void resume()}>Try again</button>
      <button onClick={() => void logOut()}>Log out</button>
    </>
  );
}

function renderTab() {
  render(
    <SessionProvider>
      <Tab />
    </SessionProvider>,
  );
}

function showAgain() {
  document.dispatchEvent(new Event('visibilitychange'));
}

function write() {
  return request('POST', '/apis/page', { body: {} });
}

async function openTab() {
  renderTab();
  await screen.findByText('page of alice');
}

it('writes after the same user has logged in again in another tab', async () => {
  await openTab();
  cookie = { user: 'alice', csrf: 'second' };
  expect(await write()).toEqual({ seenBy: 'alice' });
});

it('writes nothing as another user, and shows who it is now', async () => {
  await openTab();
  cookie = { user: 'bob', csrf: 'second' };
  await expect(write()).rejects.toThrow('Another account has logged in');
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
  showAgain();
  await waitFor(() => {
    expect(screen.getByText(shown)).toBeVisible();
  });
});

it('repeats none of several writes in flight as another user', async () => {
  await openTab();
  cookie = { user: 'bob', csrf: 'second' };
  const outcomes = await Promise.allSettled([write(), write(), write()]);
  expect(outcomes.map((one) => one.status)).toEqual(['rejected', 'rejected', 'rejected']);
  for (const one of outcomes)
    expect(String((one as PromiseRejectedResult).reason)).toContain('Another account has logged in: bob');
  expect(done).toEqual([]);
  expect(await screen.findAllByText(/goes on as bob/)).toHaveLength(1);
});

it('does not repeat a write as the user whom the page has taken over meanwhile', async () => {
  await openTab();
  cookie = { user: 'bob', csrf: 'second' };
  let deliver: () => void = () => undefined;
  writesAnswered = new Promise((resolve) => {
    deliver = resolve;
  });
  const written = write();
  showAgain();
  expect(await screen.findByText('bob')).toBeVisible();
  deliver();
  await expect(written).rejects.toThrow('Another account has logged in: bob');
  expect(done).toEqual([]);
});

it.each([500, 503, 429])('keeps the session when asking for it fails with %d', async (status) => {
  await openTab();
  failing = status;
  showAgain();
  expect(await screen.findByText(/could not be checked. the platform is busy/)).toBeVisible();
  expect(screen.getByText('alice')).toBeVisible();
});

it.each([
  [503, 'the platform is busy'],
  ['away', 'does not answer'],
] as const)('says why a session could not be renewed: %s', async (reason, message) => {
  await openTab();
  cookie = { user: 'alice', csrf: 'second' };
  failing = reason;
  await expect(write()).rejects.toThrow(message);
  expect(screen.getByText('alice')).toBeVisible();
  expect(done).toEqual([]);
});

it('says that the session is over when it ends before the renewal', async () => {
  await openTab();
  cookie = { user: 'alice', csrf: 'second' };
  failing = 401;
  await expect(write()).rejects.toMatchObject({ status: 401 });
  expect(await screen.findByText('out')).toBeVisible();
});

it('shows why the first request failed, and goes on after another one', async () => {
  failing = 503;
  renderTab();
  expect(await screen.findByText('failed')).toBeVisible();
  expect(screen.getByText('the platform is busy')).toBeVisible();
  failing = undefined;
  await userEvent.click(screen.getByRole('button', { name: 'Try again' }));
  expect(await screen.findByText('page of alice')).toBeVisible();
});

it.each([
  ['the session', { user: 'alice', csrf: 'first' }, ['alice']],
  ['a later session of the same user', { user: 'alice', csrf: 'second' }, ['alice']],
  ['no session', null, []],
])('logs out with %s', async (_title, present, ended) => {
  await openTab();
  cookie = present;
  await userEvent.click(screen.getByRole('button', { name: 'Log out' }));
  expect(await screen.findByText('out')).toBeVisible();
  expect(cookie).toBeNull();
  expect(done).toEqual(ended);
});

it('does not claim to have logged out another user, and says who it is', async () => {
  await openTab();
  cookie = { user: 'bob', csrf: 'second' };
  await userEvent.click(screen.getByRole('button', { name: 'Log out' }));
  expect(await screen.findByText(/You are not logged out.*logged in: bob/)).toBeVisible();
  expect(screen.getByText('bob')).toBeVisible();
  await userEvent.click(screen.getByRole('button', { name: 'Log out' }));
  expect(await screen.findByText('out')).toBeVisible();
  expect(done).toEqual(['bob']);
});

it('stays logged in when the platform refuses to log out', async () => {
  await openTab();
  failing = 503;
  await userEvent.click(screen.getByRole('button', { name: 'Log out' }));
  expect(await screen.findByText('You are not logged out. the platform is busy')).toBeVisible();
  expect(screen.getByText('alice')).toBeVisible();
});
