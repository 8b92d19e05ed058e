"""AMQP frames by hand, for what no client library does: half a handshake, a message without end."""

import socket
import struct
from typing import Any

from proton import Data, Described, symbol, uint, ulong

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SENDER, RECEIVER = False, True
ACCEPTED = Described(ulong(0x24), [])
WINDOW_MAX = uint(2**31 - 1)
SASL_FRAME = 1


def source(address: str | None) -> Described:
    return Described(ulong(0x28), [address])


def target(address: str | None) -> Described:
    return Described(ulong(0x29), [address])


def encoded(channel: int, code: int, *fields: Any, payload: bytes = b"", kind: int = 0) -> bytes:
    """Return a frame."""
    data = Data()
    data.put_py_described(Described(ulong(code), list(fields)))
    body = data.encode() + payload
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body


class Wire:
    """One connection on channel 0, as frames. Time-outs are the socket's."""

    def __init__(self, port: int, timeout_s: float = 20.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.buffer = bytearray()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def start(self, container: str) -> None:
        """Exchange protocol headers, open and begin, without a SASL layer."""
        self.socket.sendall(b"AMQP\x00\x01\x00\x00")
        self.send(OPEN, container, None)
        self.send(BEGIN, None, uint(0), WINDOW_MAX, WINDOW_MAX)
        assert self.read(8) == b"AMQP\x00\x01\x00\x00"
        self.expect(OPEN)
        self.expect(BEGIN)

    def attach(self, role: bool, name: str, address: str) -> None:
        """Attach link number 0 and wait for the answer."""
        ends = (
            [source(address), target(None)] if role is RECEIVER else [source(None), target(address)]
        )
        self.send(ATTACH, name, uint(0), role, None, None, *ends, None, None, uint(0))
        self.expect(ATTACH)

    def send(self, code: int, *fields: Any, payload: bytes = b"") -> None:
        self.socket.sendall(encoded(0, code, *fields, payload=payload))

    def send_on(self, channel: int, code: int, *fields: Any) -> None:
        self.socket.sendall(encoded(channel, code, *fields))

    def send_sasl(self, code: int, *fields: Any) -> None:
        self.socket.sendall(encoded(0, code, *fields, kind=SASL_FRAME))

    def beat(self) -> None:
        """Send an empty frame: we are still here."""
        self.socket.sendall(struct.pack(">IBBH", 8, 2, 0, 0))

    def read(self, count: int) -> bytes:
        """Take that many bytes; fewer only where the peer has closed."""
        while len(self.buffer) < count and (more := self.socket.recv(1 << 20)):
            self.buffer += more
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def receive(self) -> tuple[int, list[Any], bytes]:
        """Wait for a frame; return code, fields and payload. A heartbeat is passed over."""
        while True:
            head = self.read(4)
            if len(head) < 4:
                raise EOFError("the peer has closed the connection")
            (size,) = struct.unpack(">I", head)
            body = self.read(size - 4)[4:]
            if body:
                break
        data = Data()
        used = data.decode(body)
        data.next()
        performative = data.get_py_described()
        return int(performative.descriptor), list(performative.value), body[used:]

    def expect(self, *codes: int) -> list[Any]:
        """Wait for a frame of one of these kinds, pass over others; return its fields."""
        while True:
            code, fields, _ = self.receive()
            if code in codes:
                return fields


def condition_of(error: Described | None) -> symbol | None:
    """The condition of an `error` field."""
    return error.value[0] if error else None
