/** Addresses of the pages of a space. Names are encoded: they may hold any character. */

export function spacePath(namespace: string, space: string, below = ''): string {
  const base = `/spaces/${encodeURIComponent(namespace)}/${encodeURIComponent(space)}`;
  return below ? `${base}/${below}` : base;
}

/** The page of an address, by its resource name (`space.name`). */
export function addressPath(namespace: string, name: string, below = ''): string {
  const space = name.split('.')[0] ?? '';
  const page = spacePath(namespace, space, `addresses/${encodeURIComponent(name)}`);
  return below ? `${page}/${below}` : page;
}

export function spaceOf(resourceName: string): string {
  return resourceName.split('.')[0] ?? '';
}
