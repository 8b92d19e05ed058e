import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { useEffect } from 'react';
import { RouterProvider } from 'react-router';
import { onRecovery } from '@/api/connectivity';
import { ApiError } from '@/api/errors';
import { NoticesProvider } from './notices';
import { router } from './routes';
import { SessionProvider } from './session';
import { ThemeProvider } from './theme';

const RETRIES = 2;

/** An answer of the platform is final; only an absent one is worth another request. */
function isWorthRetrying(failures: number, error: Error): boolean {
  return failures < RETRIES && !(error instanceof ApiError && error.status < 500);
}

export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        retry: isWorthRetrying,
        staleTime: 1_000,
        refetchOnWindowFocus: true,
        networkMode: 'always',
      },
      mutations: { retry: false, networkMode: 'always' },
    },
  });
}

const client = createQueryClient();

export function App() {
  // After an outage everything on the page is fetched again.
  useEffect(() => onRecovery(() => void client.invalidateQueries()), []);
  return (
    <ThemeProvider>
      <QueryClientProvider client={client}>
        <NoticesProvider>
          <SessionProvider>
            <RouterProvider router={router} />
          </SessionProvider>
        </NoticesProvider>
      </QueryClientProvider>
    </ThemeProvider>
  );
}
