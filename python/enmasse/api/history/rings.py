"""Rings of past values, and the form of their chunks on disk. Pure.

A row has a time and the values of one address or space at it. Rows with unchanged values are not
stored: a value holds until the next row, the end of the run of the platform, or an end row.

A chunk has the rows of one ring within a fixed period: their number, then by columns the first
value and the differences of all others, as 64-bit integers, compressed.
"""

import itertools
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple


class Ring(NamedTuple):
    """One resolution."""

    number: int
    step_s: int
    """Time between rows."""

    kept_s: int
    """How long rows are kept."""

    chunk_s: int
    """Period of a chunk."""


HOUR_S, DAY_S = 3600, 86_400
FINE = Ring(0, 10, HOUR_S, 600)
MIDDLE = Ring(1, 60, DAY_S, HOUR_S)
COARSE = Ring(2, 600, 7 * DAY_S, DAY_S)
RINGS = (FINE, MIDDLE, COARSE)

Values = tuple[int, ...]


class Row(NamedTuple):
    """The values at a time; `values` None ends the series for a while."""

    time_s: int
    values: Values | None


def chunk_start(ring: Ring, time_s: int) -> int:
    """Return the start of the chunk that contains a time."""
    return time_s - time_s % ring.chunk_s


def encode(rows: Sequence[Row], width: int) -> bytes:
    """Return the chunk of some rows, each of `width` values."""
    empty = (0,) * width
    table = [(row.time_s, int(row.values is None), *(row.values or empty)) for row in rows]
    numbers: list[int] = []
    for column in zip(*table, strict=True):
        numbers.append(column[0])
        numbers.extend(now - before for before, now in itertools.pairwise(column))
    packed = struct.pack(f"<II{len(numbers)}q", len(table), width, *numbers)
    return zlib.compress(packed, 1)


def decode(chunk: bytes) -> list[Row]:
    """Return the rows of a chunk.

    Raises: ValueError if it is malformed.
    """
    try:
        packed = zlib.decompress(chunk)
        count, width = struct.unpack_from("<II", packed)
        numbers = struct.unpack_from(f"<{count * (width + 2)}q", packed, 8)
    except (zlib.error, struct.error) as error:
        raise ValueError(f"a chunk of the history is damaged: {error}") from None
    columns = []
    for at in range(0, len(numbers), count):
        value = 0
        column = []
        for difference in numbers[at : at + count]:
            value += difference
            column.append(value)
        columns.append(column)
    times, ends, *values = columns
    rows = zip(times, ends, zip(*values, strict=True), strict=True)
    return [Row(time_s, None if ended else of) for time_s, ended, of in rows]
