// @vitest-environment jsdom
import { screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { expect, it, vi } from 'vitest';
import { render } from '@/test/render';
import { WizardPage } from './WizardPage';

function wizard(run: () => Promise<unknown>) {
  return render(
    <WizardPage
      title="Create thing"
      crumbs={[]}
      steps={['one', 'two', 'three'].map((id) => ({
        id,
        title: `Step ${id}`,
        content: <p>Content {id}</p>,
        isComplete: true,
      }))}
      cancelTo="/"
      isChecking={false}
      run={run}
      onDone={() => undefined}
    />,
  );
}

it('goes one step at a double click, and creates nothing by it', async () => {
  const run = vi.fn(() => Promise.resolve());
  wizard(run);
  await userEvent.dblClick(screen.getByRole('button', { name: 'Next' }));
  expect(screen.getByText('Content two')).toBeVisible();
  await userEvent.dblClick(screen.getByRole('button', { name: 'Next' }));
  expect(screen.getByText('Content three')).toBeVisible();
  expect(run).not.toHaveBeenCalled();
});

it('creates once at a double click', async () => {
  const run = vi.fn(() => Promise.resolve());
  wizard(run);
  await userEvent.click(screen.getByRole('button', { name: 'Next' }));
  await userEvent.click(screen.getByRole('button', { name: 'Next' }));
  await userEvent.dblClick(screen.getByRole('button', { name: 'Create' }));
  expect(run).toHaveBeenCalledOnce();
});
