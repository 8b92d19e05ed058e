import {
  MenuToggle,
  Pagination,
  SearchInput,
  Select,
  SelectList,
  SelectOption,
  Toolbar,
  ToolbarContent,
  ToolbarFilter,
  ToolbarGroup,
  ToolbarItem,
} from '@patternfly/react-core';
import FilterIcon from '@patternfly/react-icons/dist/esm/icons/filter-icon';
import { useEffect, useState, type ReactNode } from 'react';
import { useDebounced } from '@/api/write';
import { exact } from './format';
import { PER_PAGE, type ListControl } from './listState';

/** The line above a list: search, filters, actions, pages. */

export interface Facet {
  name: string;
  title: string;
  options: readonly string[];
}

export interface ListToolbarProps {
  control: ListControl;
  /** What is searched: `Find by name or address`. */
  placeholder?: string;
  facets?: readonly Facet[];
  total: number | undefined;
  actions?: ReactNode;
  /** Shown instead of the search while rows are selected. */
  bulk?: ReactNode;
}

function Search({ control, placeholder }: { control: ListControl; placeholder: string }) {
  const [text, setText] = useState(control.search);
  const settled = useDebounced(text, 250);
  const { set, search } = control;
  useEffect(() => {
    if (settled !== search) set({ search: settled });
    // Only what is typed changes the filter; a cleared filter resets the text below.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [settled]);
  useEffect(() => {
    // eslint-disable-next-line react-hooks/set-state-in-effect -- the address bar changed
    if (search === '') setText('');
  }, [search]);
  return (
    <SearchInput
      aria-label={placeholder}
      placeholder={placeholder}
      value={text}
      onChange={(_event, value) => {
        setText(value);
      }}
      onClear={() => {
        setText('');
      }}
    />
  );
}

function FacetSelect({ facet, control }: { facet: Facet; control: ListControl }) {
  const [isOpen, setIsOpen] = useState(false);
  const value = control.filters[facet.name];
  return (
    <ToolbarFilter
      labels={value ? [value] : []}
      categoryName={facet.title}
      deleteLabel={() => {
        control.set({ filters: { [facet.name]: '' } });
      }}
    >
      <Select
        isOpen={isOpen}
        onOpenChange={setIsOpen}
        selected={value}
        onSelect={(_event, chosen) => {
          control.set({ filters: { [facet.name]: chosen === value ? '' : String(chosen) } });
          setIsOpen(false);
        }}
        toggle={(ref) => (
          <MenuToggle
            ref={ref}
            isExpanded={isOpen}
            icon={<FilterIcon />}
            onClick={() => {
              setIsOpen(!isOpen);
            }}
          >
            {facet.title}
          </MenuToggle>
        )}
      >
        <SelectList>
          {facet.options.map((option) => (
            <SelectOption key={option} value={option} isSelected={option === value}>
              {option}
            </SelectOption>
          ))}
        </SelectList>
      </Select>
    </ToolbarFilter>
  );
}

export function ListToolbar(props: ListToolbarProps) {
  const { control, placeholder = 'Find by name', facets = [], total, actions, bulk } = props;
  return (
    <Toolbar
      clearAllFilters={control.clear}
      clearFiltersButtonText="Clear all filters"
      collapseListedFiltersBreakpoint="md"
      inset={{ default: 'insetNone' }}
    >
      <ToolbarContent alignItems="center">
        <ToolbarItem className="em-search">
          <Search control={control} placeholder={placeholder} />
        </ToolbarItem>
        {facets.length > 0 ? (
          <ToolbarGroup variant="filter-group">
            {facets.map((facet) => (
              <FacetSelect key={facet.name} facet={facet} control={control} />
            ))}
          </ToolbarGroup>
        ) : null}
        {(bulk ?? actions) ? (
          <ToolbarGroup variant="action-group">
            {actions}
            {bulk}
          </ToolbarGroup>
        ) : null}
        <ToolbarItem variant="pagination" align={{ default: 'alignEnd' }}>
          <Pages control={control} total={total} isCompact />
        </ToolbarItem>
      </ToolbarContent>
    </Toolbar>
  );
}

export function Pages({
  control,
  total,
  isCompact = false,
  isStale = false,
}: {
  control: ListControl;
  total: number | undefined;
  isCompact?: boolean;
  /** The total is that of the list before. */
  isStale?: boolean;
}) {
  const last = total === undefined ? control.page : Math.max(1, Math.ceil(total / control.perPage));
  const { page, set } = control;
  // The rows of the last page are gone, or a link names a page that was never there.
  useEffect(() => {
    if (page > last && !isStale) set({ page: last });
  }, [page, last, set, isStale]);
  // One page needs no second line of pages below it.
  if (total === undefined || (!isCompact && total <= control.perPage)) return null;
  return (
    <Pagination
      itemCount={total}
      toggleTemplate={({ firstIndex = 0, lastIndex = 0 }) => (
        <>
          <b>
            {exact(firstIndex)} - {exact(lastIndex)}
          </b>{' '}
          of <b>{exact(total)}</b>
        </>
      )}
      page={control.page}
      perPage={control.perPage}
      perPageOptions={PER_PAGE.map((value) => ({ title: String(value), value }))}
      onSetPage={(_event, page) => {
        control.set({ page });
      }}
      onPerPageSelect={(_event, perPage) => {
        control.set({ perPage });
      }}
      isCompact={isCompact}
      variant={isCompact ? 'top' : 'bottom'}
      titles={{ paginationAriaLabel: isCompact ? 'Pages, above the list' : 'Pages, below the list' }}
    />
  );
}
