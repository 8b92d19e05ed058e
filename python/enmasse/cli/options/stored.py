"""Options of `enmasse create address` for stored addresses, and their spec fields.

Durations and sizes are passed on as text: the platform parses them.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from enmasse.cli.options import completion

PANEL = "Stored messages"


def _option(metavar: str, help: str, completer: completion.Completer | None = None) -> Any:
    return typer.Option(metavar=metavar, help=help, rich_help_panel=PANEL, autocompletion=completer)


DEAD_LETTERS = completion.of("address", "deadletter")

Topic = Annotated[
    str | None,
    _option("ADDRESS", "The topic a subscription belongs to.", completion.of("address", "topic")),
]
MaxConsumers = Annotated[
    int | None, _option("N", "Maximum consumers of a subscription; default 1.")
]
Deadletter = Annotated[
    str | None,
    _option(
        "ADDRESS",
        "Address of type deadletter for messages that exhausted their attempts.",
        DEAD_LETTERS,
    ),
]
Expiry = Annotated[
    str | None,
    _option("ADDRESS", "Address of type deadletter for messages that expired.", DEAD_LETTERS),
]
TtlMin = Annotated[str | None, _option("TIME", "Minimum time to live: 500 (ms), 10s, 5m.")]
TtlMax = Annotated[str | None, _option("TIME", "Maximum time to live: 500 (ms), 10s, 5m.")]
MaxAttempts = Annotated[
    int | None, _option("N", "Deliveries before a message becomes a dead letter; -1: unlimited.")
]
RedeliveryDelay = Annotated[str | None, _option("TIME", "Delay before redelivery.")]
Durability = Annotated[
    str | None, _option("disk|memory", "Storage of accepted messages; default disk.")
]
MaxMessages = Annotated[int | None, _option("N", "Maximum stored messages.")]
MaxBytes = Annotated[str | None, _option("SIZE", "Maximum stored bytes: 4096, 1MiB, 10GiB.")]
MaxMessageSize = Annotated[str | None, _option("SIZE", "Maximum message size in bytes.")]
OnFull = Annotated[
    str | None,
    _option("block|reject|dropOldest", "Behaviour when the address is full."),
]
RetentionAge = Annotated[
    str | None, _option("TIME", "Makes a topic a stream with this retention: 7d.")
]
RetentionBytes = Annotated[
    str | None,
    _option("SIZE", "Makes a topic a stream with this retention in bytes per partition."),
]
Partitions = Annotated[int | None, _option("N", "Partitions of a stream; default 1.")]


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
