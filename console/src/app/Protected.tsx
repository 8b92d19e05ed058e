import { Bullseye, Spinner } from '@patternfly/react-core';
import { Navigate, useLocation } from 'react-router';
import { useSessionControl } from './session';
import { Shell } from './Shell';

/** The pages behind the login. */
export function Protected() {
  const { state } = useSessionControl();
  const { pathname, search } = useLocation();
  if (state.phase === 'unknown') {
    return (
      <Bullseye>
        <Spinner aria-label="Loading" />
      </Bullseye>
    );
  }
  if (state.phase === 'out') {
    const then = pathname === '/' ? '' : `?then=${encodeURIComponent(pathname + search)}`;
    return <Navigate to={`/login${then}`} replace />;
  }
  return <Shell />;
}
