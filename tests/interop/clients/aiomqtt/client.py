"""The scenarios of MQTT with aiomqtt; the contract is in the README two folders up."""

import asyncio
import json
import socket
import sys
from typing import Any

import aiomqtt
from aiomqtt import ProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

VERSIONS = {3: ProtocolVersion.V311, 5: ProtocolVersion.V5}
Options = dict[str, Any]


def opened(options: Options, client_id: str | None = None, **more: Any) -> aiomqtt.Client:
    """A client, to be used as a context. `kept`: seconds that its session outlives it."""
    version, kept = more.pop("version", options["version"]), more.pop("kept", 0)
    if version == 5:
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = kept
        more |= {"properties": properties, "clean_start": not kept}
    else:
        more |= {"clean_session": not kept}
    if "ca" in options:
        more["tls_params"] = aiomqtt.TLSParameters(ca_certs=options["ca"])
    return aiomqtt.Client(
        options["host"],
        options["port"],
        username=options.get("user"),
        password=options.get("password"),
        identifier=client_id,
        protocol=VERSIONS[version],
        **more,
    )


async def taken(client: aiomqtt.Client, count: int) -> list[aiomqtt.Message]:
    """The next messages."""
    found = []
    async for message in client.messages:
        found.append(message)
        if len(found) == count:
            break
    return found


async def exchange(options: Options) -> Options:
    topic, count, size = options["topic"], options["count"], options["size"]
    version = options.get("publish_version", options["version"])
    async with opened(options) as receiver, opened(options, version=version) as sender:
        await receiver.subscribe(topic, options["qos"])
        for number in range(count):
            await sender.publish(topic, bytes([number % 256]) * size, options["publish_qos"])
        found = await taken(receiver, count)
    bodies = [message.payload for message in found]
    return {
        "received": len(found),
        "in_order": bodies == [bytes([number % 256]) * size for number in range(count)],
        "qos": sorted({message.qos for message in found}),
    }


async def retained(options: Options) -> Options:
    topic = options["topic"]
    async with opened(options) as sender, opened(options) as second:
        await sender.publish(topic, "first", 1, retain=True)
        async with opened(options) as first:
            await first.subscribe(topic, 1)
            (kept,) = await taken(first, 1)
        await sender.publish(topic, b"", 1, retain=True)
        await second.subscribe(topic, 1)
        await sender.publish(topic, "second", 1)
        (after,) = await taken(second, 1)
    return {
        "kept": kept.payload.decode(),
        "retained": [bool(kept.retain), bool(after.retain)],
        "after_clearing": after.payload.decode(),
    }


async def will(options: Options) -> Options:
    topic = options["topic"]
    async with opened(options) as watcher:
        await watcher.subscribe(topic, 1)
        victim = opened(options, will=aiomqtt.Will(topic, "gone", 1))
        await victim.__aenter__()
        victim._client.socket().shutdown(socket.SHUT_RDWR)
        (found,) = await taken(watcher, 1)
        await asyncio.gather(victim.__aexit__(None, None, None), return_exceptions=True)
    return {"will": found.payload.decode()}


async def shared(options: Options) -> Options:
    topic, count = options["topic"], options["count"]
    arrived: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()

    async def consume(member: int, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            arrived.put_nowait((member, message.payload))

    async with opened(options) as one, opened(options) as other, opened(options) as sender:
        for client in (one, other):
            await client.subscribe(f"$share/{options['group']}/{topic}", 1)
        tasks = [asyncio.create_task(consume(*both)) for both in enumerate((one, other))]
        for number in range(count):
            await sender.publish(topic, str(number), 1)
        found = [await arrived.get() for _ in range(count)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "received": len(found),
        "distinct": len({body for _, body in found}),
        "each": len({member for member, _ in found}) == len(tasks),
    }


async def resume(options: Options) -> Options:
    topic, count, name = options["topic"], options["count"], options["client_id"]
    async with opened(options, name, kept=600) as first:
        await first.subscribe(topic, 1)
    async with opened(options) as sender:
        for number in range(count):
            await sender.publish(topic, str(number), 1)
    async with opened(options, name, kept=600) as again:
        found = await taken(again, count)
    return {"received": [int(message.payload) for message in found]}


async def properties(options: Options) -> Options:
    topic = options["topic"]
    given = Properties(PacketTypes.PUBLISH)
    given.ContentType, given.ResponseTopic = "text/plain", "answers"
    given.CorrelationData = b"\x01\x02"
    given.UserProperty, given.MessageExpiryInterval = [("a", "1"), ("a", "2")], 60
    given.PayloadFormatIndicator = 1
    async with opened(options) as receiver, opened(options) as sender:
        await receiver.subscribe(topic, 1)
        await sender.publish(topic, "hot", 1, properties=given)
        (found,) = await taken(receiver, 1)
    got = found.properties
    return {
        "content_type": got.ContentType,
        "response_topic": got.ResponseTopic,
        "correlation": got.CorrelationData.hex(),
        "user": [list(pair) for pair in got.UserProperty],
        "expires": 0 < got.MessageExpiryInterval <= 60,
        "format": got.PayloadFormatIndicator,
    }


async def publish(options: Options) -> Options:
    async with opened(options) as sender:
        for body in options["bodies"]:
            await sender.publish(options["topic"], body, options["qos"])
    return {"published": len(options["bodies"])}


async def consume(options: Options) -> Options:
    async with opened(options) as receiver:
        await receiver.subscribe(options["topic"], options["qos"])
        found = await taken(receiver, options["count"])
    return {"received": [message.payload.decode() for message in found]}


async def refused(options: Options) -> Options:
    try:
        async with opened(options):
            return {}
    except aiomqtt.MqttError as error:
        return {"refused": str(error)}


SCENARIOS = (exchange, retained, will, shared, resume, properties, publish, consume, refused)

if __name__ == "__main__":
    scenario = {one.__name__: one for one in SCENARIOS}[sys.argv[1]]
    print(json.dumps(asyncio.run(scenario(json.loads(sys.argv[2])))))
