import { QueryClientProvider } from '@tanstack/react-query';
import { Suspense, useEffect } from 'react';
import { RouterProvider } from 'react-router';
import { followBrowser, onRecovery } from '@/api/connectivity';
import { NoticesProvider } from './notices';
import { createQueryClient } from './queryClient';
import { router } from './routes';
import { SessionProvider } from './session';
import { ThemeProvider } from './theme';

const client = createQueryClient();

export function App() {
  // After an outage everything on the page is fetched again.
  useEffect(followBrowser, []);
  useEffect(() => onRecovery(() => void client.invalidateQueries()), []);
  return (
    <ThemeProvider>
      <QueryClientProvider client={client}>
        <NoticesProvider>
          <SessionProvider>
            <Suspense>
              <RouterProvider router={router} />
            </Suspense>
          </SessionProvider>
        </NoticesProvider>
      </QueryClientProvider>
    </ThemeProvider>
  );
}
