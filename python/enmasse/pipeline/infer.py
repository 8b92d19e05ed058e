"""The fields of the first messages of a stream, for `enmasse pipeline init --infer`."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enmasse.base.errors import Code, Invalid, Missing
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.ranges import Slice

MESSAGES_MAX = 1000
"""Messages that are read."""
TIMES = ("time", "ts", "timestamp")
NO_METRICS = {*TIMES, "device", "deviceId", "device_id", "metric", "value", "unit"}
"""Fields that the document of `init` names already."""
UNITS = {"s": 1e11, "ms": 1e14, "us": 1e17}
"""Units of times since 1970, and the magnitude below which a time has that unit."""


@dataclass(frozen=True)
class Inferred:
    """The fields of a number of messages, in the order of their appearance."""

    messages: int
    fields: Mapping[str, Counter[str]]
    """How often each has values of a type."""

    time_unit: str

    def metrics(self) -> Iterator[str]:
        """Yield the lines of `metrics`: numbers, and as comments the other fields."""
        for name, types in self.fields.items():
            ((kind, count),) = types.most_common(1)
            mark = "" if kind == "number" else "# "
            field = json.dumps(name, ensure_ascii=False)
            yield f"{mark}- {field}  # {kind} in {count:,} of {self.messages:,} messages"


def infer(url: str, address: str) -> Inferred:
    """Return the fields of the first messages of a stream.

    Raises Missing if it has none, Invalid if no body is an object of JSON, and errors of the
    server.
    """
    bodies = list(_bodies(url, address))
    if not bodies:
        raise Missing(Code.NOT_FOUND, f"{address} has no messages to infer from: omit --infer")
    records = [record for body in bodies if (record := _record(body)) is not None]
    if not records:
        raise Invalid(
            Code.REQUEST_INVALID,
            f"none of the first {len(bodies):,} messages of {address} is an object of JSON:"
            " omit --infer, and set `format` and `metrics` in the document",
        )
    return fields_of(records)


def fields_of(records: Sequence[Mapping[str, Any]]) -> Inferred:
    """Return the fields of records."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    times: list[float] = []
    for record in records:
        for name, value in record.items():
            kind = _type(value)
            if name in TIMES and kind == "number":
                times.append(abs(value))
            if name not in NO_METRICS and value is not None:
                found[name][kind] += 1
    latest = max(times, default=0.0)
    unit = next((name for name, bound in UNITS.items() if latest < bound), "ns")
    return Inferred(len(records), found, unit)


def _bodies(url: str, address: str) -> Iterator[bytes]:
    options = option_table.read({"url": url, "address": address, "columns": "body"})
    state, left = reading.state(options), MESSAGES_MAX
    for number, part in sorted(state.partitions.items()):
        end = min(part.next, part.first + left)
        for batch in reading.batches(options, Slice(number, part.first, end, state.uid)):
            left -= len(batch)
            yield from batch.column("body").to_pylist()


def _record(body: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(body or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "object"
