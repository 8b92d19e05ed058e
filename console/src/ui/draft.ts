import { useState } from 'react';

/** What a form holds, and which of its fields a person has filled in. */

export interface DraftControl<Draft> {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  /** Paths in the document; a form that was sent marks all of them. */
  touched: ReadonlySet<string> | 'all';
  touchAll: () => void;
}

/** Paths of the document that a member of a draft becomes, where they are not `spec.MEMBER`. */
export type DraftPaths<Draft> = Partial<Record<keyof Draft, readonly string[]>>;

export function useDraft<Draft extends object>(
  initial: Draft | (() => Draft),
  paths: DraftPaths<Draft> = {},
): DraftControl<Draft> {
  const [draft, setDraft] = useState(initial);
  const [touched, setTouched] = useState<ReadonlySet<string> | 'all'>(new Set());
  const set = (change: Partial<Draft>) => {
    setDraft((before) => ({ ...before, ...change }));
    const filled = Object.keys(change).flatMap((name) => paths[name as keyof Draft] ?? [`spec.${name}`]);
    setTouched((before) => (before === 'all' ? before : new Set([...before, ...filled])));
  };
  const touchAll = () => {
    setTouched('all');
  };
  return { draft, set, touched, touchAll };
}
