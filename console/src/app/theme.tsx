import {
  createContext,
  useContext,
  useLayoutEffect,
  useMemo,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from 'react';

/** Light or dark: as the system, unless the person chose. */

export type ThemeChoice = 'system' | 'light' | 'dark';

export interface Theme {
  choice: ThemeChoice;
  resolved: 'light' | 'dark';
  choose: (choice: ThemeChoice) => void;
}

const KEY = 'enmasse-theme';
const DARK_CLASS = 'pf-v6-theme-dark';

const Themes = createContext<Theme>({ choice: 'system', resolved: 'light', choose: () => undefined });

function stored(): ThemeChoice {
  try {
    const text = localStorage.getItem(KEY);
    return text === 'light' || text === 'dark' ? text : 'system';
  } catch {
    return 'system';
  }
}

function darkSystem(): MediaQueryList | null {
  return typeof window.matchMedia === 'function' ? window.matchMedia('(prefers-color-scheme: dark)') : null;
}

function useSystemIsDark(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const query = darkSystem();
      query?.addEventListener('change', listener);
      return () => query?.removeEventListener('change', listener);
    },
    () => darkSystem()?.matches ?? false,
  );
}

export function ThemeProvider({ children }: { children: ReactNode }) {
  const [choice, setChoice] = useState(stored);
  const systemIsDark = useSystemIsDark();
  const resolved = choice === 'system' ? (systemIsDark ? 'dark' : 'light') : choice;
  // Before the first paint: a page that turns dark after it is read in between.
  useLayoutEffect(() => {
    document.documentElement.classList.toggle(DARK_CLASS, resolved === 'dark');
  }, [resolved]);
  const theme = useMemo<Theme>(
    () => ({
      choice,
      resolved,
      choose: (next) => {
        setChoice(next);
        try {
          if (next === 'system') localStorage.removeItem(KEY);
          else localStorage.setItem(KEY, next);
        } catch {
          // Storage may be off; the choice then lasts as long as the page.
        }
      },
    }),
    [choice, resolved],
  );
  return <Themes.Provider value={theme}>{children}</Themes.Provider>;
}

export function useTheme(): Theme {
  return useContext(Themes);
}
