// The interoperability scenarios with rhea; the contract is in the README two folders up.
'use strict';

const fs = require('node:fs');
const { once } = require('node:events');
const rhea = require('rhea');
const WebSocket = require('ws');

const body = (number, size) => rhea.message.data_section(Buffer.alloc(size, number % 256));
const content = (message) => message.body.content;

// The endings a delivery may have at its sender, each an event of rhea.
const OUTCOMES = ['accepted', 'rejected', 'released', 'modified'];

function connectOptions(options) {
  const mechanism = options.mechanism ?? 'ANONYMOUS';
  const mechanisms = rhea.sasl.client_mechanisms();
  if (mechanism === 'ANONYMOUS') mechanisms.enable_anonymous('interop');
  if (mechanism === 'PLAIN') mechanisms.enable_plain(options.user, options.password);
  if (mechanism === 'EXTERNAL') mechanisms.enable_external();
  if (mechanism === 'XOAUTH2') mechanisms.enable_xoauth2(options.user, options.token);
  const ca = options.ca && fs.readFileSync(options.ca);
  return {
    host: options.host,
    port: options.port,
    connection_details: options.websocket ? webSocket(options, ca) : undefined,
    reconnect: false,
    hostname: options.virtual_host,
    sasl_init_hostname: options.virtual_host,
    sasl_mechanisms: mechanism === 'NONE' ? undefined : mechanisms,
    transport: options.tls ? 'tls' : 'tcp',
    ca,
    cert: options.certificate && fs.readFileSync(options.certificate),
    key: options.key && fs.readFileSync(options.key),
  };
}

function webSocket({ host, port, tls }, ca) {
  const url = `${tls ? 'wss' : 'ws'}://${host}:${port}/`;
  return rhea.websocket_connect(WebSocket)(url, ['amqp'], { ca });
}

/** Resolves to the open connection, or to the error that kept it shut. */
function connected(options) {
  const connection = rhea.create_container().connect(connectOptions(options));
  return new Promise((resolve) => {
    connection.once('connection_open', () => resolve({ connection }));
    connection.once('connection_error', () => resolve({ refused: String(connection.error) }));
    connection.once('disconnected', (context) => resolve({ refused: String(context.error) }));
  });
}

/** Opens a receiver and collects its messages: `next()` resolves to the next {message, delivery}. */
async function openReceiver(connection, options) {
  const receiver = connection.open_receiver({ autoaccept: false, credit_window: 0, ...options });
  const waiting = [];
  const arrived = [];
  receiver.on('message', (context) => {
    if (waiting.length > 0) waiting.shift()(context);
    else arrived.push(context);
  });
  await once(receiver, 'receiver_open');
  return {
    receiver,
    next: () =>
      arrived.length > 0
        ? Promise.resolve(arrived.shift())
        : new Promise((resolve) => waiting.push(resolve)),
  };
}

async function openSender(connection, options) {
  const sender = connection.open_sender({ treat_modified_as_released: false, ...options });
  await once(sender, 'sender_open');
  return sender;
}

/** Waits for credit and session room, then sends. */
async function send(sender, message) {
  while (!sender.sendable()) await once(sender, 'sendable');
  return sender.send(message);
}

/** Resolves once `count` deliveries of the sender are settled, to their outcomes by delivery id. */
function settled(sender, count) {
  const states = new Map();
  return new Promise((resolve) => {
    for (const outcome of OUTCOMES) {
      sender.on(outcome, (context) => {
        states.set(context.delivery.id, { outcome, state: context.delivery.remote_state });
        if (states.size === count) {
          resolve([...states.keys()].sort((a, b) => a - b).map((id) => states.get(id)));
        }
      });
    }
  });
}

async function exchange(connection, { address, count, size, settled: presettled }) {
  const mode = presettled ? { snd_settle_mode: 1 } : {};
  const incoming = await openReceiver(connection, { source: address, ...mode });
  incoming.receiver.add_credit(count);
  const sender = await openSender(connection, { target: address, ...mode });
  const endings = presettled ? Promise.resolve([]) : settled(sender, count);
  const sending = (async () => {
    for (let number = 0; number < count; number += 1) {
      await send(sender, { message_id: number, body: body(number, size) });
    }
  })();
  let [inOrder, intact] = [true, true];
  for (let number = 0; number < count; number += 1) {
    const { message, delivery } = await incoming.next();
    inOrder = inOrder && message.message_id === number;
    intact = intact && content(message).equals(content({ body: body(number, size) }));
    if (!presettled) delivery.accept();
  }
  await sending;
  const outcomes = {};
  for (const { outcome } of await endings) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  return { received: count, in_order: inOrder, intact, outcomes };
}

async function outcomes(connection, { address }) {
  const incoming = await openReceiver(connection, { source: address });
  incoming.receiver.add_credit(4);
  const sender = await openSender(connection, { target: address });
  const endings = settled(sender, 4);
  for (let number = 0; number < 4; number += 1) {
    await send(sender, { message_id: number, body: 'judge me' });
  }
  const judges = [
    (delivery) => delivery.accept(),
    (delivery) => delivery.reject({ condition: 'test:spoiled', description: 'past its date' }),
    (delivery) => delivery.release(),
    (delivery) => delivery.modified({ delivery_failed: true, undeliverable_here: true }),
  ];
  for (const judge of judges) {
    judge((await incoming.next()).delivery);
    // A turn each: rhea joins two outcomes of the same turn into one range, even if they differ.
    await new Promise(setImmediate);
  }
  const ended = await endings;
  const { error } = ended[1].state;
  const { delivery_failed, undeliverable_here } = ended[3].state;
  return {
    outcomes: ended.map(({ outcome }) => outcome),
    error: { condition: error.condition, description: error.description },
    modified: { delivery_failed, undeliverable_here },
  };
}

async function drain(connection, { address, count }) {
  const incoming = await openReceiver(connection, { source: address });
  incoming.receiver.add_credit(10);
  const sender = await openSender(connection, { target: address });
  const endings = settled(sender, count);
  for (let number = 0; number < count; number += 1) await send(sender, { message_id: number });
  for (let number = 0; number < count; number += 1) (await incoming.next()).delivery.accept();
  await endings;
  const drained = once(incoming.receiver, 'receiver_drained');
  incoming.receiver.drain_credit();
  await drained;
  return { received: count, drained: incoming.receiver.credit === 0 };
}

async function request(connection, { address, count }) {
  const service = await openReceiver(connection, { source: address });
  service.receiver.add_credit(10);
  const answers = await openSender(connection, { target: {} });
  const replies = await openReceiver(connection, { source: { dynamic: true } });
  replies.receiver.add_credit(10);
  const requests = await openSender(connection, { target: address });
  const texts = [];
  let correlated = true;
  for (let number = 0; number < count; number += 1) {
    const reply_to = replies.receiver.source.address;
    await send(requests, { message_id: number, reply_to, body: `ping ${number}` });
    const asked = await service.next();
    asked.delivery.accept();
    await send(answers, {
      to: asked.message.reply_to,
      correlation_id: asked.message.message_id,
      body: asked.message.body.toUpperCase(),
    });
    const { message, delivery } = await replies.next();
    delivery.accept();
    texts.push(message.body);
    correlated = correlated && message.correlation_id === number;
  }
  return { replies: texts, correlated };
}

async function temporary(connection, { count }) {
  const replies = await openReceiver(connection, { source: { dynamic: true } });
  const name = replies.receiver.source.address;
  const outcomes = [];
  for (const target of [{ address: name }, {}]) {
    const sender = await openSender(connection, { target });
    const endings = settled(sender, count);
    for (let number = 0; number < count; number += 1) {
      await send(sender, { to: name, body: `message ${number}` });
    }
    outcomes.push(...(await endings).map(({ outcome }) => outcome));
  }
  replies.receiver.add_credit(2 * count);
  const received = [];
  while (received.length < 2 * count) {
    const { message, delivery } = await replies.next();
    delivery.accept();
    received.push(message.body);
  }
  return { outcomes, received };
}

/** Resolves to the condition with which the link is refused, or null if it stays attached. */
async function conditionOf(link, role) {
  const closed = once(link, `${role}_error`);
  await closed;
  return link.error ? link.error.condition : null;
}

async function refused(connection, { address }) {
  return {
    sender: await conditionOf(connection.open_sender({ target: address }), 'sender'),
    receiver: await conditionOf(connection.open_receiver({ source: address }), 'receiver'),
  };
}

async function multicast(connection, { address, count }) {
  const listeners = [];
  for (const number of [0, 1, 2]) {
    const listener = await openReceiver(connection, { source: address, name: `listener-${number}` });
    listener.receiver.add_credit(count);
    listeners.push(listener);
  }
  const sender = await openSender(connection, { target: address });
  const endings = settled(sender, count);
  for (let number = 0; number < count; number += 1) await send(sender, { message_id: number });
  const received = [];
  for (const listener of listeners) {
    const numbers = new Set();
    for (let turn = 0; turn < count; turn += 1) {
      const { message, delivery } = await listener.next();
      numbers.add(message.message_id);
      delivery.accept();
    }
    received.push(numbers.size);
  }
  await endings;
  return { received };
}

async function anonymous(connection, { address, unknown }) {
  const capabilities = [connection.remote.open.offered_capabilities].flat().map(String);
  const incoming = await openReceiver(connection, { source: address });
  incoming.receiver.add_credit(1);
  const sender = await openSender(connection, { target: {} });
  const endings = settled(sender, 2);
  await send(sender, { to: address, body: 'known' });
  (await incoming.next()).delivery.accept();
  await send(sender, { to: unknown, body: 'unknown' });
  const [first, second] = await endings;
  return {
    relay: capabilities.includes('ANONYMOUS-RELAY'),
    known: first.outcome,
    unknown: second.outcome,
    condition: second.state.error.condition,
  };
}

/** Sends numbered messages to a queue that nobody consumes from; resolves once all are accepted. */
async function fill(connection, address, count, properties = () => ({})) {
  const sender = await openSender(connection, { target: address });
  const endings = settled(sender, count);
  for (let number = 0; number < count; number += 1) {
    await send(sender, { message_id: number, application_properties: { number, ...properties(number) } });
  }
  const refused = (await endings).filter(({ outcome }) => outcome !== 'accepted');
  if (refused.length > 0) throw new Error(`${refused.length} messages were not accepted`);
  sender.close();
}

/** The numbers of the next messages of a source, each accepted; its link is closed then. */
async function numbers(connection, source, count) {
  const { receiver, next } = await openReceiver(connection, { source });
  receiver.add_credit(count);
  const found = [];
  while (found.length < count) {
    const { message, delivery } = await next();
    found.push(message.application_properties.number);
    delivery.accept();
  }
  receiver.close();
  await once(receiver, 'receiver_close');
  return found;
}

async function queue(connection, { address, count }) {
  await fill(connection, address, count);
  return { received: await numbers(connection, address, count) };
}

async function judge(connection, { address }) {
  await fill(connection, address, 1);
  const { receiver, next } = await openReceiver(connection, { source: address });
  const judges = [
    (delivery) => delivery.release(),
    (delivery) => delivery.modified({ delivery_failed: true }),
    (delivery) => delivery.accept(),
  ];
  const counts = [];
  for (const decide of judges) {
    receiver.add_credit(1);
    const { message, delivery } = await next();
    counts.push(message.delivery_count ?? 0);
    decide(delivery);
  }
  return { counts };
}

async function browse(connection, { address, count }) {
  await fill(connection, address, count);
  const browsed = await numbers(connection, { address, distribution_mode: 'copy' }, count);
  return { browsed, received: await numbers(connection, address, count) };
}

async function select(connection, { address, count, selector, matching }) {
  await fill(connection, address, count, (number) => ({ colour: number % 2 === 0 ? 'red' : 'blue' }));
  const filter = rhea.filter.selector(selector);
  return {
    selected: await numbers(connection, { address, filter }, matching),
    rest: await numbers(connection, address, count - matching),
  };
}

/** Opens connections until one is refused. */
async function crowd(connection, options) {
  const others = [];
  let [open, condition] = [0, null];
  while (open < options.count && condition === null) {
    open += 1;
    const other = rhea.create_container().connect(connectOptions(options));
    others.push(other);
    other.open_sender({ target: options.address });
    condition = await new Promise((resolve) => {
      other.once('sendable', () => resolve(null));
      other.once('connection_error', () => resolve(other.error.condition));
      other.on('disconnected', () => {});
    });
  }
  for (const other of others) other.close();
  return { open, condition };
}

async function links(connection, { address, count }) {
  for (let open = 0; open < count; open += 1) {
    const sender = connection.open_sender({ target: address, name: `${open}` });
    const condition = await new Promise((resolve) => {
      sender.once('sendable', () => resolve(null));
      sender.once('sender_error', () => resolve(sender.error.condition));
    });
    if (condition !== null) return { open, condition };
  }
  return { open: count, condition: null };
}

async function too_large(connection, { address }) {
  const sender = await openSender(connection, { target: address });
  const told = Number(sender.max_message_size);
  const condition = conditionOf(sender, 'sender');
  await send(sender, { body: body(0, told + 1) });
  return { told, condition: await condition };
}

/** Sends a message and resolves to what became of it. */
async function ended(sender, message) {
  const ending = settled(sender, 1);
  await send(sender, message);
  return (await ending)[0];
}

async function overfill(connection, { address, count, size }) {
  for (let accepted = 0; accepted < count; accepted += 1) {
    const sender = await openSender(connection, { target: address });
    const { outcome, state } = await ended(sender, { body: body(accepted, size) });
    if (outcome !== 'accepted') return { accepted, outcome, condition: state.error.condition };
    sender.close();
  }
  return { accepted: count, outcome: null, condition: null };
}

async function overdue(connection, { address, dead }) {
  const sender = await openSender(connection, { target: address });
  await ended(sender, { body: 'nobody comes' });
  const { receiver, next } = await openReceiver(connection, { source: dead });
  receiver.add_credit(1);
  const { message, delivery } = await next();
  delivery.accept();
  return { body: message.body, cause: message.message_annotations['x-opt-dead-letter-cause'] };
}

/** Sends until there is no credit for a while; then once more, however long that takes. */
async function pour(connection, { address, count, size, quiet_s: quiet, patient }) {
  const sender = await openSender(connection, { target: address });
  let [accepted, stuck] = [0, false];
  sender.on('accepted', () => { accepted += 1; });
  const sendable = (milliseconds) => new Promise((resolve) => {
    if (sender.sendable()) { resolve(true); return; }
    const timer = setTimeout(resolve, milliseconds, false);
    sender.once('sendable', () => { clearTimeout(timer); resolve(true); });
  });
  const deliver = async () => {
    const one = once(sender, 'settled');
    sender.send({ body: body(accepted, size) });
    await one;
  };
  for (let sent = 0; sent < count && !stuck; sent += 1) {
    stuck = !(await sendable(quiet * 1000));
    if (!stuck) await deliver();
  }
  const at_once = accepted;
  if (patient && await sendable(60_000)) await deliver();
  return { accepted: at_once, stuck, later: accepted - at_once };
}

const SCENARIOS = {
  exchange, outcomes, drain, request, temporary, refused, multicast, anonymous, queue, judge, browse, select,
  crowd, links, too_large, overfill, overdue, pour,
};

async function main(scenario, options) {
  const { connection, refused: reason } = await connected(options);
  if (reason !== undefined) return { refused: reason };
  connection.on('disconnected', () => {});
  const result = await SCENARIOS[scenario](connection, options);
  connection.close();
  await once(connection, 'connection_close');
  return result;
}

main(process.argv[2], JSON.parse(process.argv[3])).then((result) => {
  console.log(JSON.stringify(result));
});
