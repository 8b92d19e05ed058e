"""The types of AMQP 1.0 (part 1) without a Python equivalent.

`None`, `bool`, `int` (a long, or a ulong if it does not fit), `float` (a double), `str`, `bytes`,
`UUID`, `datetime`, `list` and `dict` represent themselves. The classes here represent the others: a
value keeps its type when it is decoded and encoded again.
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
    """-2^63 to 2^63 - 1, also for values that a plain `int` represents."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since the Unix epoch, beyond the range of `datetime`."""

    __slots__ = ()


class Float(float):
    """A float of 32 bits."""

    __slots__ = ()


class Decimal32(bytes):
    """A 32-bit decimal, as its four bytes."""

    __slots__ = ()


class Decimal64(bytes):
    """A 64-bit decimal, as its eight bytes."""

    __slots__ = ()


class Decimal128(bytes):
    """A 128-bit decimal, as its sixteen bytes."""

    __slots__ = ()


class Array(tuple[Any, ...]):
    """Elements of one type."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A described value."""

    descriptor: Any
    value: Any


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def to_millis(moment: datetime) -> int | None:
    """Milliseconds since the Unix epoch; None for a time without a time zone."""
    if moment.tzinfo is None:
        return None
    return (moment - EPOCH) // MILLISECOND


def from_millis(millis: int) -> datetime | Timestamp:
    """The time a number of milliseconds after the Unix epoch."""
    try:
        return EPOCH + millis * MILLISECOND
    except OverflowError:
        return Timestamp(millis)
