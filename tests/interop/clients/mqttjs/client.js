// The scenarios of MQTT with MQTT.js; the contract is in the README two folders up.
'use strict';

const fs = require('node:fs');
const mqtt = require('mqtt');

// kept: seconds that the session outlives its connection
async function opened(options, { clientId, kept = 0, version = options.version, ...more } = {}) {
  const protocol = options.websocket ? (options.ca ? 'wss' : 'ws') : options.ca ? 'mqtts' : 'mqtt';
  const client = await mqtt.connectAsync(`${protocol}://${options.host}:${options.port}/`, {
    clientId,
    protocolVersion: version === 3 ? 4 : 5,
    clean: kept === 0,
    properties: version === 5 && kept > 0 ? { sessionExpiryInterval: kept } : undefined,
    username: options.user,
    password: options.password,
    ca: options.ca && fs.readFileSync(options.ca),
    reconnectPeriod: 0,
    ...more,
  });
  gather(client);
  return client;
}

function gather(client) {
  client.arrived = [];
  client.on('message', (_topic, payload, packet) => {
    client.arrived.push({ payload, packet });
    client.wake?.();
  });
}

/** Resolves to the first `count` messages of clients together. */
async function taken(count, ...clients) {
  while (clients.reduce((sum, client) => sum + client.arrived.length, 0) < count) {
    await new Promise((resolve) => clients.forEach((client) => { client.wake = resolve; }));
  }
  return clients.flatMap((client) => client.arrived);
}

const end = (...clients) => Promise.all(clients.map((client) => client.endAsync()));
const text = ({ payload }) => payload.toString();

async function exchange(options) {
  const { topic, qos, publish_qos: publishQos, count, size } = options;
  const receiver = await opened(options);
  const sender = await opened(options, { version: options.publish_version ?? options.version });
  await receiver.subscribeAsync(topic, { qos });
  const bodies = Array.from({ length: count }, (_, number) => Buffer.alloc(size, number % 256));
  await Promise.all(bodies.map((body) => sender.publishAsync(topic, body, { qos: publishQos })));
  const found = await taken(count, receiver);
  await end(receiver, sender);
  return {
    received: found.length,
    in_order: found.every(({ payload }, number) => payload.equals(bodies[number])),
    qos: [...new Set(found.map(({ packet }) => packet.qos))].sort(),
  };
}

async function retained(options) {
  const { topic } = options;
  const sender = await opened(options);
  await sender.publishAsync(topic, 'first', { qos: 1, retain: true });
  const first = await opened(options);
  await first.subscribeAsync(topic, { qos: 1 });
  const [kept] = await taken(1, first);
  await sender.publishAsync(topic, '', { qos: 1, retain: true });
  const second = await opened(options);
  await second.subscribeAsync(topic, { qos: 1 });
  await sender.publishAsync(topic, 'second', { qos: 1 });
  const [after] = await taken(1, second);
  await end(sender, first, second);
  return {
    kept: text(kept),
    retained: [kept.packet.retain, after.packet.retain],
    after_clearing: text(after),
  };
}

async function will(options) {
  const { topic } = options;
  const watcher = await opened(options);
  await watcher.subscribeAsync(topic, { qos: 1 });
  const victim = await opened(options, { will: { topic, payload: 'gone', qos: 1 } });
  victim.on('error', () => {});
  victim.stream.destroy();
  const [found] = await taken(1, watcher);
  await end(watcher);
  return { will: text(found) };
}

async function shared(options) {
  const { topic, group, count } = options;
  const members = [await opened(options), await opened(options)];
  const sender = await opened(options);
  for (const member of members) await member.subscribeAsync(`$share/${group}/${topic}`, { qos: 1 });
  for (let number = 0; number < count; number += 1) {
    await sender.publishAsync(topic, String(number), { qos: 1 });
  }
  const found = await taken(count, ...members);
  await end(sender, ...members);
  return {
    received: found.length,
    distinct: new Set(found.map(text)).size,
    each: members.every((member) => member.arrived.length > 0),
  };
}

async function resume(options) {
  const { topic, count, client_id: clientId } = options;
  const first = await opened(options, { clientId, kept: 600 });
  await first.subscribeAsync(topic, { qos: 1 });
  await end(first);
  const sender = await opened(options);
  for (let number = 0; number < count; number += 1) {
    await sender.publishAsync(topic, String(number), { qos: 1 });
  }
  // Messages may come with CONNACK: the listener has to be there before.
  const again = mqtt.connect(`mqtt://${options.host}:${options.port}/`, {
    clientId,
    protocolVersion: options.version === 3 ? 4 : 5,
    clean: false,
    properties: options.version === 5 ? { sessionExpiryInterval: 600 } : undefined,
    reconnectPeriod: 0,
  });
  gather(again);
  const found = await taken(count, again);
  await end(sender, again);
  return { received: found.map((one) => Number(text(one))) };
}

async function properties(options) {
  const { topic } = options;
  const receiver = await opened(options);
  const sender = await opened(options);
  await receiver.subscribeAsync(topic, { qos: 1 });
  await sender.publishAsync(topic, 'hot', {
    qos: 1,
    properties: {
      contentType: 'text/plain',
      responseTopic: 'answers',
      correlationData: Buffer.from([1, 2]),
      userProperties: { a: ['1', '2'] },
      messageExpiryInterval: 60,
      payloadFormatIndicator: true,
    },
  });
  const [{ packet }] = await taken(1, receiver);
  await end(receiver, sender);
  const got = packet.properties;
  return {
    content_type: got.contentType,
    response_topic: got.responseTopic,
    correlation: got.correlationData.toString('hex'),
    user: got.userProperties.a.map((value) => ['a', value]),
    expires: got.messageExpiryInterval > 0 && got.messageExpiryInterval <= 60,
    format: Number(got.payloadFormatIndicator),
  };
}

async function publish(options) {
  const sender = await opened(options);
  for (const body of options.bodies) {
    await sender.publishAsync(options.topic, body, { qos: options.qos });
  }
  await end(sender);
  return { published: options.bodies.length };
}

async function consume(options) {
  const receiver = await opened(options);
  await receiver.subscribeAsync(options.topic, { qos: options.qos });
  const found = await taken(options.count, receiver);
  await end(receiver);
  return { received: found.map(text) };
}

async function refused(options) {
  try {
    await end(await opened(options));
    return {};
  } catch (error) {
    return { refused: String(error) };
  }
}

const SCENARIOS = {
  exchange, retained, will, shared, resume, properties, publish, consume, refused,
};

SCENARIOS[process.argv[2]](JSON.parse(process.argv[3])).then((answer) => {
  console.log(JSON.stringify(answer));
  process.exit(0);
}, (error) => {
  console.error(error);
  process.exit(1);
});
