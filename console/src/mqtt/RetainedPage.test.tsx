// @vitest-environment jsdom
import { screen, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, expect, it, vi } from 'vitest';
import { renderInSpace } from '@/test/spacePage';
import { RetainedPage } from './RetainedPage';

const BASE = '/apis/enmasse.io/v1beta1/namespaces/default/addressspaces/shop/retained';
const DELETE = ['delete addressspaces retained'];

let topics: string[];
let asked: { method: string; filter: string | null; after: string | null }[];

/** Filters end with `#` or are a topic; a part has two messages. */
function answer(path: string, init?: RequestInit): Response {
  const url = new URL(path, 'http://console');
  expect(url.pathname).toBe(BASE);
  const method = init?.method ?? 'GET';
  const filter = url.searchParams.get('filter') ?? '';
  const after = url.searchParams.get('continue');
  asked.push({ method, filter, after });
  if (filter.startsWith('wrong'))
    return new Response(JSON.stringify({ message: 'a wildcard is not a whole level' }), { status: 422 });
  const matching = topics.filter((topic) =>
    filter.endsWith('#') ? topic.startsWith(filter.slice(0, -1)) : topic === filter,
  );
  const start = Number(after ?? 0);
  const part = matching.slice(start, start + 2);
  if (method === 'DELETE') {
    topics = topics.filter((topic) => !part.includes(topic));
    const metadata = matching.length > part.length ? { continue: '0' } : {};
    return new Response(JSON.stringify({ messages: part.length, metadata }));
  }
  const items = part.map((topic) => ({
    topic,
    id: topics.indexOf(topic),
    bytes: 9,
    enqueued: '2026-01-01T00:00:00Z',
    message: { body: `{"of": "${topic}"}`, properties: { to: topic } },
  }));
  const metadata = matching.length > start + 2 ? { continue: String(start + 2) } : {};
  return new Response(JSON.stringify({ items, metadata }));
}

function page(kept: string[], rights: readonly string[] = DELETE, search = '') {
  topics = kept;
  asked = [];
  vi.stubGlobal('fetch', (path: string, init?: RequestInit) => Promise.resolve(answer(path, init)));
  renderInSpace(<RetainedPage />, rights, search);
}

const filterField = () => screen.getByRole('textbox', { name: 'Topic filter' });

afterEach(() => {
  vi.unstubAllGlobals();
});

it('says when no topic keeps a message', async () => {
  page([]);
  expect(await screen.findByRole('heading', { name: 'No retained messages' })).toBeVisible();
  expect(screen.getByRole('button', { name: 'Delete all' })).toBeDisabled();
});

it('shows the message of each topic in parts, and its body on demand', async () => {
  page(['a/1', 'a/2', 'b/1']);
  await userEvent.click(await screen.findByRole('button', { name: 'Show more (2 messages so far)' }));
  await userEvent.click(await screen.findByRole('button', { name: 'b/1' }));
  const detail = screen.getByRole('dialog', { name: 'b/1' });
  expect(await within(detail).findByLabelText('Body of the message')).toHaveTextContent('"of": "b/1"');
});

it('selects by topic filter', async () => {
  page(['a/1', 'b/1']);
  await userEvent.type(filterField(), 'b/#{Enter}');
  expect(await screen.findByRole('button', { name: 'b/1' })).toBeVisible();
  expect(screen.queryByRole('button', { name: 'a/1' })).toBeNull();
});

it('says what is wrong with a topic filter, and deletes nothing by it', async () => {
  page(['a/1']);
  await userEvent.type(filterField(), 'wrong#{Enter}');
  expect(await screen.findByText('a wildcard is not a whole level')).toBeVisible();
  expect(screen.getByRole('button', { name: 'Delete matching' })).toBeDisabled();
});

it('deletes all that match in parts once that is confirmed', async () => {
  page(['a/1', 'a/2', 'a/3', 'b/1'], DELETE, '?filter=a/%23');
  const button = await screen.findByRole('button', { name: 'Delete matching' });
  await screen.findByRole('button', { name: 'a/1' });
  await userEvent.click(button);
  const question = screen.getByRole('dialog');
  expect(question).toHaveTextContent('More than 2 messages whose topic matches a/# will be lost.');
  expect(topics).toHaveLength(4);
  await userEvent.click(within(question).getByRole('button', { name: 'Delete' }));
  expect(await screen.findByText('3 retained messages deleted.')).toBeVisible();
  expect(topics).toEqual(['b/1']);
});

it('deletes the message of one topic', async () => {
  page(['a/1', 'a/2']);
  await userEvent.click(await screen.findByRole('button', { name: 'Actions of a/1' }));
  await userEvent.click(screen.getByRole('menuitem', { name: 'Delete' }));
  await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Delete' }));
  expect(await screen.findByText('1 retained message deleted.')).toBeVisible();
  expect(topics).toEqual(['a/2']);
});

it('does not offer to delete without the right', async () => {
  page(['a/1'], []);
  expect(await screen.findByRole('button', { name: 'a/1' })).toBeVisible();
  expect(screen.queryByRole('button', { name: 'Delete all' })).toBeNull();
  expect(screen.queryByRole('button', { name: 'Actions of a/1' })).toBeNull();
});
