import rhea from 'rhea/dist/rhea-umd.js';
import type { Message } from 'rhea';
import { describe, expect, it } from 'vitest';
import { dataSections, received, rheaMessage } from './messaging';

/** A message as it would arrive after it was sent. */
function roundTrip(message: Parameters<typeof rheaMessage>[0]) {
  const sent = rheaMessage(message, dataSections(rhea));
  return received(1, rhea.message.decode(rhea.message.encode(sent)) as unknown as Message).message;
}

describe('messages of a page', () => {
  it('carry texts and AMQP values as values', () => {
    expect(roundTrip({ body: 'hello', encoding: 'text' })?.body).toBe('hello');
    expect(roundTrip({ body: { a: [1, true] }, encoding: 'value' })?.body).toEqual({ a: [1, true] });
  });

  it('carry JSON as data with its content type', () => {
    const message = roundTrip({ body: { a: 1 }, encoding: 'json' });
    expect(message?.body).toBe('{"a":1}');
    expect(message?.properties?.content_type).toBe('application/json');
  });

  it('carry bytes as they are', () => {
    const sent = rheaMessage({ body: '/wAB', encoding: 'base64' }, dataSections(rhea));
    const arrived = received(1, rhea.message.decode(rhea.message.encode(sent)) as unknown as Message);
    expect(arrived.raw?.body).toBe('/wAB');
    expect(arrived.bytes).toBe(3);
  });

  it('carry properties of all sections', () => {
    const message = roundTrip({
      body: 'x',
      properties: { message_id: 'm1', subject: 'new' },
      applicationProperties: { count: 5, is_new: true },
      annotations: { 'x-opt-origin': 'page' },
      durable: false,
    });
    expect(message?.properties).toMatchObject({ message_id: 'm1', subject: 'new' });
    expect(message?.applicationProperties).toEqual({ count: 5, is_new: true });
    expect(message?.annotations).toEqual({ 'x-opt-origin': 'page' });
    expect(message?.header).toEqual({ durable: false });
  });
});
