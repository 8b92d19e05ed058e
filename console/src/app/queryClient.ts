import { QueryClient } from '@tanstack/react-query';
import { ApiError } from '@/api/errors';

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
