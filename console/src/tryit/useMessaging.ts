import { useCallback, useEffect, useRef, useState } from 'react';
import { messageOf } from '@/api/errors';
import { Messaging, type Received } from './messaging';

/** The connection of the page, and what it has received. It ends with the page. */

/** Messages that the page keeps; older ones disappear from it. */
export const KEPT_MAX = 100;

export type Link =
  { phase: 'closed'; reason?: string } | { phase: 'opening' } | { phase: 'open'; messaging: Messaging };

export interface MessagingControl {
  link: Link;
  received: readonly Received[];
  total: number;
  open: (user: string | undefined) => void;
  close: () => void;
  clear: () => void;
}

export function useMessaging(namespace: string, space: string): MessagingControl {
  const [link, setLink] = useState<Link>({ phase: 'closed' });
  const [received, setReceived] = useState<readonly Received[]>([]);
  const [total, setTotal] = useState(0);
  const current = useRef<Messaging | undefined>(undefined);
  const isGone = useRef(false);

  useEffect(() => {
    isGone.current = false;
    return () => {
      isGone.current = true;
      current.current?.close();
    };
  }, []);

  const open = useCallback(
    (user: string | undefined) => {
      setLink({ phase: 'opening' });
      const listener = {
        onMessage: (message: Received) => {
          setTotal((count) => count + 1);
          setReceived((known) => [message, ...known].slice(0, KEPT_MAX));
        },
        onEnd: (reason: string | undefined) => {
          current.current = undefined;
          setLink(reason === undefined ? { phase: 'closed' } : { phase: 'closed', reason });
        },
      };
      Messaging.open(namespace, space, user, listener).then(
        (messaging) => {
          if (isGone.current) {
            messaging.close();
            return;
          }
          current.current = messaging;
          setLink({ phase: 'open', messaging });
        },
        (error: unknown) => {
          setLink({ phase: 'closed', reason: messageOf(error) });
        },
      );
    },
    [namespace, space],
  );
  const close = useCallback(() => current.current?.close(), []);
  const clear = useCallback(() => {
    setReceived([]);
    setTotal(0);
  }, []);
  return { link, received, total, open, close, clear };
}
