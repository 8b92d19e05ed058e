import { Bullseye, Spinner } from '@patternfly/react-core';
import { Navigate, useLocation } from 'react-router';
import { Failure } from '@/ui/States';
import { useSessionControl } from './session';
import { Shell } from './Shell';

/** The pages behind the login. */
export function Protected() {
  const { state, resume } = useSessionControl();
  const { pathname, search } = useLocation();
  if (state.phase === 'unknown') {
    return (
      <Bullseye>
        <Spinner aria-label="Loading" />
      </Bullseye>
    );
  }
  if (state.phase === 'failed') {
    return (
      <main>
        <Failure error={state.error} retry={() => void resume()} />
      </main>
    );
  }
  if (state.phase === 'out') {
    const then = pathname === '/' ? '' : `?then=${encodeURIComponent(pathname + search)}`;
    return <Navigate to={`/login${then}`} replace />;
  }
  // What one user has opened or typed is not for another: a change of the user mounts the page anew.
  return <Shell key={state.session.user} />;
}
