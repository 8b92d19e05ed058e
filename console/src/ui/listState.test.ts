import { expect, it } from 'vitest';
import { arrange } from './listState';

const ROWS = [
  { name: 'b10', size: 1 },
  { name: 'b9', size: 3 },
  { name: 'a1', size: 2 },
];

function state(sort: string, page = 1, perPage = 20) {
  return { sort, page, perPage, offset: (page - 1) * perPage, search: '', filters: {} };
}

const valueOf = (row: (typeof ROWS)[number], key: string) => (key === 'size' ? row.size : row.name);

it('sorts texts by their numbers, and numbers by value', () => {
  const names = (sort: string) => arrange(ROWS, state(sort), () => true, valueOf).rows.map((row) => row.name);
  expect(names('name')).toEqual(['a1', 'b9', 'b10']);
  expect(names('-size')).toEqual(['b9', 'a1', 'b10']);
});

it('filters before it cuts a page', () => {
  const found = arrange(ROWS, state('name', 2, 1), (row) => row.name.startsWith('b'), valueOf);
  expect(found).toEqual({ rows: [{ name: 'b10', size: 1 }], total: 2 });
});
