import { QueryClientProvider } from '@tanstack/react-query';
import { render as renderPlain, type RenderResult } from '@testing-library/react';
import type { ReactNode } from 'react';
import { MemoryRouter } from 'react-router';
import { createQueryClient } from '@/app/queryClient';
import { NoticesProvider } from '@/app/notices';

/** Render as a part of the console: with its router, its queries and its notices. */
export function render(content: ReactNode, at = '/'): RenderResult {
  const client = createQueryClient();
  client.setDefaultOptions({ queries: { ...client.getDefaultOptions().queries, retry: false } });
  return renderPlain(
    <QueryClientProvider client={client}>
      <NoticesProvider>
        <MemoryRouter initialEntries={[at]}>{content}</MemoryRouter>
      </NoticesProvider>
    </QueryClientProvider>,
  );
}
