"""The types of AMQP 1.0 (part 1) that no type of Python is.

`None`, `bool`, `int` (a long, or a ulong where it does not fit), `float` (a double), `str`,
`bytes`, `UUID`, `datetime`, `list` and `dict` stand for themselves. The classes here are for
the rest: a value that is decoded and encoded again keeps its type.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

__all__ = [
    "UUID",
    "Array",
    "Byte",
    "Char",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Described",
    "Float",
    "Int",
    "Long",
    "Short",
    "Symbol",
    "Timestamp",
    "Ubyte",
    "Uint",
    "Ulong",
    "Ushort",
    "datetime",
    "from_millis",
    "to_millis",
]


class Symbol(str):
    """A symbol: ASCII text of a constrained domain."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Ubyte(int):
    """0 to 255."""

    __slots__ = ()


class Ushort(int):
    """0 to 65,535."""

    __slots__ = ()


class Uint(int):
    """0 to 2^32 - 1."""

    __slots__ = ()


class Ulong(int):
    """0 to 2^64 - 1."""

    __slots__ = ()


class Byte(int):
    """-128 to 127."""

    __slots__ = ()


class Short(int):
    """-32,768 to 32,767."""

    __slots__ = ()


class Int(int):
    """-2^31 to 2^31 - 1."""

    __slots__ = ()


class Long(int):
    """-2^63 to 2^63 - 1, also where a plain `int` would say the same."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since the Unix epoch, where no `datetime` reaches."""

    __slots__ = ()


class Float(float):
    """A float of 32 bits."""

    __slots__ = ()


class Decimal32(bytes):
    """A decimal of 32 bits, as the four bytes of the wire."""

    __slots__ = ()


class Decimal64(bytes):
    """A decimal of 64 bits, as the eight bytes of the wire."""

    __slots__ = ()


class Decimal128(bytes):
    """A decimal of 128 bits, as the sixteen bytes of the wire."""

    __slots__ = ()


class Array(tuple[Any, ...]):
    """Elements of one type."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that says what it means."""

    descriptor: Any
    value: Any


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def to_millis(moment: datetime) -> int | None:
    """Milliseconds since the Unix epoch; None for a moment without a time zone."""
    if moment.tzinfo is None:
        return None
    return (moment - EPOCH) // MILLISECOND


def from_millis(millis: int) -> datetime | Timestamp:
    """The moment so many milliseconds after the Unix epoch."""
    try:
        return EPOCH + millis * MILLISECOND
    except OverflowError:
        return Timestamp(millis)
