import { Card, CardBody, Content, Gallery, Skeleton } from '@patternfly/react-core';
import type { ReactNode } from 'react';

export interface StatisticProps {
  title: string;
  value: ReactNode;
  /** What the number is of, such as `of 6,000`. */
  note?: ReactNode;
  isLoading?: boolean;
}

/** One number of a dashboard. */
export function Statistic({ title, value, note, isLoading = false }: StatisticProps) {
  return (
    <Card isCompact isFullHeight>
      <CardBody>
        <Content component="small">{title}</Content>
        <div className="em-statistic">{isLoading ? <Skeleton width="4rem" fontSize="2xl" /> : value}</div>
        {note ? <Content component="small">{note}</Content> : null}
      </CardBody>
    </Card>
  );
}

export function Statistics({ children }: { children: ReactNode }) {
  return (
    <Gallery hasGutter minWidths={{ default: '130px', md: '150px' }}>
      {children}
    </Gallery>
  );
}
