import { stringify } from 'yaml';
import type { Resource } from '@/api/types';
import type { CodeChoice } from './Code';

/** A document as the person could have written it, and the commands that do the same. */

function isEmpty(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === '' ||
    (typeof value === 'object' && Object.keys(value).length === 0)
  );
}

/** The document without absent and empty members, at any depth. */
export function pruned<T>(value: T): T {
  if (Array.isArray(value)) return value.map(pruned) as T;
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value)
    .map(([name, member]) => [name, pruned(member as unknown)] as const)
    .filter(([, member]) => !isEmpty(member));
  return Object.fromEntries(kept) as T;
}

export function yamlOf(document: unknown): string {
  return stringify(pruned(document), { lineWidth: 0 });
}

/** A word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function previewsOf(document: Resource, command?: string): CodeChoice[] {
  const yaml = yamlOf(document);
  const choices = [
    { title: 'YAML', text: yaml },
    { title: 'kubectl', text: `kubectl apply -f - <<'END'\n${yaml}END\n` },
    { title: 'enmasse', text: command ?? `enmasse apply -f - <<'END'\n${yaml}END\n` },
  ];
  return choices;
}
