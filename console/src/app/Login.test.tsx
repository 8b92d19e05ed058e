// @vitest-environment jsdom
import { screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { render } from '@/test/render';
import { LoginPage, destination } from './Login';
import { SessionProvider } from './session';

const sent: { path: string; body: unknown }[] = [];

function answer(path: string, init?: RequestInit): Response {
  const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status });
  if (path.startsWith('/console/login-methods')) return json(200, { token: true, code: true, oidc: null });
  if (init?.method !== 'POST') return json(401, { message: 'no session' });
  const body = JSON.parse(String(init.body)) as { token?: string; code?: string };
  sent.push({ path, body });
  if (body.token === 'good' || body.code === 'fresh')
    return json(201, { user: 'ops', csrf: 'c', may: { namespaces: [] } });
  return json(401, { message: 'the code was used or has expired; run enmasse console again' });
}

beforeEach(() => {
  sent.length = 0;
  vi.stubGlobal('fetch', (path: string, init?: RequestInit) => Promise.resolve(answer(path, init)));
});

afterEach(() => {
  vi.unstubAllGlobals();
  history.replaceState(null, '', '/');
});

function login() {
  return render(
    <SessionProvider>
      <LoginPage />
    </SessionProvider>,
    '/login',
  );
}

it.each([
  ['?then=/spaces%3Fq=a', '/spaces?q=a'],
  ['?then=https://evil.example', '/'],
  ['?then=//evil.example', '/'],
  ['?then=/login', '/'],
  ['', '/'],
])('leads from %s to %s', (search, path) => {
  expect(destination(search)).toBe(path);
});

it('uses the one-time code of the link and removes it from the address bar', async () => {
  history.replaceState(null, '', '/console/login#code=fresh');
  login();
  await waitFor(() => {
    expect(sent).toEqual([{ path: '/console/session', body: { code: 'fresh' } }]);
  });
  expect(location.hash).toBe('');
});

it('says what a used code needs, and offers the token', async () => {
  history.replaceState(null, '', '/console/login#code=used');
  login();
  expect(await screen.findByText(/run enmasse console again/)).toBeVisible();
  expect(screen.getByLabelText(/API token/)).toBeVisible();
});

it('keeps a token out of storage', async () => {
  login();
  await userEvent.type(await screen.findByLabelText(/API token/), 'good');
  await userEvent.click(screen.getByRole('button', { name: 'Log in' }));
  await waitFor(() => {
    expect(sent).toEqual([{ path: '/console/session', body: { token: 'good' } }]);
  });
  expect(JSON.stringify({ ...localStorage, ...sessionStorage })).not.toContain('good');
});
