"""A client of MQTT 5.0 that does exactly what a test says: no answer is sent by itself."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from platform_process import Platform
from proton_client import QUIET_S, TIMEOUT_S

CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK = 2, 3, 4, 5, 6, 7, 9

SESSION_EXPIRY = 0x11


def field(data: bytes) -> bytes:
    """Binary data or a string (1.5.4, 1.5.6)."""
    return len(data).to_bytes(2) + data


def number(identifier: int, value: int) -> bytes:
    """A property with four bytes (2.2.2.2)."""
    return bytes((identifier,)) + value.to_bytes(4)


def packet(first: int, body: bytes) -> bytes:
    """A packet with its remaining length (2.1)."""
    length, rest = b"", len(body)
    while True:
        rest, low = rest >> 7, rest & 127
        length += bytes((low | (128 if rest else 0),))
        if not rest:
            return bytes((first,)) + length + body


@dataclass(frozen=True)
class Published:
    """A PUBLISH from the server."""

    topic: str
    payload: bytes
    qos: int
    dup: bool
    retain: bool
    packet_id: int


class Wire:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, first: int, body: bytes) -> None:
        self._socket.sendall(packet(first, body))

    def _bytes(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            more = self._socket.recv(count - len(received))
            assert more, "the server closed the connection"
            received += more
        return received

    def packet(self) -> tuple[int, bytes]:
        """The next packet: its first byte and its body."""
        first, length, shift = self._bytes(1)[0], 0, 0
        while True:
            byte = self._bytes(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return first, self._bytes(length)

    def answer(self, kind: int) -> bytes:
        """The body of the next packet, which is of this type."""
        first, body = self.packet()
        assert first >> 4 == kind, (first, body)
        return body

    def connect(self, client_id: str, *, clean: bool = True, kept_s: int = 0) -> bool:
        """Connect; return whether a session was present."""
        properties = number(SESSION_EXPIRY, kept_s)
        head = b"\0\x04MQTT\x05" + bytes((2 if clean else 0, 0, 0, len(properties)))
        self.send(0x10, head + properties + field(client_id.encode()))
        body = self.answer(CONNACK)
        assert body[1] == 0, body
        return bool(body[0])

    def subscribe(self, filter_: str, options: int) -> int:
        """Subscribe with an option byte (3.8.3.1); return the reason code."""
        self.send(0x82, b"\0\x01\0" + field(filter_.encode()) + bytes((options,)))
        return self.answer(SUBACK)[-1]

    def message(self) -> Published:
        """The next packet, a PUBLISH."""
        first, body = self.packet()
        assert first >> 4 == PUBLISH, (first, body)
        end = 2 + int.from_bytes(body[:2])
        topic, qos, identifier = body[2:end].decode(), first >> 1 & 3, 0
        if qos:
            identifier, end = int.from_bytes(body[end : end + 2]), end + 2
        assert body[end] < 128
        payload = body[end + 1 + body[end] :]
        return Published(topic, payload, qos, bool(first & 8), bool(first & 1), identifier)

    def acknowledge(self, kind: int, packet_id: int, code: int = 0) -> None:
        """Send PUBACK, PUBREC, PUBREL or PUBCOMP."""
        self.send(kind << 4 | (2 if kind == PUBREL else 0), packet_id.to_bytes(2) + bytes((code,)))

    def nothing_comes(self, quiet_s: float = QUIET_S) -> bool:
        """Whether the server sends nothing for some time."""
        self._socket.settimeout(quiet_s)
        try:
            came = self._socket.recv(4096)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(TIMEOUT_S)
        raise AssertionError(came)


@contextmanager
def wire_to(platform: Platform) -> Iterator[Wire]:
    """A connection that breaks off at the end, without a DISCONNECT."""
    with socket.create_connection(("127.0.0.1", platform.port("mqtt")), timeout=TIMEOUT_S) as one:
        yield Wire(one)
