import { useInfiniteQuery, type InfiniteData, type UseInfiniteQueryResult } from '@tanstack/react-query';
import { request } from '@/api/http';
import { AddressSpaceKind, resourcePath } from '@/api/kinds';
import type { StoredMessage } from '@/api/messages';
import { inParts } from '@/api/slices';

/** MQTT in an address space: its sessions, and the retained messages of its topics. */

export interface MqttSubscription {
  filter: string;
  qos: number;
  noLocal: boolean;
}

export interface MqttSession {
  /** What has it: a client of MQTT, or a subscription or will of an AMQP client. */
  kind: 'client' | 'subscription' | 'will';
  /** Of a subscription its name, of a will the container of its client. */
  clientId: string;
  /** The link with a will. */
  link?: string;
  /** Absent: the client is anonymous. */
  user?: string;
  connected: boolean;
  connection?: string;
  /** How long it outlives a connection; absent: for ever. */
  expirySeconds?: number;
  subscriptionCount: number;
  /** At most 1,000. */
  subscriptions: MqttSubscription[];
  will?: { topic: string; qos: number; retain: boolean; delaySeconds: number; bytes: number };
}

/** `topic` is null where the message is too large to be shown. */
export type RetainedMessage = StoredMessage & { topic: string | null };

interface Listed<T> {
  items: T[];
  metadata: { continue?: string; remainingItemCount?: number };
}

export type Pages<T> = UseInfiniteQueryResult<InfiniteData<Listed<T>>>;

const LIVE_MS = 5_000;
const SESSIONS = 200;
const RETAINED = 200;
/** Any topic but those that begin with `$` (MQTT 5.0, section 4.7.2). */
export const ANY_TOPIC = '#';

function pathOf(namespace: string, space: string, below: string): string {
  return resourcePath(AddressSpaceKind, namespace, space, below);
}

/** Sessions by user and client id. They are read again while one page holds all that was asked for. */
export function useSessions(namespace: string, space: string): Pages<MqttSession> {
  return useInfiniteQuery({
    queryKey: ['mqttsessions', namespace, space],
    queryFn: ({ pageParam, signal }) =>
      request<Listed<MqttSession>>('GET', pathOf(namespace, space, 'mqttsessions'), {
        query: { limit: SESSIONS, continue: pageParam },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: (last) => last.metadata.continue,
    refetchInterval: ({ state }) => (state.data && state.data.pages.length > 1 ? false : LIVE_MS),
  });
}

/** End a session with its subscriptions and waiting messages. */
export function endSession(namespace: string, space: string, session: MqttSession): Promise<unknown> {
  const { kind, clientId, user, link } = session;
  return request('DELETE', pathOf(namespace, space, 'mqttsessions'), {
    query: { kind, clientId, user, link },
  });
}

/** Retained messages of the topics that a filter matches. */
export function useRetained(namespace: string, space: string, filter: string): Pages<RetainedMessage> {
  return useInfiniteQuery({
    queryKey: ['retained', namespace, space, filter],
    queryFn: ({ pageParam, signal }) =>
      request<Listed<RetainedMessage>>('GET', pathOf(namespace, space, 'retained'), {
        query: { filter, limit: RETAINED, continue: pageParam },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: (last) => last.metadata.continue,
    refetchOnWindowFocus: false,
    retry: false,
  });
}

/** Delete the retained messages of a filter, in parts. Returns how many there were. */
export function deleteRetained(namespace: string, space: string, filter: string): Promise<number> {
  return inParts(async (next) => {
    const done = await request<{ messages: number; metadata: { continue?: string } }>(
      'DELETE',
      pathOf(namespace, space, 'retained'),
      { query: { filter, continue: next } },
    );
    return { messages: done.messages, continue: done.metadata.continue };
  });
}
