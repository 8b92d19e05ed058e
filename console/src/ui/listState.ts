import { useCallback, useMemo } from 'react';
import { useSearchParams } from 'react-router';

/** What a list shows, kept in the address bar: a reload, a bookmark and the back button find it again. */

export interface ListState {
  page: number;
  perPage: number;
  /** The key to sort by; a leading `-` is descending. */
  sort: string;
  search: string;
  filters: Record<string, string>;
}

export interface ListControl extends ListState {
  offset: number;
  isFiltered: boolean;
  set: (change: Partial<ListState>) => void;
  clear: () => void;
}

export const PER_PAGE = [20, 50, 100] as const;
const DEFAULT_PER_PAGE = 50;
const RESERVED = ['page', 'per', 'sort', 'q'];

function positive(text: string | null, otherwise: number): number {
  const value = Number(text);
  return Number.isInteger(value) && value > 0 ? value : otherwise;
}

export function useListState(defaultSort: string, filterNames: readonly string[] = []): ListControl {
  const [parameters, setParameters] = useSearchParams();
  const names = filterNames.join();
  const state = useMemo<ListState>(() => {
    const filters: Record<string, string> = {};
    for (const name of names.split(',').filter(Boolean)) {
      const value = parameters.get(name);
      if (value) filters[name] = value;
    }
    return {
      page: positive(parameters.get('page'), 1),
      perPage: positive(parameters.get('per'), DEFAULT_PER_PAGE),
      sort: parameters.get('sort') ?? defaultSort,
      search: parameters.get('q') ?? '',
      filters,
    };
  }, [parameters, defaultSort, names]);
  const set = useCallback(
    (change: Partial<ListState>) => {
      setParameters(
        (before) => {
          const next = new URLSearchParams(before);
          const put = (name: string, value: string | undefined, isDefault: boolean) => {
            if (!value || isDefault) next.delete(name);
            else next.set(name, value);
          };
          // Another order or filter begins at the first page.
          const page = change.page ?? 1;
          put('page', String(page), page === 1);
          if (change.perPage !== undefined)
            put('per', String(change.perPage), change.perPage === DEFAULT_PER_PAGE);
          if (change.sort !== undefined) put('sort', change.sort, change.sort === defaultSort);
          if (change.search !== undefined) put('q', change.search, change.search === '');
          if (change.filters)
            for (const [name, value] of Object.entries(change.filters)) put(name, value, false);
          return next;
        },
        { replace: true },
      );
    },
    [setParameters, defaultSort],
  );
  const clear = useCallback(() => {
    setParameters(
      (before) => {
        const next = new URLSearchParams();
        for (const name of RESERVED.slice(1, 3)) {
          const value = before.get(name);
          if (value) next.set(name, value);
        }
        return next;
      },
      { replace: true },
    );
  }, [setParameters]);
  return {
    ...state,
    offset: (state.page - 1) * state.perPage,
    isFiltered: state.search !== '' || Object.keys(state.filters).length > 0,
    set,
    clear,
  };
}

export interface SortedRows<T> {
  rows: T[];
  total: number;
}

/** Filter, sort and cut rows that are all here. `valueOf` is what a key sorts by. */
export function arrange<T>(
  rows: readonly T[],
  control: ListState & { offset: number },
  matches: (row: T) => boolean,
  valueOf: (row: T, key: string) => string | number,
): SortedRows<T> {
  const isDescending = control.sort.startsWith('-');
  const key = control.sort.replace(/^-/, '');
  const found = rows.filter(matches).map((row) => ({ row, value: valueOf(row, key) }));
  found.sort((one, other) => {
    const order =
      typeof one.value === 'number' && typeof other.value === 'number'
        ? one.value - other.value
        : String(one.value).localeCompare(String(other.value), 'en', { numeric: true });
    return isDescending ? -order : order;
  });
  const page = found.slice(control.offset, control.offset + control.perPage);
  return { rows: page.map(({ row }) => row), total: found.length };
}
