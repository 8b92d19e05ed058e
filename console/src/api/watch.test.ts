import { afterEach, describe, expect, it, vi } from 'vitest';
import { WatchPosition, followAlways, linesOf, type WatchEvent } from './watch';

function event(type: WatchEvent['type'], object: WatchEvent['object']): string {
  return `${JSON.stringify({ type, object })}\n`;
}

function stream(...parts: string[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(new TextEncoder().encode(part));
      controller.close();
    },
  });
}

afterEach(() => {
  vi.unstubAllGlobals();
});

describe('linesOf', () => {
  it('puts lines together from parts', async () => {
    const lines: string[] = [];
    for await (const line of linesOf(stream('{"a"', ':1}\n{"b":2}\n\n', '{"c":3}'))) lines.push(line);
    expect(lines).toEqual(['{"a":1}', '{"b":2}', '{"c":3}']);
  });
});

describe('WatchPosition', () => {
  it('moves with events, and bookmarks are no change', () => {
    const position = new WatchPosition('5');
    expect(position.take({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '7' } } })).toBe(false);
    expect(position.take({ type: 'MODIFIED', object: { metadata: { resourceVersion: '8' } } })).toBe(true);
    expect(position.version).toBe('8');
  });

  it('begins anew when its version has expired', () => {
    const position = new WatchPosition('5');
    expect(position.take({ type: 'ERROR', object: { code: 410 } })).toBe(true);
    expect(position.version).toBeUndefined();
  });
});

describe('followAlways', () => {
  it('resumes at the last version after the end of a stream', async () => {
    const abort = new AbortController();
    const asked: string[] = [];
    vi.stubGlobal('fetch', (path: string) => {
      asked.push(new URL(path, 'http://localhost').searchParams.get('resourceVersion') ?? 'none');
      if (asked.length === 2) abort.abort();
      const line = event('ADDED', { metadata: { resourceVersion: '9' } });
      return Promise.resolve(new Response(stream(line), { status: 200 }));
    });
    const changed = vi.fn();
    await followAlways('/apis', { resourceVersion: '5' }, changed, abort.signal);
    expect(asked).toEqual(['5', '9']);
    expect(changed).toHaveBeenCalled();
  });

  it('gives up when the right is lost', async () => {
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('{}', { status: 403 })));
    await followAlways('/apis', {}, () => undefined, new AbortController().signal);
  });
});
