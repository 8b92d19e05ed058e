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
import { ApiError } from '@/api/errors';
import { NO_SESSION, bindSession, noteInput, request } from '@/api/http';
import type { Session } from '@/api/types';
import { useNotify } from './notices';

/** The session: who is logged in and what the page may offer. It lives in a cookie that the page cannot read. */

export interface LoginMethods {
  token: boolean;
  code: boolean;
  oidc: { name: string; start: string } | null;
}

type State = { phase: 'unknown' } | { phase: 'out'; isOver: boolean } | { phase: 'in'; session: Session };

interface SessionControl {
  state: State;
  logIn: (proof: { token: string } | { code: string }) => Promise<void>;
  logOut: () => Promise<void>;
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
  /** Go on with a session; returns whether it is of the same user as the one before. */
  const begin = useCallback(
    function begin(session: Session): boolean {
      const isOther = user.current !== null && user.current !== session.user;
      user.current = session.user;
      bindSession({
        csrf: session.csrf,
        onEnd: () => {
          end(true);
        },
        renew: async () => {
          try {
            return begin(await request<Session>('GET', PATH));
          } catch (error) {
            if (error instanceof ApiError) end(true);
            return false;
          }
        },
      });
      setState({ phase: 'in', session });
      if (isOther) {
        notify(
          `${session.user} has logged in in this browser. This page goes on as ${session.user}.`,
          'warning',
        );
        void client.resetQueries();
      }
      return !isOther;
    },
    [client, end, notify],
  );
  const resume = useCallback(async () => {
    try {
      begin(await request<Session>('GET', PATH));
    } catch (error) {
      if (error instanceof ApiError) end(user.current !== null);
    }
  }, [begin, end]);

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
      logIn: async (proof) => {
        begin(await request<Session>('POST', PATH, { body: proof }));
      },
      logOut: async () => {
        await request('DELETE', PATH).catch(() => undefined);
        end(false);
      },
    }),
    [state, begin, end],
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
