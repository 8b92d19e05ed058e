import type { ReactNode } from 'react';
import { Link } from 'react-router';

/**
 * A name that a tenant chose: up to 1,024 bytes in any script. `bdi` keeps its direction from the text around
 * it; long ones are cut on the screen and whole in the title.
 */
export function Name({ children, to }: { children: string; to?: string }): ReactNode {
  const text = (
    <bdi className="em-name" title={children}>
      {children}
    </bdi>
  );
  return to ? <Link to={to}>{text}</Link> : text;
}
