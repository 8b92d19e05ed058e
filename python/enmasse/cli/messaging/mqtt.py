"""MQTT 5.0 for the commands `pub` and `sub`, over paho-mqtt.

paho runs the connection on a thread of its own. Its callbacks only put what they are told into
queues, from which the command's thread takes it.
"""

import itertools
import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore, Event
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import typer
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from enmasse.base.data_dir import DataDir, default_data_dir
from enmasse.base.errors import Code, Denied, EnMasseError, Invalid, Missing, Unavailable
from enmasse.cli.connect import contexts, network
from enmasse.cli.messaging.transfer import Tally

if TYPE_CHECKING:
    from paho.mqtt.reasoncodes import ReasonCode

PORTS = {"mqtt": 1883, "mqtts": 8883}
"""Schemes of URLs and their registered ports."""

CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 30.0
"""Maximum wait for SUBACK and, without a time-out of the command, for PUBACK."""

IN_FLIGHT_MAX = 1000
"""Maximum publications without an acknowledgement, those of QoS 0 included until they are sent."""

RECEIVED_MAX = 1000
"""Maximum received messages that wait to be printed; then the connection is not read."""

POLL_S = 0.2
"""Interval at which a wait for a place in the queue checks whether the session closes."""

DENIED = (0x86, 0x87, 0x8A, 0x8C)
"""Reason codes of a refused login or a missing right (2.4)."""

UNKNOWN_NAMES = (0x8F, 0x90)
"""Reason codes of names without an address."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A server of MQTT: by URL, or the platform of a data folder."""

    url: str | None
    data: Path | None
    ca: Path | None
    space: str | None = None

    def place(self) -> SplitResult:
        """Return the URL of the server, with a port.

        Raises: Invalid for another scheme; Missing if no platform runs or it serves no MQTT.
        """
        parts = urlsplit(self.url or self._platform_url())
        if parts.scheme not in PORTS or not parts.hostname:
            raise Invalid(
                Code.URL_INVALID,
                f"{parts.scheme}://{parts.hostname or ''} is not an MQTT server; write"
                " mqtt://[USER:PASSWORD@]HOST[:PORT] or mqtts://...",
            )
        if parts.port is not None:
            return parts
        login, _, host = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{login}{'@' * bool(login)}{host}:{PORTS[parts.scheme]}")

    def user(self, place: SplitResult) -> str | None:
        """Return the user name, which names the address space after `@`.

        Raises: BadParameter for a space without a user: nothing else names it.
        """
        if self.space is None:
            return None if place.username is None else unquote(place.username)
        if place.username is None:
            raise typer.BadParameter(
                "without a user only the default address space is reachable; name a user with"
                " --url mqtt://USER:PASSWORD@HOST",
                param_hint="--space",
            )
        return f"{unquote(place.username)}@{self.space}"

    def authority(self) -> Path | None:
        """Return the file with the CA to trust; None for those of the system."""
        if self.ca is not None or self.url is not None:
            return self.ca
        return DataDir(self._folder() or default_data_dir()).tls / "ca.crt"

    def _platform_url(self) -> str:
        context = self._context()
        if context is not None and (context.url is not None or context.server is not None):
            raise Missing(
                Code.SERVER_MISSING,
                "the context names no MQTT server; pass --url mqtt://[USER:PASSWORD@]HOST[:PORT]",
            )
        return network.listener_url(self._folder(), tuple(PORTS))

    def _folder(self) -> Path | None:
        context = self._context()
        return Path(context.data) if context and context.data else self.data

    def _context(self) -> contexts.Context | None:
        return contexts.chosen() if self.data is None else None


class Ended(NamedTuple):
    """The server has ended the connection, or it is lost."""

    code: "ReasonCode"


class MqttSession:
    """An open connection. `received` yields messages; `publish` and `finish` count answers."""

    def __init__(self, client: Client) -> None:
        self.tally = Tally()
        self._client = client
        self._opened: queue.Queue[ReasonCode] = queue.Queue()
        self._granted: queue.Queue[Sequence[ReasonCode]] = queue.Queue()
        self._acknowledged: queue.Queue[ReasonCode | Ended] = queue.Queue()
        self._received: queue.Queue[MQTTMessage | Ended] = queue.Queue(RECEIVED_MAX)
        self._places = BoundedSemaphore(IN_FLIGHT_MAX)
        self._closing = Event()
        client.on_connect = lambda _c, _d, _flags, code, _p: self._opened.put(code)
        client.on_subscribe = lambda _c, _d, _mid, codes, _p: self._granted.put(codes)
        client.on_publish = lambda _c, _d, _mid, code, _p: self._acknowledged.put(code)
        client.on_message = self._on_message
        client.on_disconnect = self._on_disconnect

    def open(self, place: SplitResult, properties: Properties | None, *, clean: bool) -> None:
        """Connect.

        Raises: Unavailable if the server does not answer; Denied if it refuses the login.
        """
        assert place.hostname is not None and place.port is not None, "checked by Broker.place"
        try:
            self._client.connect(
                place.hostname, place.port, clean_start=clean, properties=properties
            )
        except OSError as error:
            raise Unavailable(
                Code.SERVER_UNREACHABLE,
                f"cannot connect to {place.hostname}:{place.port}: {error}",
            ) from None
        self._client.loop_start()
        try:
            code = self._opened.get(timeout=CONNECT_TIMEOUT_S)
        except queue.Empty:
            raise Unavailable(
                Code.NOT_AVAILABLE,
                f"the server did not answer within {CONNECT_TIMEOUT_S:g} s; is that an MQTT port?",
            ) from None
        if code.is_failure:
            raise _error("the connection is refused", code)

    def close(self) -> None:
        """Disconnect. Messages that were not printed go back to their addresses."""
        self._closing.set()
        self._client.disconnect()
        self._client.loop_stop()

    def publish(
        self, topic: str, payload: bytes, qos: int, properties: Properties, *, retain: bool
    ) -> None:
        """Publish a message. Waits while 1,000 are without an acknowledgement.

        Raises: Invalid for a topic with wildcards; Unavailable if the connection is lost or no
            acknowledgement comes within 30 s.
        """
        if not self._places.acquire(blocking=False):
            self._take_answer(ANSWER_TIMEOUT_S)
            self._places.acquire()
        try:
            self._client.publish(topic, payload, qos, retain, properties)
        except ValueError as error:
            raise Invalid(Code.REQUEST_INVALID, f"cannot publish to {topic!r}: {error}") from None

    def finish(self, sent: int, timeout_s: float | None) -> Tally:
        """Wait for the answers to `sent` publications.

        Raises: as `publish`.
        """
        while self.tally.total < sent:
            self._take_answer(timeout_s or ANSWER_TIMEOUT_S)
        return self.tally

    def _take_answer(self, timeout_s: float) -> None:
        try:
            answer = self._acknowledged.get(timeout=timeout_s)
        except queue.Empty:
            raise Unavailable(
                Code.NOT_AVAILABLE,
                f"no publication was acknowledged for {timeout_s:g} s; check that an anycast"
                " address has a consumer and a queue is not full",
            ) from None
        if isinstance(answer, Ended):
            raise _error("the server ended the connection", answer.code)
        if answer.is_failure:
            self.tally.count("refused", str(answer))
        else:
            self.tally.count("published")
        self._places.release()

    def subscribe(self, filters: Sequence[str], qos: int) -> None:
        """Subscribe to topic filters.

        Raises: Invalid for a malformed filter; Denied or Missing, with its name, for a refused one.
        """
        try:
            self._client.subscribe([(one, qos) for one in filters])
        except ValueError as error:
            raise Invalid(Code.REQUEST_INVALID, f"cannot subscribe: {error}") from None
        try:
            codes = self._granted.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            raise Unavailable(Code.NOT_AVAILABLE, "the server did not answer SUBSCRIBE") from None
        for name, code in zip(filters, codes, strict=True):
            if code.is_failure:
                raise _error(f"the subscription to {name!r} is refused", code)

    def received(self, count: int | None, timeout_s: float | None) -> Iterator[MQTTMessage]:
        """Yield at most `count` messages until none comes for `timeout_s`, and acknowledge each
        afterwards.

        Raises: Unavailable or Denied if the server ends the connection.
        """
        for _ in itertools.count() if count is None else range(count):
            try:
                item = self._received.get(timeout=timeout_s)
            except queue.Empty:
                return
            if isinstance(item, Ended):
                raise _error("the server ended the connection", item.code)
            yield item
            self._client.ack(item.mid, item.qos)

    def _on_message(self, _c: Client, _d: Any, message: MQTTMessage) -> None:
        self._report(message)

    def _on_disconnect(self, _c: Client, _d: Any, _f: Any, code: "ReasonCode", _p: Any) -> None:
        if code.is_failure:
            self._acknowledged.put(Ended(code))
            self._report(Ended(code))

    def _report(self, item: "MQTTMessage | Ended") -> None:
        """Wait for a place in the queue unless the session closes: its reader has left then."""
        while not self._closing.is_set():
            try:
                return self._received.put(item, timeout=POLL_S)
            except queue.Full:
                continue


@contextmanager
def session(
    broker: Broker, *, client_id: str = "", session_expiry_s: int = 0
) -> Iterator[MqttSession]:
    """Connect for the duration of the block.

    With `session_expiry_s` the session of `client_id` is continued and outlives the block.

    Raises: as `MqttSession.open`.
    """
    place = broker.place()
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id,
        protocol=MQTTProtocolVersion.MQTTv5,
        reconnect_on_failure=False,
        manual_ack=True,
    )
    client.max_inflight_messages_set(IN_FLIGHT_MAX)
    client.max_queued_messages_set(IN_FLIGHT_MAX)
    user = broker.user(place)
    if user is not None:
        password = None if place.password is None else unquote(place.password)
        client.username_pw_set(user, password)
    if place.scheme == "mqtts":
        authority = broker.authority()
        client.tls_set(None if authority is None else str(authority))
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    if session_expiry_s:
        properties.SessionExpiryInterval = session_expiry_s
    opened = MqttSession(client)
    try:
        opened.open(place, properties, clean=not session_expiry_s)
        yield opened
    finally:
        opened.close()


def publication_properties(
    user_properties: Sequence[tuple[str, str]],
    *,
    expiry_s: int | None,
    content_type: str | None,
    response_topic: str | None,
) -> Properties:
    """Return the properties of PUBLISH (3.3.2.3)."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if user_properties:
        properties.UserProperty = list(user_properties)
    if expiry_s is not None:
        properties.MessageExpiryInterval = expiry_s
    if content_type is not None:
        properties.ContentType = content_type
    if response_topic is not None:
        properties.ResponseTopic = response_topic
    return properties


def as_document(message: MQTTMessage) -> dict[str, Any]:
    """Return a message as a JSON document. A payload that is no text is in base64."""
    import base64

    document: dict[str, Any] = {"topic": message.topic}
    try:
        document["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        document["payloadBase64"] = base64.b64encode(message.payload).decode()
    document["qos"] = message.qos
    document["retain"] = bool(message.retain)
    if message.properties is not None and (found := message.properties.json()):  # type: ignore[no-untyped-call]
        document["properties"] = found
    return document


def _error(what: str, code: "ReasonCode") -> EnMasseError:
    """Return the error of a reason code (2.4)."""
    if code.value in DENIED:
        login = "--url mqtt://USER:PASSWORD@HOST logs in"
        return Denied(Code.ACCESS_DENIED, f"{what}: {code}; {login}")
    if code.value in UNKNOWN_NAMES:
        return Missing(Code.NOT_FOUND, f"{what}: {code}; no address has that name")
    return Unavailable(Code.NOT_AVAILABLE, f"{what}: {code}")
