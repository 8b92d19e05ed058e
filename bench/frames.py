"""Frames of AMQP 1.0 for peers that ignore the rules, on channel 0."""

from __future__ import annotations

import struct


def frame(performative: int, *fields: bytes, payload: bytes = b"") -> bytes:
    """A frame of AMQP 1.0 on channel 0 (part 2, 2.3)."""
    body = b"\x00\x53" + bytes([performative]) + composite(*fields) + payload
    return struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body


def composite(*fields: bytes) -> bytes:
    """A list8 (part 1, 1.6.22)."""
    items = b"".join(fields)
    return bytes([0xC0, len(items) + 1, len(fields)]) + items


def text(value: str) -> bytes:
    """A str8-utf8."""
    return bytes([0xA1, len(value)]) + value.encode()


def uint(value: int) -> bytes:
    """A uint."""
    return struct.pack(">BI", 0x70, value)


NULL, ZERO, SENDER, RECEIVER = b"\x40", b"\x43", b"\x42", b"\x41"
SOURCE = b"\x00\x53\x28\x45"
