import {
  Alert,
  Button,
  Card,
  CardBody,
  CardHeader,
  CardTitle,
  Content,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useEffect, useRef, useState } from 'react';
import { messageOf } from '@/api/errors';
import { BASE } from '@/api/kinds';
import { followLines, textOf, type LogRecord } from '@/operator/lines';
import { traceConnection } from './queries';

/** The frames of one connection, while the page is open: bounded in number and in time. */

const FRAMES_MAX = 1_000;
const TRACE_MS = 5 * 60_000;

export function Trace({ id }: { id: string }) {
  const [isOn, setIsOn] = useState(false);
  const [frames, setFrames] = useState<LogRecord[]>([]);
  const [error, setError] = useState<string | null>(null);
  const end = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (!isOn) return;
    const abort = new AbortController();
    const stop = () => {
      setIsOn(false);
    };
    const timer = setTimeout(stop, TRACE_MS);
    const take = (record: LogRecord) => {
      if (String(record.connection) !== id) return;
      setFrames((before) => [...before, record].slice(-FRAMES_MAX));
    };
    const fail = (failure: unknown) => {
      if (abort.signal.aborted) return;
      setError(messageOf(failure));
      setIsOn(false);
    };
    traceConnection(id, true)
      .then(() => followLines(`${BASE}/logs`, { tail: 0, follow: true }, take, abort.signal))
      .catch(fail);
    return () => {
      clearTimeout(timer);
      abort.abort();
      void traceConnection(id, false).catch(() => undefined);
    };
  }, [id, isOn]);
  useEffect(() => {
    end.current?.scrollTo({ top: end.current.scrollHeight });
  }, [frames]);
  return (
    <Card isCompact>
      <CardHeader
        actions={{
          actions: (
            <Button
              variant="secondary"
              onClick={() => {
                setError(null);
                setIsOn(!isOn);
              }}
            >
              {isOn ? 'Stop the trace' : 'Trace the frames'}
            </Button>
          ),
        }}
      >
        <CardTitle>Protocol trace</CardTitle>
      </CardHeader>
      <CardBody>
        <Stack hasGutter>
          <StackItem>
            <Content component="small">
              Frames without the contents of messages; the last {FRAMES_MAX}, for at most five minutes. They
              are in the log of the platform too.
            </Content>
          </StackItem>
          {error ? (
            <StackItem>
              <Alert isInline variant="danger" title={error} />
            </StackItem>
          ) : null}
          {isOn || frames.length > 0 ? (
            <StackItem>
              <pre ref={end} className="em-log" tabIndex={0} aria-label="Frames">
                {frames.length === 0 ? 'Waiting for the next frame …' : null}
                {frames.map((frame) => `${textOf(frame.timestamp)} ${textOf(frame.frame ?? frame.event)}\n`)}
              </pre>
            </StackItem>
          ) : null}
        </Stack>
      </CardBody>
    </Card>
  );
}
