import {
  Breadcrumb,
  BreadcrumbItem,
  Content,
  Flex,
  FlexItem,
  PageBreadcrumb,
  PageSection,
  Title,
} from '@patternfly/react-core';
import { useEffect, type ReactNode } from 'react';
import { Link } from 'react-router';

/** The content of the tab that is chosen, for the tabs of a page. */
export const PANEL_ID = 'panel';

export interface Crumb {
  title: string;
  to?: string;
}

export interface PageProps {
  title: string;
  /** What the page is for, or what state the thing is in. */
  subtitle?: ReactNode;
  labels?: ReactNode;
  crumbs?: readonly Crumb[];
  actions?: ReactNode;
  tabs?: ReactNode;
  children: ReactNode;
}

/** The frame of every page: where it is, its title, what can be done, its content. */
export function Page({ title, subtitle, labels, crumbs = [], actions, tabs, children }: PageProps) {
  useEffect(() => {
    document.title = `${title.slice(0, 80)} · EnMasse`;
  }, [title]);
  return (
    <>
      {crumbs.length > 0 ? (
        <PageBreadcrumb>
          <Breadcrumb>
            {crumbs.map((crumb, index) => (
              <BreadcrumbItem key={crumb.title + String(index)} isActive={!crumb.to}>
                {crumb.to ? (
                  <Link to={crumb.to}>
                    <bdi className="em-name">{crumb.title}</bdi>
                  </Link>
                ) : (
                  <bdi className="em-name">{crumb.title}</bdi>
                )}
              </BreadcrumbItem>
            ))}
          </Breadcrumb>
        </PageBreadcrumb>
      ) : null}
      <PageSection>
        <Flex
          justifyContent={{ default: 'justifyContentSpaceBetween' }}
          alignItems={{ default: 'alignItemsFlexStart' }}
          flexWrap={{ default: 'wrap', md: 'nowrap' }}
        >
          <FlexItem className="em-shrink">
            <Flex alignItems={{ default: 'alignItemsCenter' }} spaceItems={{ default: 'spaceItemsMd' }}>
              <FlexItem className="em-shrink">
                <Title headingLevel="h1" className="em-title">
                  <bdi title={title}>{title}</bdi>
                </Title>
              </FlexItem>
              {labels ? <FlexItem>{labels}</FlexItem> : null}
            </Flex>
            {subtitle ? <Content component="small">{subtitle}</Content> : null}
          </FlexItem>
          {actions ? <FlexItem>{actions}</FlexItem> : null}
        </Flex>
      </PageSection>
      {tabs ? (
        <PageSection type="tabs" hasBodyWrapper={false}>
          {tabs}
        </PageSection>
      ) : null}
      {children}
    </>
  );
}
