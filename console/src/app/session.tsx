import { useQueryClient } from '@tanstack/react-query';
import { createContext, useCallback, useContext, useEffect, useMemo, useState, type ReactNode } from 'react';
import { onRecovery } from '@/api/connectivity';
import { ApiError } from '@/api/errors';
import { bindSession, noteInput, request } from '@/api/http';
import type { Session } from '@/api/types';

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

  const end = useCallback(
    (isOver: boolean) => {
      bindSession('', () => undefined);
      client.clear();
      setState({ phase: 'out', isOver });
    },
    [client],
  );
  const begin = useCallback(
    (session: Session) => {
      bindSession(session.csrf, () => {
        end(true);
      });
      setState({ phase: 'in', session });
    },
    [end],
  );
  const resume = useCallback(
    () =>
      request<Session>('GET', PATH).then(begin, (error: unknown) => {
        if (error instanceof ApiError) end(false);
      }),
    [begin, end],
  );

  useEffect(() => {
    void resume();
    return onRecovery(() => void resume());
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
