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
import { tracePath } from './queries';

/** The frames of one connection, as they pass: bounded in number and in time by the platform. */

const FRAMES_MAX = 1_000;
const TRACE_S = 120;

interface Frame {
  atMs: number;
  direction: 'in' | 'out';
  frames: string;
}

function lineOf(frame: Frame): string {
  const time = new Date(frame.atMs).toISOString().slice(11, 23);
  return `${time} ${frame.direction === 'in' ? '<-' : '->'} ${frame.frames}\n`;
}

export function Trace({ namespace, id }: { namespace: string; id: string }) {
  const [isOn, setIsOn] = useState(false);
  const [frames, setFrames] = useState<Frame[]>([]);
  const [end, setEnd] = useState<string | null>(null);
  const view = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (!isOn) return;
    const source = new EventSource(tracePath(namespace, id, FRAMES_MAX, TRACE_S));
    const finish = (reason: string) => {
      source.close();
      setEnd(reason);
      setIsOn(false);
    };
    source.addEventListener('frame', (event: MessageEvent<string>) => {
      setFrames((before) => [...before, JSON.parse(event.data) as Frame].slice(-FRAMES_MAX));
    });
    source.addEventListener('end', () => {
      finish('The trace reached its bound.');
    });
    source.addEventListener('error', () => {
      finish('The trace ended: the connection is closed, or the platform does not answer.');
    });
    return () => {
      source.close();
    };
  }, [namespace, id, isOn]);
  useEffect(() => {
    view.current?.scrollTo({ top: view.current.scrollHeight });
  }, [frames]);
  const toggle = () => {
    setEnd(null);
    setIsOn(!isOn);
  };
  return (
    <Card isCompact>
      <CardHeader
        actions={{
          actions: (
            <Button variant="secondary" onClick={toggle}>
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
              Frames without the contents of messages: at most {FRAMES_MAX}, for at most {TRACE_S} seconds.
            </Content>
          </StackItem>
          {end ? (
            <StackItem>
              <Alert isInline variant="info" title={end} />
            </StackItem>
          ) : null}
          {isOn || frames.length > 0 ? (
            <StackItem>
              <pre ref={view} className="em-log" tabIndex={0} aria-label="Frames">
                {frames.length === 0 ? 'Waiting for the next frame …' : null}
                {frames.map(lineOf)}
              </pre>
            </StackItem>
          ) : null}
        </Stack>
      </CardBody>
    </Card>
  );
}
