// @vitest-environment jsdom
import { screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { useEffect, useState } from 'react';
import { Outlet, Route, Routes } from 'react-router';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { render } from '@/test/render';
import { Protected } from './Protected';
import { SessionProvider, useSession } from './session';

// The pages are what these tests are about; the masthead and the navigation take seconds to render.
vi.mock('./Shell', () => ({ Shell: PlainShell }));

function PlainShell() {
  return (
    <>
      <p>{useSession().user}</p>
      <Outlet />
    </>
  );
}

let answerOfSession: () => Response;

function sessionOf(user: string, csrf: string): () => Response {
  const may = { operate: false, readAll: false, namespaces: [] };
  const session = { user, csrf, isOwner: false, roles: {}, groups: [], may, platform: { version: '1' } };
  return () => new Response(JSON.stringify(session));
}

beforeEach(() => {
  answerOfSession = sessionOf('alice', 'first');
  vi.stubGlobal('fetch', () => Promise.resolve(answerOfSession()));
});

afterEach(() => {
  vi.unstubAllGlobals();
});

/** A page with a draft and something open, such as a stream. */
function DraftPage({ onClose }: { onClose: () => void }) {
  const [draft, setDraft] = useState('');
  useEffect(() => onClose, [onClose]);
  return (
    <input
      aria-label="Password"
      value={draft}
      onChange={(event) => {
        setDraft(event.target.value);
      }}
    />
  );
}

function openPage(onClose: () => void) {
  render(
    <SessionProvider>
      <Routes>
        <Route path="/" element={<Protected />}>
          <Route index element={<DraftPage onClose={onClose} />} />
        </Route>
        <Route path="/login" element={<p>the login</p>} />
      </Routes>
    </SessionProvider>,
  );
}

it('gives another user nothing that was open or typed before', async () => {
  const closed = vi.fn();
  openPage(closed);
  await userEvent.type(await screen.findByLabelText('Password'), 'secret');
  answerOfSession = sessionOf('bob', 'second');
  document.dispatchEvent(new Event('visibilitychange'));
  expect(await screen.findByText('bob')).toBeVisible();
  expect(closed).toHaveBeenCalledOnce();
  expect(screen.getByLabelText('Password')).toHaveValue('');
});

it('keeps the page in a later session of the same user', async () => {
  const closed = vi.fn();
  openPage(closed);
  await userEvent.type(await screen.findByLabelText('Password'), 'secret');
  const asked = vi.fn(sessionOf('alice', 'second'));
  answerOfSession = asked;
  document.dispatchEvent(new Event('visibilitychange'));
  await waitFor(() => {
    expect(asked).toHaveBeenCalled();
  });
  expect(screen.getByLabelText('Password')).toHaveValue('secret');
  expect(closed).not.toHaveBeenCalled();
});

it('shows why the session is unknown instead of the login', async () => {
  answerOfSession = () => new Response(JSON.stringify({ message: 'too many requests' }), { status: 429 });
  openPage(vi.fn());
  expect(await screen.findByText('too many requests')).toBeVisible();
  expect(screen.queryByText('the login')).toBeNull();
  answerOfSession = sessionOf('alice', 'first');
  await userEvent.click(screen.getByRole('button', { name: 'Try again' }));
  expect(await screen.findByText('alice')).toBeVisible();
});
