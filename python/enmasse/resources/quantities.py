"""Durations and sizes: a number of milliseconds or bytes, or a text with a unit, kept as a number.

`60000`, `"60s"` and `"1m"` are one value, and come back as 60000.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

DURATION_MS_MAX = 100 * 365 * 24 * 3600 * 1000
"""Longest duration: a hundred years."""

EXACT_MAX = 2**53 - 1
"""Largest number that every JSON reader keeps exactly."""

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
        """Turn a text into a number; anything else is left to the check of whole numbers."""
        if not isinstance(value, str):
            return value
        found = _QUANTITY.fullmatch(value)
        if not found or (found[2] and found[2] not in units):
            raise ValueError(
                f"{value!r} is not a whole number of {plain}, nor one with a unit ({known})"
            )
        return int(found[1]) * (units[found[2]] if found[2] else 1)

    return read


def _shown(least: int, most: int, units: Mapping[str, int]) -> WithJsonSchema:
    """Return what OpenAPI says of a quantity: a number or a text."""
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
"""Some time, in milliseconds."""

Delay = Annotated[
    int,
    Field(strict=True, ge=0, le=DURATION_MS_MAX),
    _duration,
    _shown(0, DURATION_MS_MAX, MILLISECONDS),
]
"""Some time or none, in milliseconds."""

Size = Annotated[int, Field(strict=True, ge=1, le=EXACT_MAX), _size, _shown(1, EXACT_MAX, BYTES)]
"""Some bytes."""

MessageSize = Annotated[
    int, Field(strict=True, ge=1, le=2**32 - 1), _size, _shown(1, 2**32 - 1, BYTES)
]
"""Bytes of one message."""

Count = Annotated[int, Field(strict=True, ge=1, le=EXACT_MAX)]
"""How many, at least one."""

LinkCount = Annotated[int, Field(strict=True, ge=1, le=2**32 - 1)]
"""How many links, at least one."""

CREDIT_MAX = 1_000_000
Credit = Annotated[float, Field(strict=True, ge=0, le=CREDIT_MAX, allow_inf_nan=False)]
"""How many routers or brokers, or which part of one."""
