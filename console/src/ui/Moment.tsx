import { Timestamp, TimestampTooltipVariant } from '@patternfly/react-core';
import { NONE, age } from './format';

/** How long ago, with the exact time on demand. */
export function Age({ of }: { of: string | undefined }) {
  if (!of) return <>{NONE}</>;
  return (
    <Timestamp date={new Date(of)} tooltip={{ variant: TimestampTooltipVariant.default }}>
      {age(of)}
    </Timestamp>
  );
}
