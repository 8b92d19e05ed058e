// @vitest-environment jsdom
import { screen } from '@testing-library/react';
import { Route, Routes } from 'react-router';
import { afterEach, expect, it, vi } from 'vitest';
import { render } from '@/test/render';
import { PipelineListPage } from './PipelineListPage';
import { PipelinePage } from './PipelinePage';

vi.mock('@/app/session', () => ({
  useSession: () => ({ may: { operate: true, readAll: true, namespaces: ['factory'] } }),
}));

const PLANT = {
  metadata: { name: 'plant', namespace: 'factory', uid: 'u1' },
  spec: { sources: [{ name: 'machines', url: 'amqp://127.0.0.1', address: 'readings', format: 'json' }] },
  status: {
    phase: 'Pending',
    isReady: false,
    conditions: [
      { type: 'Ready', status: 'False', reason: 'NotRun', message: 'the platform runs no pipelines; run it' },
    ],
  },
};
const SOURCE = { source: 'machines', messages: 1234, lagMessages: 77 };

function page(report: unknown, at = '/pipelines/factory/plant') {
  vi.stubGlobal('fetch', (path: string) => {
    if (path.includes('watch=')) return new Promise(() => undefined);
    const listed = { metadata: { resourceVersion: '1' }, items: [PLANT] };
    if (!path.endsWith('/report'))
      return Promise.resolve(new Response(JSON.stringify(path.includes('/plant') ? PLANT : listed)));
    return Promise.resolve(
      report === null
        ? new Response(JSON.stringify({ message: 'no running process reports' }), { status: 404 })
        : new Response(JSON.stringify({ time: '2026-01-01T00:00:00Z', report })),
    );
  });
  render(
    <Routes>
      <Route path="/pipelines" element={<PipelineListPage />} />
      <Route path="/pipelines/:namespace/:pipeline" element={<PipelinePage />} />
    </Routes>,
    at,
  );
}

afterEach(() => {
  vi.unstubAllGlobals();
});

it('says how to run a pipeline that no process reports on', async () => {
  page(null);
  expect(await screen.findByText('No running process reports.', { exact: false })).toBeVisible();
  expect(screen.getByText('Pending')).toBeVisible();
  expect(screen.getByText('the platform runs no pipelines; run it')).toBeVisible();
});

it('does not ask to run a pipeline that a process reports on', async () => {
  page({ running: true, sources: [SOURCE] });
  expect(await screen.findByText('1,234')).toBeVisible();
  expect(screen.getByText('Running')).toBeVisible();
  expect(screen.queryByText('Pending')).toBeNull();
  expect(screen.queryByText('the platform runs no pipelines; run it')).toBeNull();
});

it('says which source of a running pipeline fails, and why', async () => {
  page({ running: true, sources: [{ ...SOURCE, trouble: { message: 'the login was refused' } }] });
  expect(await screen.findByText('the login was refused')).toBeVisible();
  expect(screen.getByText('Failing')).toBeVisible();
});

it.each([
  [null, 'Pending'],
  [{ running: true, sources: [SOURCE] }, 'Running'],
  [{ running: true, sources: [{ ...SOURCE, trouble: { message: 'refused' } }] }, 'Failing'],
])('shows in the list what the page of a pipeline shows', async (report, phase) => {
  page(report, '/pipelines');
  expect(await screen.findByRole('link', { name: 'plant' })).toBeVisible();
  expect(await screen.findByText(phase)).toBeVisible();
});
