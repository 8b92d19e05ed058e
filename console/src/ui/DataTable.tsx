import { MenuToggle, Skeleton } from '@patternfly/react-core';
import EllipsisIcon from '@patternfly/react-icons/dist/esm/icons/ellipsis-v-icon';
import { ActionsColumn, Table, Tbody, Td, Th, Thead, Tr, type IAction } from '@patternfly/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useRef, type KeyboardEvent, type ReactNode } from 'react';
import { Empty, Failure } from './States';

/**
 * The table of every list: sorted and paged by its owner, with the states of every page. With many rows only
 * those in view are in the document. Arrow keys move between rows, within the column of the focus.
 */

export interface Column<T> {
  key: string;
  title: string;
  render: (row: T) => ReactNode;
  /** Whether a click on the head sorts by `key`. */
  isSortable?: boolean;
  /** Numbers begin with the largest. */
  isNumeric?: boolean;
  width?: 10 | 15 | 20 | 25 | 30 | 35 | 40 | 45 | 50;
  help?: string;
  /** Cut the content instead of breaking it. */
  isCut?: boolean;
  /** Shown where the window has room for it. */
  isExtra?: boolean;
}

export interface Selection<T> {
  selected: ReadonlySet<string>;
  onChange: (selected: ReadonlySet<string>) => void;
  isSelectable?: (row: T) => boolean;
}

export interface DataTableProps<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[] | undefined;
  keyOf: (row: T) => string;
  /** Name of the row for those who hear it. */
  nameOf?: (row: T) => string;
  sort?: string;
  onSort?: (sort: string) => void;
  selection?: Selection<T>;
  actions?: (row: T) => IAction[];
  expanded?: (row: T) => ReactNode;
  error?: unknown;
  retry?: () => void;
  empty: ReactNode;
  /** Rows are those of before; new ones are on their way. */
  isStale?: boolean;
}

const EXTRA: ('hidden' | 'visibleOn2Xl')[] = ['hidden', 'visibleOn2Xl'];
const classOf = (column: { isNumeric?: boolean }) => (column.isNumeric ? 'em-number' : '');

const VIRTUAL_FROM = 150;
const ROW_PX = 44;
const OVERSCAN = 12;
const SKELETON_ROWS = 6;

function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const target = event.target as HTMLElement;
  if (!step || target.closest('input:not([type=checkbox]), textarea, select, [role=menu]')) return;
  const row = target.closest('tr');
  const next = step > 0 ? row?.nextElementSibling : row?.previousElementSibling;
  if (!row || !next) return;
  const reachable = (of: Element) => [...of.querySelectorAll<HTMLElement>('a[href], button, input')];
  const index = reachable(row).indexOf(target);
  const candidates = reachable(next);
  const chosen = candidates[index] ?? candidates[0];
  if (!chosen) return;
  event.preventDefault();
  chosen.focus();
}

function sortOf<T>(
  column: Column<T>,
  index: number,
  columns: readonly Column<T>[],
  props: DataTableProps<T>,
) {
  if (!column.isSortable || !props.onSort) return undefined;
  const active = (props.sort ?? '').replace(/^-/, '');
  const activeIndex = columns.findIndex((one) => one.key === active);
  return {
    sortBy: {
      ...(activeIndex >= 0 ? { index: activeIndex } : {}),
      direction: props.sort?.startsWith('-') ? ('desc' as const) : ('asc' as const),
      defaultDirection: column.isNumeric ? ('desc' as const) : ('asc' as const),
    },
    columnIndex: index,
    onSort: (_event: unknown, _index: number, direction: 'asc' | 'desc') => {
      props.onSort?.(direction === 'desc' ? `-${column.key}` : column.key);
    },
  };
}

function Head<T>({ table }: { table: DataTableProps<T> }) {
  const { columns, rows, selection, keyOf } = table;
  const selectable = (rows ?? []).filter((row) => selection?.isSelectable?.(row) ?? true);
  const isAll = selectable.length > 0 && selectable.every((row) => selection?.selected.has(keyOf(row)));
  return (
    <Thead>
      <Tr>
        {selection ? (
          <Th
            aria-label="Select all rows of this page"
            select={{
              isSelected: isAll,
              onSelect: (_event, isSelecting) => {
                selection.onChange(new Set(isSelecting ? selectable.map(keyOf) : []));
              },
            }}
          />
        ) : null}
        {columns.map((column, index) => {
          const sort = sortOf(column, index, columns, table);
          return (
            <Th
              key={column.key}
              modifier="nowrap"
              {...(sort ? { sort } : {})}
              {...(column.width ? { width: column.width } : {})}
              {...(column.help ? { tooltip: column.help } : {})}
              className={classOf(column)}
              {...(column.isExtra ? { visibility: EXTRA } : {})}
            >
              {column.title}
            </Th>
          );
        })}
        {table.actions ? <Th screenReaderText="Actions" /> : null}
      </Tr>
    </Thead>
  );
}

function Row<T>({ table, row, index }: { table: DataTableProps<T>; row: T; index: number }) {
  const { selection, keyOf, actions, columns, nameOf } = table;
  const key = keyOf(row);
  const items = actions?.(row) ?? [];
  return (
    <Tr isRowSelected={selection?.selected.has(key) ?? false} data-row={key}>
      {selection ? (
        <Td
          select={{
            rowIndex: index,
            isSelected: selection.selected.has(key),
            isDisabled: !(selection.isSelectable?.(row) ?? true),
            onSelect: (_event, isSelecting) => {
              const next = new Set(selection.selected);
              if (isSelecting) next.add(key);
              else next.delete(key);
              selection.onChange(next);
            },
          }}
        />
      ) : null}
      {columns.map((column) => (
        <Td
          key={column.key}
          dataLabel={column.title}
          className={classOf(column)}
          {...(column.isExtra ? { visibility: EXTRA } : {})}
          {...(column.isCut ? { modifier: 'truncate' as const } : {})}
        >
          {column.render(row)}
        </Td>
      ))}
      {actions ? (
        <Td isActionCell>
          {items.length > 0 ? (
            <ActionsColumn
              items={items}
              actionsToggle={({ onToggle, isOpen, toggleRef }) => (
                <MenuToggle
                  ref={toggleRef}
                  variant="plain"
                  icon={<EllipsisIcon />}
                  isExpanded={isOpen}
                  onClick={onToggle}
                  aria-label={`Actions of ${nameOf?.(row) ?? key}`}
                />
              )}
            />
          ) : null}
        </Td>
      ) : null}
    </Tr>
  );
}

function VirtualRows<T>({ table, rows }: { table: DataTableProps<T>; rows: readonly T[] }) {
  const scroller = useRef<HTMLDivElement>(null);
  // eslint-disable-next-line react-hooks/incompatible-library -- the virtualizer is not passed on
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
  });
  const shown = virtual.getVirtualItems();
  const before = shown[0]?.start ?? 0;
  const after = virtual.getTotalSize() - (shown.at(-1)?.end ?? 0);
  return (
    <div ref={scroller} className="em-scroller" tabIndex={0} role="region" aria-label={table.label}>
      <Table variant="compact" isStickyHeader aria-label={table.label} aria-rowcount={rows.length}>
        <Head table={table} />
        <Tbody onKeyDown={moveFocus}>
          <tr aria-hidden="true" style={{ height: before }} />
          {shown.map(({ index }) => {
            const row = rows[index];
            return row === undefined ? null : (
              <Row key={table.keyOf(row)} table={table} row={row} index={index} />
            );
          })}
          <tr aria-hidden="true" style={{ height: after }} />
        </Tbody>
      </Table>
    </div>
  );
}

export function DataTable<T>(props: DataTableProps<T>) {
  const { rows, columns, label, error, retry, empty, selection, isStale = false } = props;
  if (error && !rows) return <Failure error={error} {...(retry ? { retry } : {})} />;
  if (rows?.length === 0) return <>{empty}</>;
  if (rows && rows.length >= VIRTUAL_FROM) return <VirtualRows table={props} rows={rows} />;
  return (
    <div className={isStale ? 'em-stale em-wide' : 'em-wide'}>
      <Table variant="compact" aria-label={label} aria-busy={!rows || isStale}>
        <Head table={props} />
        <Tbody onKeyDown={moveFocus}>
          {rows
            ? rows.map((row, index) => <Row key={props.keyOf(row)} table={props} row={row} index={index} />)
            : Array.from({ length: SKELETON_ROWS }, (_, line) => (
                <Tr key={line}>
                  {selection ? <Td /> : null}
                  {columns.map((column) => (
                    <Td key={column.key} dataLabel={column.title}>
                      <Skeleton screenreaderText={line === 0 ? 'Loading' : ''} />
                    </Td>
                  ))}
                  {props.actions ? <Td /> : null}
                </Tr>
              ))}
        </Tbody>
      </Table>
    </div>
  );
}

/** What a list shows when a filter excludes every row. */
export function NoMatch({ clear }: { clear: () => void }) {
  return (
    <Empty
      title="Nothing matches"
      action={
        <button type="button" className="pf-v6-c-button pf-m-link" onClick={clear}>
          Clear all filters
        </button>
      }
    >
      No row has all of these properties.
    </Empty>
  );
}
