import { useSyncExternalStore } from 'react';

/** Whether the platform answers. Requests and streams report what they see; a probe ends an outage. */

const PROBE_MS = 2_000;

type Listener = () => void;

let lostSince: number | null = null;
let probing = false;
const listeners = new Set<Listener>();
const recoveries = new Set<Listener>();

function publish(): void {
  for (const listener of listeners) listener();
}

export function reportLost(): void {
  if (lostSince !== null) return;
  lostSince = Date.now();
  publish();
  if (!probing) void probe();
}

export function reportReached(): void {
  if (lostSince === null) return;
  lostSince = null;
  publish();
  for (const recovered of recoveries) recovered();
}

/** Call back once the platform answers again after an outage. Returns how to unsubscribe. */
export function onRecovery(recovered: Listener): () => void {
  recoveries.add(recovered);
  return () => recoveries.delete(recovered);
}

/** The browser knows of a lost network before any request fails. */
export function followBrowser(): () => void {
  addEventListener('offline', reportLost);
  return () => {
    removeEventListener('offline', reportLost);
  };
}

async function probe(): Promise<void> {
  probing = true;
  try {
    while (lostSince !== null) {
      await new Promise((resolve) => setTimeout(resolve, PROBE_MS));
      try {
        const answer = await fetch('/readyz', { cache: 'no-store', headers: { 'X-Background': '1' } });
        if (answer.ok) reportReached();
      } catch {
        // Still away.
      }
    }
  } finally {
    probing = false;
  }
}

export function isLost(): boolean {
  return lostSince !== null;
}

export function useLostSince(): number | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => lostSince,
  );
}
