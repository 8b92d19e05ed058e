import { Alert, AlertActionCloseButton, AlertGroup } from '@patternfly/react-core';
import { createContext, useCallback, useContext, useMemo, useState, type ReactNode } from 'react';

/** What an action did, in a corner of the page for some seconds. */

interface Notice {
  id: number;
  title: string;
  variant: 'success' | 'info' | 'warning' | 'danger';
}

export type Notify = (title: string, variant?: Notice['variant']) => void;

const SHOWN_MS = 6_000;
const SHOWN_MAX = 5;
const Notices = createContext<Notify>(() => undefined);
let lastId = 0;

export function NoticesProvider({ children }: { children: ReactNode }) {
  const [notices, setNotices] = useState<Notice[]>([]);
  const close = useCallback((id: number) => {
    setNotices((before) => before.filter((one) => one.id !== id));
  }, []);
  const notify = useCallback<Notify>(
    (title, variant = 'success') => {
      lastId += 1;
      const id = lastId;
      setNotices((before) => [...before, { id, title, variant }].slice(-SHOWN_MAX));
      setTimeout(() => {
        close(id);
      }, SHOWN_MS);
    },
    [close],
  );
  const value = useMemo(() => notify, [notify]);
  return (
    <Notices.Provider value={value}>
      {children}
      <AlertGroup isToast isLiveRegion hasAnimations={false}>
        {notices.map((notice) => (
          <Alert
            key={notice.id}
            variant={notice.variant}
            title={<bdi className="em-break">{notice.title}</bdi>}
            actionClose={
              <AlertActionCloseButton
                title="Close"
                onClose={() => {
                  close(notice.id);
                }}
              />
            }
          />
        ))}
      </AlertGroup>
    </Notices.Provider>
  );
}

export function useNotify(): Notify {
  return useContext(Notices);
}
