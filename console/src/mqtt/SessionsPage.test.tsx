// @vitest-environment jsdom
import { screen, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, expect, it, vi } from 'vitest';
import { HOSTILE_NAMES } from '@/test/hostileNames';
import { renderInSpace } from '@/test/spacePage';
import { SessionsPage } from './SessionsPage';
import type { MqttSession } from './queries';

const BASE = '/apis/enmasse.io/v1beta1/namespaces/default/addressspaces/shop/mqttsessions';
const END = ['delete addressspaces mqttsessions'];
const METER: MqttSession = {
  kind: 'client',
  clientId: 'meter-1',
  user: 'amy',
  connected: true,
  connection: '17',
  expirySeconds: 3600,
  subscriptionCount: 2,
  subscriptions: [
    { filter: 'alarms/#', qos: 0, noLocal: false },
    { filter: 'sensors/+/t', qos: 2, noLocal: true },
  ],
  will: { topic: 'alarms/lost', qos: 1, retain: true, delaySeconds: 60, bytes: 5 },
};
const AWAY: MqttSession = {
  kind: 'client',
  clientId: 'meter-1',
  connected: false,
  subscriptionCount: 0,
  subscriptions: [],
};

let sessions: MqttSession[];
let asked: string[];

/** Pages of two sessions; DELETE removes one. */
function answer(path: string, init?: RequestInit): Response {
  const url = new URL(path, 'http://console');
  expect(url.pathname).toBe(BASE);
  asked.push(`${init?.method ?? 'GET'} ${url.search}`);
  if (init?.method === 'DELETE') {
    const user = url.searchParams.get('user') ?? undefined;
    const clientId = url.searchParams.get('clientId');
    sessions = sessions.filter((one) => one.clientId !== clientId || one.user !== user);
    return new Response(JSON.stringify({ status: 'Success' }));
  }
  const start = Number(url.searchParams.get('continue') ?? 0);
  const more = Math.max(0, sessions.length - start - 2);
  const metadata = { remainingItemCount: more, ...(more > 0 ? { continue: String(start + 2) } : {}) };
  return new Response(JSON.stringify({ items: sessions.slice(start, start + 2), metadata }));
}

function page(shown: MqttSession[], rights: readonly string[] = END) {
  sessions = shown;
  asked = [];
  vi.stubGlobal('fetch', (path: string, init?: RequestInit) => Promise.resolve(answer(path, init)));
  renderInSpace(<SessionsPage />, rights);
}

afterEach(() => {
  vi.unstubAllGlobals();
});

it('says when there are no sessions', async () => {
  page([]);
  expect(await screen.findByRole('heading', { name: 'No MQTT sessions' })).toBeVisible();
});

it('shows of each session its user, its client, when it ends, its filters and its will', async () => {
  page([METER, AWAY]);
  await screen.findByText('amy');
  const [, first, second] = screen.getAllByRole('row');
  expect(first).toHaveTextContent(/meter-1.*amy.*connected.*1h after its connection.*2.*alarms\/lost/);
  expect(within(first as HTMLElement).getByRole('link', { name: 'connected' })).toHaveAttribute(
    'href',
    '/spaces/default/shop/connections/17',
  );
  expect(second).toHaveTextContent(/anonymous.*away.*never/);
});

it('shows all of a session on demand', async () => {
  page([METER]);
  await userEvent.click(await screen.findByRole('button', { name: 'meter-1' }));
  const detail = screen.getByRole('dialog', { name: 'Session of meter-1' });
  expect(within(detail).getByText('sensors/+/t')).toBeVisible();
  expect(within(detail).getByText('5 B, QoS 1, retained')).toBeVisible();
});

it('ends the session of a client id and its user once that is confirmed', async () => {
  page([METER, AWAY]);
  await userEvent.click(
    (await screen.findAllByRole('button', { name: 'Actions of meter-1' }))[0] as HTMLElement,
  );
  await userEvent.click(screen.getByRole('menuitem', { name: 'End session' }));
  const question = screen.getByRole('dialog');
  expect(question).toHaveTextContent('loses 2 subscriptions');
  expect(question).toHaveTextContent('Its will is published.');
  expect(asked.some((one) => one.startsWith('DELETE'))).toBe(false);
  await userEvent.click(within(question).getByRole('button', { name: 'End session' }));
  expect(asked).toContain('DELETE ?kind=client&clientId=meter-1&user=amy');
  expect(await screen.findByText('anonymous')).toBeVisible();
  expect(screen.queryByText('amy')).toBeNull();
});

it('tells sessions of AMQP clients apart, and ends them by their kind', async () => {
  const will: MqttSession = { ...METER, kind: 'will', link: 'lwt' };
  page([{ ...AWAY, kind: 'subscription' }, will]);
  await screen.findByText('amy');
  const [, first, second] = screen.getAllByRole('row');
  expect(first).toHaveTextContent('AMQP subscription');
  expect(second).toHaveTextContent('AMQP will');
  await userEvent.click(screen.getAllByRole('button', { name: 'Actions of meter-1' })[1] as HTMLElement);
  await userEvent.click(screen.getByRole('menuitem', { name: 'End session' }));
  await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'End session' }));
  expect(asked).toContain('DELETE ?kind=will&clientId=meter-1&user=amy&link=lwt');
});

it('does not offer to end a session without the right', async () => {
  page([METER], []);
  expect(await screen.findByText('amy')).toBeVisible();
  expect(screen.queryByRole('button', { name: 'Actions of meter-1' })).toBeNull();
});

it('reads sessions in parts', async () => {
  page(['a', 'b', 'c'].map((clientId) => ({ ...AWAY, clientId })));
  await userEvent.click(await screen.findByRole('button', { name: 'Show more (2 sessions so far, 1 more)' }));
  expect(await screen.findByRole('button', { name: 'c' })).toBeVisible();
  expect(screen.queryByRole('button', { name: /Show more/ })).toBeNull();
});

it('shows hostile client ids as text', async () => {
  page(HOSTILE_NAMES.slice(0, 2).map((clientId) => ({ ...AWAY, clientId })));
  for (const name of HOSTILE_NAMES.slice(0, 2))
    expect(await screen.findByTitle(name)).toHaveTextContent(name);
});
