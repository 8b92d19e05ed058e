"""Durations and sizes: a number of milliseconds or bytes, or a text with a unit, stored as a
number.

`60000`, `"60s"` and `"1m"` are equal and are returned as 60000, or where documents keep units, as
`"1m"`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

DURATION_MS_MAX = 100 * 365 * 24 * 3600 * 1000
"""Maximum duration: one hundred years."""

EXACT_MAX = 2**53 - 1
"""Largest integer that every JSON reader represents exactly."""

MILLISECONDS: Mapping[str, int] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
BYTES: Mapping[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", start=1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGT", start=1)},
}

_QUANTITY = re.compile(r"([0-9]{1,15})([A-Za-z]*)")


def _reader(units: Mapping[str, int], plain: str) -> Callable[[object], object]:
    known = ", ".join(units)

    def read(value: object) -> object:
        """Convert a text to a number; integer validation handles everything else."""
        if not isinstance(value, str):
            return value
        found = _QUANTITY.fullmatch(value)
        if not found or (found[2] and found[2] not in units):
            raise ValueError(
                f"{value!r} is not an integer of {plain} or a number with a unit ({known})"
            )
        return int(found[1]) * (units[found[2]] if found[2] else 1)

    return read


def _shown(least: int, most: int, units: Mapping[str, int]) -> WithJsonSchema:
    """Return the OpenAPI schema of a quantity: an integer or a string."""
    pattern = rf"^[0-9]{{1,15}}({'|'.join(units)})?$"
    number = {"type": "integer", "minimum": least, "maximum": most}
    return WithJsonSchema(
        {
            "anyOf": [number, {"type": "string", "pattern": pattern}],
            "x-kubernetes-int-or-string": True,
        }
    )


_duration = BeforeValidator(_reader(MILLISECONDS, "milliseconds"))
_size = BeforeValidator(_reader(BYTES, "bytes"))

Duration = Annotated[
    int,
    Field(strict=True, ge=1, le=DURATION_MS_MAX),
    _duration,
    _shown(1, DURATION_MS_MAX, MILLISECONDS),
]
"""A duration above 0, in milliseconds."""

Delay = Annotated[
    int,
    Field(strict=True, ge=0, le=DURATION_MS_MAX),
    _duration,
    _shown(0, DURATION_MS_MAX, MILLISECONDS),
]
"""A duration from 0, in milliseconds."""


def _in_unit(units: Mapping[str, int]) -> PlainSerializer:
    """Write a quantity in documents with its largest exact unit."""

    def text(value: int) -> str:
        name = max((one for one in units if value % units[one] == 0), key=lambda one: units[one])
        return f"{value // units[name]}{name}"

    return PlainSerializer(text, return_type=str, when_used="json")


_TO_DAYS = {name: count for name, count in MILLISECONDS.items() if name != "w"}
"""Units that documents are written with: 7d is more usual than 1w."""

UnitDuration = Annotated[Duration, _in_unit(_TO_DAYS)]
"""A duration above 0 in milliseconds, written with a unit."""

UnitDelay = Annotated[Delay, _in_unit(_TO_DAYS)]
"""A duration from 0 in milliseconds, written with a unit."""

Size = Annotated[int, Field(strict=True, ge=1, le=EXACT_MAX), _size, _shown(1, EXACT_MAX, BYTES)]
"""A size in bytes."""

MessageSize = Annotated[
    int, Field(strict=True, ge=1, le=2**32 - 1), _size, _shown(1, 2**32 - 1, BYTES)
]
"""A message size in bytes."""

Count = Annotated[int, Field(strict=True, ge=1, le=EXACT_MAX)]
"""A count of at least 1."""

LinkCount = Annotated[int, Field(strict=True, ge=1, le=2**32 - 1)]
"""A number of links, at least 1."""

CREDIT_MAX = 1_000_000
Credit = Annotated[float, Field(strict=True, ge=0, le=CREDIT_MAX, allow_inf_nan=False)]
"""A number of routers or brokers, or a fraction of one."""
