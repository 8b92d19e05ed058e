import type { ReactElement } from 'react';
import { Outlet, Route, Routes } from 'react-router';
import type { Kind } from '@/api/kinds';
import type { AddressSpace } from '@/api/types';
import type { SpaceContext } from '@/spaces/SpaceLayout';
import { render } from './render';

/** Render a page below the space `shop` in the namespace `default`, for a person who may do `rights`. */
export function renderInSpace(page: ReactElement, rights: readonly string[], search = '') {
  const context: SpaceContext = {
    space: { metadata: { name: 'shop', namespace: 'default' } } as AddressSpace,
    namespace: 'default',
    name: 'shop',
    may: (verb: string, kind: Kind, below?: string) =>
      rights.includes([verb, kind.plural, ...(below ? [below] : [])].join(' ')),
  };
  return render(
    <Routes>
      <Route path="/" element={<Outlet context={context} />}>
        <Route index element={page} />
      </Route>
    </Routes>,
    `/${search}`,
  );
}
