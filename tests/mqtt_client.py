"""Messages to and from a running platform over MQTT, with paho-mqtt."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from threading import Event
from typing import Any

from paho.mqtt.client import (
    CallbackAPIVersion,
    Client,
    MQTTMessage,
    MQTTMessageInfo,
    MQTTProtocolVersion,
)
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from platform_process import Platform
from proton_client import QUIET_S, TIMEOUT_S

V311, V5 = MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5


class Refused(Exception):
    """The connection was refused; its argument is the name of the reason code."""


class Device:
    """A client of MQTT, connected until its context ends."""

    def __init__(self, client: Client) -> None:
        """Use a client that is about to connect."""
        self.client = client
        self.ended: Queue[str] = Queue()
        self.session_present = False
        self._connected: Queue[Any] = Queue()
        self._answers: dict[int, Queue[Any]] = {}
        self._messages: Queue[MQTTMessage] = Queue()
        self._ready = Event()
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = client.on_unsubscribe = self._on_answer
        client.on_publish = self._on_published
        client.on_message = lambda _client, _data, message: self._messages.put(message)

    def _on_connect(self, _client: Any, _data: Any, flags: Any, code: Any, *_more: Any) -> None:
        self.session_present = flags.session_present
        self._connected.put(code)

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, code: Any, *_m: Any) -> None:
        self.ended.put(str(code))

    def _on_answer(self, _client: Any, _data: Any, number: int, codes: Any, *_more: Any) -> None:
        self._answer(number).put(codes)

    def _on_published(self, _client: Any, _data: Any, number: int, code: Any, *_more: Any) -> None:
        self._answer(number).put(code)

    def _answer(self, number: int) -> Queue[Any]:
        return self._answers.setdefault(number, Queue())

    def connect(self, platform: Platform, listener: str = "mqtt") -> None:
        """Connect, or raise `Refused`."""
        place = platform.endpoints[listener]
        properties = None
        if self.session_expiry_s is not None:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = self.session_expiry_s
        self.client.connect(
            place["host"], place["port"], clean_start=self.clean_start, properties=properties
        )
        self.client.loop_start()
        code = self._connected.get(timeout=TIMEOUT_S)
        if code.is_failure:
            self.client.loop_stop()
            raise Refused(str(code))

    clean_start: Any = 3
    """Of MQTT 5.0: True, False, or only for the first connection, as paho does by default."""

    session_expiry_s: int | None = None
    """Of MQTT 5.0."""

    def subscribe(self, topic: str, qos: int = 0, **options: Any) -> str:
        """Subscribe to one filter; return its reason code."""
        wanted: Any = qos
        if self.client.protocol == V5:
            wanted = SubscribeOptions(qos=qos, **options)
            _, number = self.client.subscribe(topic, options=wanted)
        else:
            _, number = self.client.subscribe(topic, qos)
        assert number is not None
        (code,) = self._answer(number).get(timeout=TIMEOUT_S)
        return str(code)

    def unsubscribe(self, topic: str) -> None:
        """End a subscription."""
        _, number = self.client.unsubscribe(topic)
        assert number is not None
        self._answer(number).get(timeout=TIMEOUT_S)

    def send(
        self, topic: str, payload: bytes | str, qos: int = 0, **options: Any
    ) -> MQTTMessageInfo:
        """Publish without waiting."""
        return self.client.publish(topic, payload, qos, **options)

    def publish(self, topic: str, payload: bytes | str, qos: int = 1, **options: Any) -> str:
        """Publish, and return the reason code of the acknowledgement."""
        sent = self.send(topic, payload, qos, **options)
        return self.answer(sent)

    def answer(self, sent: MQTTMessageInfo) -> str:
        """Return the reason code of what was sent before."""
        return str(self._answer(sent.mid).get(timeout=TIMEOUT_S))

    def message(self) -> MQTTMessage:
        """Return the next message."""
        return self._messages.get(timeout=TIMEOUT_S)

    def take(self, count: int) -> list[tuple[str, bytes]]:
        """Return topic and payload of so many messages."""
        messages = [self.message() for _ in range(count)]
        return [(message.topic, message.payload) for message in messages]

    def waiting(self) -> list[bytes]:
        """Return the payloads of the messages that have come; wait shortly for the first."""
        payloads = []
        while not self._messages.empty() or not payloads:
            try:
                payloads.append(self._messages.get(timeout=QUIET_S).payload)
            except Empty:
                break
        return payloads

    def nothing_more(self, quiet_s: float = QUIET_S) -> bool:
        """Whether no message comes for some time."""
        try:
            self._messages.get(timeout=quiet_s)
        except Empty:
            return True
        return False

    def end(self) -> str:
        """Wait for the end of the connection; return its reason code."""
        return self.ended.get(timeout=TIMEOUT_S)


def device(
    client_id: str = "",
    version: MQTTProtocolVersion = V5,
    user: str | None = None,
    password: str | None = None,
    kept_s: int | None = None,
    **options: Any,
) -> Device:
    """A client that is not connected yet. `kept_s`: its session outlives its connections."""
    if version != V5 and kept_s is not None:
        options["clean_session"] = False
    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=version, **options)
    if user is not None:
        client.username_pw_set(user, password)
    one = Device(client)
    if version == V5 and kept_s is not None:
        one.clean_start, one.session_expiry_s = False, kept_s
    return one


@contextmanager
def device_at(
    platform: Platform, client_id: str = "", listener: str = "mqtt", **options: Any
) -> Iterator[Device]:
    """A connected client; it disconnects at the end."""
    one = device(client_id, **options)
    one.connect(platform, listener)
    try:
        yield one
    finally:
        one.client.disconnect()
        one.client.loop_stop()


def cut(one: Device) -> None:
    """Break the connection of a client off, without a DISCONNECT."""
    one.client.loop_stop()
    break_off(one)


def break_off(one: Device) -> None:
    """Break the connection of a client off; the client connects again by itself."""
    raw: Any = one.client.socket()
    raw.shutdown(socket.SHUT_RDWR)


def publish_properties(**values: Any) -> Properties:
    """Properties of a PUBLISH, by the names of paho."""
    properties = Properties(PacketTypes.PUBLISH)
    for name, value in values.items():
        setattr(properties, name, value)
    return properties
