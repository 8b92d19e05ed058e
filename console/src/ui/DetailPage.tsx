import {
  Card,
  CardBody,
  CardTitle,
  PageSection,
  Stack,
  StackItem,
  Tab,
  TabTitleText,
  Tabs,
} from '@patternfly/react-core';
import type { UseQueryResult } from '@tanstack/react-query';
import { useEffect, useRef, type ReactNode } from 'react';
import { Outlet, useLocation, useNavigate } from 'react-router';
import { isDeleted } from '@/api/errors';
import { PANEL_ID, Page, type Crumb } from './Page';
import { Failure, Loading, PhaseLabel } from './States';

/** Pages of one thing: the same frame, states and cards for each. */

export interface TabSpec {
  /** The last part of the path; empty for the page itself. */
  key: string;
  title: string;
}

/** The tabs of a page as links; each is a page below `base`. */
function PageTabs({ base, label, tabs }: { base: string; label: string; tabs: readonly TabSpec[] }) {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const current = decodeURI(pathname).slice(decodeURI(base).length).split('/')[1] ?? '';
  const pathOf = (key: string) => (key === '' ? base : `${base}/${key}`);
  const strip = useRef<HTMLDivElement>(null);
  // On a narrow page the tabs scroll: the selected one is the first in sight, whole, also beside the buttons that
  // appear later.
  useEffect(() => {
    const list = strip.current?.querySelector('[role=tablist]');
    if (!list) return;
    const observer = new ResizeObserver(() => {
      const selected = list.querySelector('[role=tab][aria-selected=true]');
      selected?.scrollIntoView({ block: 'nearest', inline: 'start' });
    });
    observer.observe(list);
    return () => {
      observer.disconnect();
    };
  }, [current]);
  return (
    <div ref={strip} className="em-panel">
      <Tabs
        activeKey={current}
        usePageInsets
        component="nav"
        aria-label={label}
        onSelect={(event, key) => {
          event.preventDefault();
          void navigate(pathOf(String(key)));
        }}
      >
        {tabs.map(({ key, title }) => (
          <Tab
            key={key}
            eventKey={key}
            tabContentId={PANEL_ID}
            href={`/console${pathOf(key)}`}
            title={<TabTitleText>{title}</TabTitleText>}
          />
        ))}
      </Tabs>
    </div>
  );
}

export interface DetailPageProps<T> {
  found: UseQueryResult<T>;
  title: string;
  crumbs: readonly Crumb[];
  /** Absent: the phase of a resource. */
  labels?: (shown: T) => ReactNode;
  subtitle?: (shown: T) => ReactNode;
  actions?: (shown: T) => ReactNode;
  /** Whether every error replaces what was shown before, not only that the thing was deleted. */
  isErrorShown?: boolean;
}

interface TabbedProps<T> extends DetailPageProps<T> {
  base: string;
  tabsLabel: string;
  tabs: (shown: T) => readonly TabSpec[];
  /** What the pages of the tabs get by `useOutletContext`. */
  context: (shown: T) => unknown;
}

interface PlainProps<T> extends DetailPageProps<T> {
  children: (shown: T) => ReactNode;
}

function phaseOf(shown: unknown): ReactNode {
  const { status } = shown as { status?: { phase?: string; isReady?: boolean } };
  return <PhaseLabel phase={status?.phase} isReady={status?.isReady ?? false} />;
}

/** The page of one thing: its frame with what is known of it, and why it cannot be shown. */
export function DetailPage<T>(props: PlainProps<T> | TabbedProps<T>) {
  const { found, title, crumbs, labels = phaseOf, subtitle, actions, isErrorShown = false } = props;
  const shown = found.data;
  const isFailed =
    found.error &&
    (shown === undefined ||
      ((isErrorShown || isDeleted(found.error)) && found.errorUpdatedAt > found.dataUpdatedAt));
  const isTabbed = 'tabs' in props;
  return (
    <Page
      title={title}
      crumbs={crumbs}
      subtitle={(shown === undefined ? undefined : subtitle?.(shown)) ?? ' '}
      labels={shown === undefined ? null : labels(shown)}
      actions={shown === undefined ? null : actions?.(shown)}
      tabs={
        isTabbed && shown !== undefined ? (
          <PageTabs base={props.base} label={props.tabsLabel} tabs={props.tabs(shown)} />
        ) : null
      }
    >
      {isFailed ? (
        <PageSection>
          <Failure error={found.error} retry={() => void found.refetch()} />
        </PageSection>
      ) : shown === undefined ? (
        <PageSection>
          <Loading label={`Loading ${title}`} />
        </PageSection>
      ) : isTabbed ? (
        <div id={PANEL_ID} role="tabpanel" aria-label="Content of the tab" className="em-panel">
          <Outlet context={props.context(shown)} />
        </div>
      ) : (
        <PageSection isFilled>
          <Stack hasGutter>{props.children(shown)}</Stack>
        </PageSection>
      )}
    </Page>
  );
}

/** A titled part of such a page. */
export function DetailCard({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <StackItem>
      <Card isCompact>
        <CardTitle>{title}</CardTitle>
        <CardBody>{children}</CardBody>
      </Card>
    </StackItem>
  );
}
