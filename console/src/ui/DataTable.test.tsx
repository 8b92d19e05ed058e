// @vitest-environment jsdom
import { screen, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { describe, expect, it, vi } from 'vitest';
import { ApiError } from '@/api/errors';
import { HOSTILE_NAMES } from '@/test/hostileNames';
import { render } from '@/test/render';
import { DataTable, type Column } from './DataTable';
import { Name } from './Name';
import { Empty } from './States';

interface Row {
  name: string;
  stored: number;
}

const COLUMNS: Column<Row>[] = [
  {
    key: 'name',
    title: 'Name',
    isSortable: true,
    render: (row) => <Name to={`/x/${row.name.length}`}>{row.name}</Name>,
  },
  { key: 'stored', title: 'Stored', isSortable: true, isNumeric: true, render: (row) => row.stored },
];

function table(rows: Row[] | undefined, more: Partial<Parameters<typeof DataTable<Row>>[0]> = {}) {
  return (
    <DataTable
      label="Things"
      columns={COLUMNS}
      rows={rows}
      keyOf={(row) => row.name}
      empty={<Empty title="No things yet" />}
      {...more}
    />
  );
}

describe('DataTable', () => {
  it('shows where rows will be while they are on their way', () => {
    render(table(undefined));
    expect(screen.getByRole('grid', { name: 'Things' })).toHaveAttribute('aria-busy', 'true');
  });

  it('says what to do when there is nothing', () => {
    render(table([]));
    expect(screen.getByRole('heading', { name: 'No things yet' })).toBeVisible();
  });

  it('says why rows could not be fetched, and offers another try', async () => {
    const retry = vi.fn();
    render(table(undefined, { error: new ApiError(500, 'the journal has stopped; restart'), retry }));
    expect(screen.getByText('the journal has stopped; restart')).toBeVisible();
    await userEvent.click(screen.getByRole('button', { name: 'Try again' }));
    expect(retry).toHaveBeenCalledOnce();
  });

  it('keeps the rows of before when a later request fails', () => {
    render(table([{ name: 'a', stored: 1 }], { error: new ApiError(500, 'gone') }));
    expect(screen.getByRole('link', { name: 'a' })).toBeVisible();
  });

  it('shows hostile names as text', () => {
    render(table(HOSTILE_NAMES.map((name) => ({ name, stored: 0 }))));
    expect(document.querySelector('td script')).toBeNull();
    for (const name of HOSTILE_NAMES)
      expect(screen.getByTitle(name)).toHaveTextContent(name, { normalizeWhitespace: false });
  });

  it('asks for the largest numbers first', async () => {
    const onSort = vi.fn();
    render(table([{ name: 'a', stored: 1 }], { sort: 'name', onSort }));
    await userEvent.click(screen.getByRole('button', { name: 'Stored' }));
    expect(onSort).toHaveBeenLastCalledWith('-stored');
    await userEvent.click(screen.getByRole('button', { name: 'Name' }));
    expect(onSort).toHaveBeenLastCalledWith('-name');
  });

  it('moves between rows by arrow keys', async () => {
    render(
      table([
        { name: 'a', stored: 1 },
        { name: 'b', stored: 2 },
      ]),
    );
    screen.getByRole('link', { name: 'a' }).focus();
    await userEvent.keyboard('{ArrowDown}');
    expect(screen.getByRole('link', { name: 'b' })).toHaveFocus();
    await userEvent.keyboard('{ArrowUp}');
    expect(screen.getByRole('link', { name: 'a' })).toHaveFocus();
  });

  it('selects rows, and all rows of the page', async () => {
    const onChange = vi.fn();
    render(
      table(
        [
          { name: 'a', stored: 1 },
          { name: 'b', stored: 2 },
        ],
        { selection: { selected: new Set(), onChange } },
      ),
    );
    await userEvent.click(screen.getByRole('checkbox', { name: /Select all rows/ }));
    expect(onChange).toHaveBeenLastCalledWith(new Set(['a', 'b']));
    await userEvent.click(within(screen.getAllByRole('row')[1] as HTMLElement).getByRole('checkbox'));
    expect(onChange).toHaveBeenLastCalledWith(new Set(['a']));
  });

  it('keeps 10,000 rows out of the document but for those in view', async () => {
    const rows = Array.from({ length: 10_000 }, (_, index) => ({ name: `n${String(index)}`, stored: index }));
    render(table(rows));
    const shown = (await screen.findAllByRole('link')).length;
    expect(shown).toBeGreaterThan(5);
    expect(shown).toBeLessThan(100);
    expect(screen.getByRole('grid')).toHaveAttribute('aria-rowcount', '10000');
  });
});
