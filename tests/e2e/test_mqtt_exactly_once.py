"""QoS 2 across `kill -9`: each message is in a queue, a topic and a stream exactly once."""

import random
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import MQTTMessageInfo

from mqtt_client import V5, V311, Device, device, device_at
from platform_process import Platform, running
from proton_client import address, document, stored

pytestmark = pytest.mark.timeout(300)

MESSAGES = 150
"""For each address."""

ADDRESSES = (
    address("orders", "queue"),
    address("sensors", "topic"),
    address("log", "topic", partitions=1, retention="{bytes: 1GiB}"),
)


def publish(one: Device, number: int) -> list[MQTTMessageInfo]:
    """Send a number to each address."""
    topics = ("orders", f"sensors/{number % 7}", "log")
    return [one.send(topic, str(number), 2) for topic in topics]


def kill(platform: Platform, one: Device) -> None:
    """Kill the platform, and keep the client from connecting again by itself: with its second
    attempt in a row paho forgets that it has sent PUBREL, and publishes again.
    """
    platform.kill()
    one.client.loop_stop()
    # Another loop has sockets of its own.
    one.client._reset_sockets(sockpair_only=True)


def connect_again(one: Device) -> None:
    """Continue the session of the client."""
    one.client.reconnect()
    one.client.loop_start()


@pytest.mark.parametrize(("seed", "version"), [(1, V5), (2, V311), (3, V5)])
def test_every_message_is_stored_once(tmp_path: Path, seed: int, version: Any) -> None:
    path = document(tmp_path, *ADDRESSES)
    options = {"version": version, "kept_s": 3600}
    chance = random.Random(seed)
    kills = sorted(chance.sample(range(20, MESSAGES - 20), 2))
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with device_at(platform, "watcher", **options) as watcher:
            watcher.subscribe("sensors/#", 2)
        one = device("exact", **options)
        # Paho publishes again what it has released, if that is more than its window.
        one.client.max_inflight_messages_set(3 * MESSAGES)
        one.connect(platform)
        sent = [each for number in range(kills[0]) for each in publish(one, number)]
        port = ("--mqtt-port", str(platform.port("mqtt")))
        kill(platform, one)
    with running(tmp_path / "data", *port) as platform:
        connect_again(one)
        sent += [each for number in range(*kills) for each in publish(one, number)]
        one.answer(sent.pop(chance.randrange(len(sent))))
        kill(platform, one)
    with running(tmp_path / "data", *port) as platform:
        connect_again(one)
        sent += [each for number in range(kills[1], MESSAGES) for each in publish(one, number)]
        for message in sent:
            one.answer(message)
        one.client.disconnect()
        one.client.loop_stop()
        expected = list(range(MESSAGES))
        with device_at(platform, "watcher", **options) as watcher:
            assert sorted(int(payload) for _, payload in watcher.take(MESSAGES)) == expected
            assert watcher.nothing_more()
        assert [stored(platform, name) for name in ("orders", "log")] == [MESSAGES, MESSAGES]
        with device_at(platform, version=version) as reader:
            reader.subscribe("orders", 2)
            assert sorted(int(payload) for _, payload in reader.take(MESSAGES)) == expected
            assert reader.nothing_more()
