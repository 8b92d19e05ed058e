import { useQueryClient } from '@tanstack/react-query';
import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
  type ReactNode,
} from 'react';
import { onRecovery } from '@/api/connectivity';
import { ApiError, messageOf } from '@/api/errors';
import { NO_SESSION, bindSession, noteInput, request, type SessionBinding } from '@/api/http';
import type { Session } from '@/api/types';
import { useNotify } from './notices';

/** The session: who is logged in and what the page may offer. It lives in a cookie that the page cannot read. */

export interface LoginMethods {
  token: boolean;
  code: boolean;
  oidc: { name: string; start: string } | null;
}

type State =
  | { phase: 'unknown' }
  /** The platform answers, but does not say whether there is a session. */
  | { phase: 'failed'; error: ApiError }
  | { phase: 'out'; isOver: boolean }
  | { phase: 'in'; session: Session };

interface SessionControl {
  state: State;
  /** Ask again which session there is. */
  resume: () => Promise<void>;
  logIn: (proof: { token: string } | { code: string }) => Promise<void>;
  /** End the session. A failure is shown as a notice, and the session goes on. */
  logOut: () => Promise<void>;
}

/** Whether a failure says that there is no session; a platform that is overloaded or has failed says nothing of it. */
function isUnauthenticated(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401;
}

const Sessions = createContext<SessionControl | null>(null);
const PATH = '/console/session';

export function SessionProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [state, setState] = useState<State>({ phase: 'unknown' });

  const notify = useNotify();
  const user = useRef<string | null>(null);

  const end = useCallback(
    (isOver: boolean) => {
      bindSession(NO_SESSION);
      if (user.current !== null) client.clear();
      user.current = null;
      setState((before) => (before.phase === 'out' ? before : { phase: 'out', isOver }));
    },
    [client],
  );
  /** Go on with a session; returns what requests need of it. */
  const begin = useCallback(
    function begin(session: Session): SessionBinding {
      const isOther = user.current !== null && user.current !== session.user;
      user.current = session.user;
      const binding: SessionBinding = {
        user: session.user,
        csrf: session.csrf,
        onEnd: () => {
          end(true);
        },
        renew: async () => {
          try {
            return begin(await request<Session>('GET', PATH));
          } catch (error) {
            if (isUnauthenticated(error)) end(true);
            throw error;
          }
        },
      };
      bindSession(binding);
      setState({ phase: 'in', session });
      if (isOther) {
        notify(
          `This browser is now logged in as ${session.user}. This page goes on as ${session.user}, without ` +
            'unsaved changes or unfinished actions.',
          'warning',
        );
        void client.resetQueries();
      }
      return binding;
    },
    [client, end, notify],
  );
  const resume = useCallback(async () => {
    try {
      begin(await request<Session>('GET', PATH));
    } catch (error) {
      // While the platform is unreachable a banner says so, and the recovery resumes.
      if (!(error instanceof ApiError)) return;
      if (isUnauthenticated(error)) end(user.current !== null);
      else if (user.current !== null) notify(`The session could not be checked. ${error.message}`, 'warning');
      else setState((before) => (before.phase === 'out' ? before : { phase: 'failed', error }));
    }
  }, [begin, end, notify]);

  useEffect(() => {
    void resume();
    return onRecovery(() => void resume());
  }, [resume]);
  // Another tab may have logged in or out meanwhile: the cookie is that of all tabs.
  useEffect(() => {
    const look = () => {
      if (document.visibilityState === 'visible') void resume();
    };
    document.addEventListener('visibilitychange', look);
    return () => {
      document.removeEventListener('visibilitychange', look);
    };
  }, [resume]);
  useEffect(() => {
    const events = ['pointerdown', 'keydown', 'wheel'] as const;
    for (const name of events) addEventListener(name, noteInput, { passive: true });
    return () => {
      for (const name of events) removeEventListener(name, noteInput);
    };
  }, []);

  const control = useMemo<SessionControl>(
    () => ({
      state,
      resume,
      logIn: async (proof) => {
        begin(await request<Session>('POST', PATH, { body: proof }));
      },
      logOut: async () => {
        try {
          await request('DELETE', PATH);
        } catch (error) {
          if (!isUnauthenticated(error)) {
            notify(`You are not logged out. ${messageOf(error)}`, 'danger');
            return;
          }
        }
        end(false);
      },
    }),
    [state, begin, end, notify, resume],
  );
  return <Sessions.Provider value={control}>{children}</Sessions.Provider>;
}

export function useSessionControl(): SessionControl {
  const control = useContext(Sessions);
  if (!control) throw new Error('outside of SessionProvider');
  return control;
}

/** The session of a page behind the login. */
export function useSession(): Session {
  const { state } = useSessionControl();
  if (state.phase !== 'in') throw new Error('a page without a session');
  return state.session;
}
