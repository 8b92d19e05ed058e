/** Where two documents differ, by path; `metadata` is the platform's affair. */

export interface Difference {
  path: string;
  before: string;
  after: string;
}

const ABSENT = 'absent';

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return value === undefined ? ABSENT : JSON.stringify(value);
}

function walk(before: unknown, after: unknown, path: string, found: Difference[]): void {
  if (isRecord(before) && isRecord(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      walk(before[name], after[name], path ? `${path}.${name}` : name, found);
    }
    return;
  }
  const [was, is] = [text(before), text(after)];
  if (was !== is) found.push({ path, before: was, after: is });
}

export function differences(before: unknown, after: unknown): Difference[] {
  const found: Difference[] = [];
  const spec = (document: unknown) => (isRecord(document) ? document.spec : undefined);
  walk(spec(before), spec(after), 'spec', found);
  return found;
}
