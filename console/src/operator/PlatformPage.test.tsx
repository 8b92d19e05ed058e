// @vitest-environment jsdom
import { screen } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';
import { SessionProvider, useSessionControl } from '@/app/session';
import { render } from '@/test/render';
import { PlatformPage } from './PlatformPage';

const STAND_BY = 'this process is a stand-by; another process of the same database serves messaging';
const SESSION = {
  user: 'ops',
  csrf: 'c',
  may: { operate: true, readAll: true, namespaces: [] },
  platform: { version: '1.2.3', endpoints: { amqp: { host: '127.0.0.1', port: 5672 } } },
};
const COUNTS = {
  totals: {},
  addressSpaces: { total: 0, ready: 0 },
  users: { total: 0 },
  addresses: { total: 0, ready: 0, byType: {}, byPhase: {} },
  notReady: [],
  top: {},
  certificates: [],
};
const LEADER = {
  workers: [{ busy: 0.25, connections: 3 }],
  journal: { usedBytes: 1024, aliveBytes: 512, stopped: null, unreadable: null },
  disk: { freeBytes: 250, sizeBytes: 1000 },
  problem: null,
};

function Page() {
  const { state } = useSessionControl();
  return state.phase === 'in' ? <PlatformPage /> : null;
}

function platform(node: unknown, nodes: unknown[] = []) {
  vi.stubGlobal('fetch', (path: string) => {
    const answer = path.startsWith('/console/session')
      ? SESSION
      : path.includes('/overview')
        ? { ...COUNTS, node }
        : { items: path.includes('/messagingnodes') ? nodes : [], metadata: {} };
    return Promise.resolve(new Response(JSON.stringify(answer)));
  });
  render(
    <SessionProvider>
      <Page />
    </SessionProvider>,
  );
}

afterEach(() => {
  vi.unstubAllGlobals();
});

it('shows how busy the workers and how full the disk are', async () => {
  platform(LEADER);
  expect(await screen.findByRole('progressbar', { name: 'Worker 0 busy' })).toHaveAttribute(
    'aria-valuenow',
    '25',
  );
  expect(screen.getByRole('progressbar', { name: /Disk/ })).toHaveAttribute('aria-valuenow', '75');
});

it('says that a stand-by waits, which has no workers, no journal and no disk', async () => {
  platform({ workers: [], journal: null, disk: null, problem: STAND_BY });
  expect(await screen.findByText(STAND_BY)).toBeVisible();
  expect(screen.getByText('A stand-by has no workers.')).toBeVisible();
  expect(screen.queryByRole('progressbar')).toBeNull();
});

it('lists the nodes with the reason why one is not ready', async () => {
  const silent = {
    metadata: { name: 'rack-2', namespace: 'enmasse-infra' },
    spec: { cordoned: true },
    status: { phase: 'Failed', isReady: false, message: 'no heartbeat for 15 s', role: 'standby' },
  };
  platform(LEADER, [silent]);
  expect(await screen.findByText('rack-2')).toBeVisible();
  expect(screen.getByText('no heartbeat for 15 s')).toBeVisible();
  expect(screen.getByText(/cordoned/)).toBeVisible();
});
