"""Options of `enmasse create address` for stored addresses, and their spec fields.

Durations and sizes are passed on as text: the platform parses them.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

PANEL = "Stored messages"


def _option(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help, rich_help_panel=PANEL)


Topic = Annotated[str | None, _option("ADDRESS", "The topic a subscription belongs to.")]
MaxConsumers = Annotated[
    int | None, _option("N", "Consumers of a subscription at a time; 1 if left out.")
]
Deadletter = Annotated[
    str | None, _option("ADDRESS", "Address of type deadletter for messages that failed for good.")
]
Expiry = Annotated[
    str | None, _option("ADDRESS", "Address of type deadletter for messages that expired.")
]
TtlMin = Annotated[str | None, _option("TIME", "Shortest life of a message: 500 (ms), 10s, 5m.")]
TtlMax = Annotated[str | None, _option("TIME", "Longest life of a message: 500 (ms), 10s, 5m.")]
MaxAttempts = Annotated[
    int | None, _option("N", "Deliveries after which a message is a dead letter; -1: no limit.")
]
RedeliveryDelay = Annotated[
    str | None, _option("TIME", "Wait before a message is delivered again.")
]
Durability = Annotated[
    str | None, _option("disk|memory", "Where accepted messages are kept; disk if left out.")
]
MaxMessages = Annotated[int | None, _option("N", "Messages stored at most.")]
MaxBytes = Annotated[str | None, _option("SIZE", "Bytes stored at most: 4096, 1MiB, 10GiB.")]
MaxMessageSize = Annotated[str | None, _option("SIZE", "Bytes of one message at most.")]
OnFull = Annotated[
    str | None,
    _option("block|reject|dropOldest", "What a full address does with one more message."),
]
RetentionAge = Annotated[
    str | None, _option("TIME", "Makes a topic a stream that keeps messages so long: 7d.")
]
RetentionBytes = Annotated[
    str | None, _option("SIZE", "Makes a topic a stream that keeps so many bytes a partition.")
]
Partitions = Annotated[int | None, _option("N", "Partitions of a stream; 1 if left out.")]


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given fields; dotted names become nested mappings."""
    spec: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        member, _, inner = name.partition(".")
        if inner:
            spec.setdefault(member, {})[inner] = value
        else:
            spec[member] = value
    return spec
