import type { Connection, Container, Delivery, EventContext, Message, Receiver, Sender } from 'rhea';
import { request } from '@/api/http';
import { AddressSpaceKind, resourcePath } from '@/api/kinds';
import type { MessageDocument, OutgoingMessage, SendResult, StoredMessage } from '@/api/messages';

/**
 * One AMQP connection of the page, over a WebSocket at the console's own origin. A token of the platform opens
 * it once, as a messaging user; the page has no password of that user.
 */

interface ConnectionToken {
  path: string;
  protocols: string[];
}

export interface Received extends StoredMessage {
  /** Number of the message since the connection was opened. */
  id: number;
}

export interface Listener {
  onMessage: (message: Received) => void;
  /** The connection ended; `reason` says why, if the page did not ask for it. */
  onEnd: (reason: string | undefined) => void;
}

/** Messages that the node may send before the page has taken them. */
const CREDIT = 50;
const SEND_TIMEOUT_MS = 10_000;
const IDLE_MS = 60_000;

interface Failing {
  error?: { condition?: string; description?: string } | Error;
}

function reasonOf(failing: Failing | undefined): string {
  const error = failing?.error;
  const text = error && 'description' in error ? error.description : (error as Error | undefined)?.message;
  return text ?? 'the node closed it without a reason';
}

export class Messaging {
  private receiver: Receiver | undefined;
  private readonly senders = new Map<string, Sender>();
  private count = 0;
  private isClosing = false;

  private constructor(
    private readonly connection: Connection,
    private readonly listener: Listener,
    private readonly dataOf: DataOf,
  ) {
    connection.on('message', ({ message }: EventContext) => {
      if (message) this.take(message);
    });
    connection.on('connection_error', ({ connection: of }: EventContext) => {
      this.end(reasonOf(of as Failing));
    });
    connection.on('disconnected', ({ error }: EventContext) => {
      this.end(error ? reasonOf({ error }) : 'the connection was lost');
    });
    connection.on('connection_close', () => {
      this.end(undefined);
    });
  }

  /** Connect to a space as a user; `undefined`: anonymous. Throws what the platform or the node says. */
  static async open(
    namespace: string,
    space: string,
    user: string | undefined,
    listener: Listener,
  ): Promise<Messaging> {
    const path = resourcePath(AddressSpaceKind, namespace, space, 'connectiontokens');
    const [token, { default: rhea }] = await Promise.all([
      request<ConnectionToken>('POST', path, { body: user === undefined ? {} : { user } }),
      import('rhea/dist/rhea-umd.js'),
    ]);
    const url = `${location.origin.replace(/^http/, 'ws')}${token.path}`;
    // A token opens one connection, so a new attempt needs a new token.
    const connection = rhea.create_container().connect({
      connection_details: rhea.websocket_connect(WebSocket)(url, token.protocols, {}),
      reconnect: false,
      idle_time_out: IDLE_MS,
      container_id: `console-${crypto.randomUUID()}`,
    } as unknown as Parameters<typeof rhea.connect>[0]);
    return new Promise((resolve, reject) => {
      const refuse = (context: EventContext) => {
        reject(new Error(reasonOf((context.error ? context : context.connection) as Failing)));
      };
      connection.once('connection_open', () => {
        resolve(new Messaging(connection, listener, dataSections(rhea)));
      });
      connection.once('connection_error', refuse);
      connection.once('disconnected', refuse);
    });
  }

  /** Receive from an address, and no longer from the one before. Settles each message as accepted. */
  receive(address: string): Promise<void> {
    this.receiver?.close();
    const receiver = this.connection.open_receiver({
      source: { address },
      credit_window: CREDIT,
      autoaccept: true,
    });
    this.receiver = receiver;
    return opened(receiver, 'receiver');
  }

  stopReceiving(): void {
    this.receiver?.close();
    this.receiver = undefined;
  }

  /** Send a message; the answer is the outcome that the node reports. */
  async send(address: string, message: OutgoingMessage): Promise<SendResult> {
    const sender = await this.senderTo(address);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error('no outcome within 10 s: the address has no consumer, or is full'));
      }, SEND_TIMEOUT_MS);
      const submit = () => {
        const delivery = sender.send(rheaMessage(message, this.dataOf));
        const settle = (context: EventContext) => {
          if (context.delivery !== delivery) return;
          for (const outcome of OUTCOMES) sender.removeListener(outcome, settle);
          clearTimeout(timer);
          resolve(answerOf(context.delivery));
        };
        for (const outcome of OUTCOMES) sender.on(outcome, settle);
      };
      if (sender.sendable()) submit();
      else sender.once('sendable', submit);
    });
  }

  close(): void {
    this.isClosing = true;
    this.connection.close();
  }

  private take(message: Message): void {
    this.count += 1;
    this.listener.onMessage(received(this.count, message));
  }

  private async senderTo(address: string): Promise<Sender> {
    const known = this.senders.get(address);
    if (known?.is_open()) return known;
    const sender = this.connection.open_sender({ target: { address } });
    await opened(sender, 'sender');
    this.senders.set(address, sender);
    return sender;
  }

  private end(reason: string | undefined): void {
    for (const event of ['message', 'connection_error', 'disconnected', 'connection_close'])
      this.connection.removeAllListeners(event);
    this.listener.onEnd(this.isClosing ? undefined : reason);
  }
}

const OUTCOMES = ['accepted', 'rejected', 'released', 'modified'] as const;

function answerOf(delivery: Delivery | undefined): SendResult {
  const state = delivery?.remote_state as
    | { error?: { condition?: string; description?: string }; constructor: { composite_type?: string } }
    | undefined;
  const name = state?.constructor.composite_type ?? 'accepted';
  const error = state?.error;
  return {
    outcome: name as SendResult['outcome'],
    ...(error?.condition ? { condition: error.condition } : {}),
    ...(error?.description ? { description: error.description } : {}),
    messages: name === 'accepted' ? 1 : 0,
  };
}

function opened(link: Sender | Receiver, kind: 'sender' | 'receiver'): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = () => {
      link.removeListener(`${kind}_open`, attached);
      link.removeListener(`${kind}_error`, refused);
    };
    // A node that refuses a link attaches it first, without a terminus (AMQP 1.0, 2.6.3).
    const attached = () => {
      const terminus = kind === 'sender' ? link.target : link.source;
      if ((terminus as { address?: string } | undefined)?.address === undefined) return;
      done();
      resolve();
    };
    const refused = () => {
      done();
      reject(new Error(reasonOf(link as unknown as Failing)));
    };
    link.on(`${kind}_open`, attached);
    link.on(`${kind}_error`, refused);
  });
}

function bytesFrom(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

type DataOf = (bytes: Uint8Array) => unknown;

/** rhea writes binary data from its own copy of Node's Buffer, which only what it encodes leads to. */
export function dataSections(rhea: Container): DataOf {
  const known = rhea.message.encode({ body: '' }).constructor as unknown as {
    from: (bytes: Uint8Array) => unknown;
  };
  return (bytes) => rhea.message.data_section(known.from(bytes));
}

const DATA = 0x75;

/** The message of a form in the form of rhea. Data sections carry the bytes of JSON and base64. */
export function rheaMessage(message: OutgoingMessage, dataOf: DataOf): Message {
  const isJson = message.encoding === 'json';
  return {
    ...(isJson ? { content_type: 'application/json' } : {}),
    ...message.properties,
    body:
      message.encoding === 'base64'
        ? dataOf(bytesFrom(String(message.body)))
        : isJson
          ? dataOf(new TextEncoder().encode(JSON.stringify(message.body)))
          : message.body,
    durable: message.durable ?? true,
    ...(message.ttlMs === undefined ? {} : { ttl: message.ttlMs }),
    ...(message.priority === undefined ? {} : { priority: message.priority }),
    ...(message.applicationProperties ? { application_properties: message.applicationProperties } : {}),
    ...(message.annotations ? { message_annotations: message.annotations } : {}),
  };
}

const PROPERTIES = [
  'message_id',
  'user_id',
  'to',
  'subject',
  'reply_to',
  'correlation_id',
  'content_type',
  'group_id',
] as const;

/** A received message in the form that the pages of messages show. */
export function received(id: number, message: Message): Received {
  const section = message.body as { typecode?: number; content?: Uint8Array } | undefined;
  const bytes = section?.typecode === DATA ? section.content : undefined;
  const properties = Object.fromEntries(
    PROPERTIES.flatMap((name) => {
      const value: unknown = message[name];
      return value === undefined || value === null
        ? []
        : [[name, value instanceof Date ? value.toISOString() : value]];
    }),
  );
  const document: MessageDocument = {
    body: bytes ? new TextDecoder().decode(bytes) : (message.body as unknown),
    properties,
    applicationProperties: message.application_properties ?? {},
    annotations: message.message_annotations ?? {},
    header: { durable: message.durable ?? false },
  };
  return {
    id,
    bytes: bytes?.length ?? new TextEncoder().encode(JSON.stringify(message.body ?? null)).length,
    enqueued: new Date().toISOString(),
    message: document,
    kind: bytes ? 'data' : 'value',
    ...(bytes ? { raw: { encoding: 'base64' as const, body: btoa(String.fromCharCode(...bytes)) } } : {}),
  };
}
