import { SchemaKind } from '@/api/kinds';
import { useAll } from '@/api/list';
import type { AddressSpace, AddressSpaceSchema, Usage } from '@/api/types';
import { bytes, count } from '@/ui/format';

/** What the plan of a space allows. The schema has it for everyone; the plans are for operators only. */

export type PlanChoice = NonNullable<AddressSpaceSchema['spec']['plans']>[number];
export type SpaceLimits = NonNullable<PlanChoice['limits']>;
export type Allowance = NonNullable<SpaceLimits['allowance']>;

export function usePlanChoice(space: AddressSpace): PlanChoice | undefined {
  const schemas = useAll<AddressSpaceSchema>(SchemaKind);
  return schemas.data
    ?.find((one) => one.metadata.name === space.spec.type)
    ?.spec.plans?.find((one) => one.name === space.spec.plan);
}

/** A size of a document: the API writes bytes, and reads texts with units as well. */
export function sizeOf(size: number | string | undefined): number | undefined {
  return typeof size === 'number' ? size : undefined;
}

/** The name of the present period, in UTC: `2026-11`, or `2026-11-30` where an allowance is of a day. */
export function periodOf(now: string, allowance: Allowance | undefined): string {
  return new Date(now).toISOString().slice(0, allowance?.period === 'day' ? 10 : 7);
}

/** The usage of a period; before the first message of it there is no record. */
export function usageOf(records: readonly Usage[] | undefined, period: string): Usage {
  return (
    records?.find((one) => one.period === period) ?? {
      period,
      messagesIn: 0,
      bytesIn: 0,
      messagesOut: 0,
      bytesOut: 0,
      connections: 0,
      storedBytes: 0,
    }
  );
}

/** The limits of a plan in words, such as `10 connections`. */
export function limitTexts(limits: SpaceLimits | undefined): string[] {
  if (!limits) return [];
  const { allowance } = limits;
  const size = sizeOf(allowance?.bytes);
  const period = allowance?.period ?? 'month';
  const texts: [number | undefined, (value: number) => string][] = [
    [limits.addresses, (value) => `${count(value)} addresses`],
    [limits.connections, (value) => `${count(value)} connections`],
    [limits.links, (value) => `${count(value)} links`],
    [limits.messagesPerSecond, (value) => `${count(value)} messages/s`],
    [sizeOf(limits.bytesPerSecond), (value) => `${bytes(value)}/s`],
    [sizeOf(limits.messageSize), (value) => `messages of ${bytes(value)}`],
    [limits.mqttSessions, (value) => `${count(value)} MQTT sessions`],
    [limits.retainedMessages, (value) => `${count(value)} retained messages`],
    [sizeOf(limits.retainedBytes), (value) => `${bytes(value)} of retained messages`],
    [allowance?.messages, (value) => `${count(value)} messages a ${period}`],
    [size, (value) => `${bytes(value)} a ${period}`],
  ];
  return texts.flatMap(([value, text]) => (value === undefined ? [] : [text(value)]));
}
