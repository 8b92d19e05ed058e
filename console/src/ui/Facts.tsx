import {
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
} from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { NONE } from './format';

export type Fact = readonly [term: string, value: ReactNode];

/** Terms and values of one thing; a value that is absent shows a dash, `null` leaves the term out. */
export function Facts({ of, columns = 2 }: { of: readonly (Fact | null)[]; columns?: 1 | 2 | 3 }) {
  const name = columns === 1 ? '1Col' : columns === 2 ? '2Col' : '3Col';
  return (
    <DescriptionList
      columnModifier={{ default: '1Col', md: columns === 1 ? '1Col' : '2Col', xl: name }}
      isCompact
    >
      {of
        .filter((fact): fact is Fact => fact !== null)
        .map(([term, value]) => (
          <DescriptionListGroup key={term}>
            <DescriptionListTerm>{term}</DescriptionListTerm>
            <DescriptionListDescription>
              {value === undefined || value === '' ? NONE : value}
            </DescriptionListDescription>
          </DescriptionListGroup>
        ))}
    </DescriptionList>
  );
}
