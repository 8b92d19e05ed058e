// @vitest-environment jsdom
import { screen } from '@testing-library/react';
import { useLocation } from 'react-router';
import { expect, it } from 'vitest';
import { render } from '@/test/render';
import { Pages } from './ListToolbar';
import { useListState } from './listState';

function List({ total, isStale = false }: { total: number; isStale?: boolean }) {
  const control = useListState('name');
  return (
    <>
      <p>{useLocation().search}</p>
      <Pages control={control} total={total} isStale={isStale} />
    </>
  );
}

it('shows the last page in place of one that has no rows any more', async () => {
  render(<List total={120} />, '/?page=9');
  expect(await screen.findByText('?page=3')).toBeVisible();
});

it('keeps a page while the number of rows is that of the list before', () => {
  render(<List total={3} isStale />, '/?page=9');
  expect(screen.getByText('?page=9')).toBeVisible();
});
