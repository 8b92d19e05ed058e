"""Formats one resource as text: fields, conditions, events. Pure."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from enmasse.cli.output.printing import columns

Document = Mapping[str, Any]

_METADATA = ("labels", "annotations", "finalizers", "creationTimestamp", "deletionTimestamp")
_OWN_NAMES = ("Labels", "Annotations", "Data", "Binary Data", "Figures")
"""Fields with user-defined keys below them."""

_FIRST = 22
"""Minimum column of values."""


def text(document: Document, events: Sequence[Document] | None) -> str:
    """Return a resource as text; events are listed oldest first, None: not at all."""
    metadata = document["metadata"]
    lines = [_line(0, "Name", metadata["name"])]
    if namespace := metadata.get("namespace"):
        lines.append(_line(0, "Namespace", namespace))
    lines.append(_line(0, "Kind", f"{document['kind']} of {document['apiVersion']}"))
    for name in _METADATA:
        if name in metadata:
            lines += _fields(0, _title(name), metadata[name])
    for name, value in document.items():
        if name not in ("apiVersion", "kind", "metadata", "status"):
            hides = document["kind"] == "Secret" and isinstance(value, Mapping)
            lines += _fields(0, _title(name), _sizes(value) if hides else value)
    status = dict(document.get("status", {}))
    conditions = status.pop("conditions", [])
    stats = status.pop("statistics", None)
    # The conditions repeat it with reasons.
    for name in ("messages", "message"):
        status.pop(name, None)
    if status:
        lines += _fields(0, "Status", status)
    if stats is not None:
        lines += _fields(0, "Figures", _stats(stats))
    if conditions:
        lines += ["Conditions:", *_table(_conditions(conditions))]
    if events is None:
        return "\n".join(lines)
    event_table = _events(events)
    return "\n".join(
        [*lines, "Events:", *_table(event_table)] if events else [*lines, "Events: none"]
    )


def _sizes(data: Mapping[str, str]) -> dict[str, str]:
    """Return the sizes of a Secret's values, which are never printed."""
    return {name: f"{len(base64.b64decode(value))} bytes" for name, value in data.items()}


def _stats(statistics: Document) -> dict[str, Any]:
    """Return the traffic and depth of an address with display titles."""
    stored = statistics["stored"]
    dead = sum(statistics["deadLettered"].values())
    return {
        "Stored Messages": f"{stored['messages']:,} ({stored['bytes']:,} bytes)",
        "In Flight": f"{stored['inFlight']:,}",
        "Scheduled": f"{stored['scheduled']:,}",
        "Oldest": f"{stored['oldestAgeSeconds']:.0f} s",
        "Waiting": f"{statistics['waiting']:,}",
        "Senders": f"{statistics['senders']:,}",
        "Consumers": f"{statistics['receivers']:,}",
        "Stored Per Second": f"{statistics['enqueuedPerSecond']:,.1f}",
        "Delivered Per Second": f"{statistics['deliveredPerSecond']:,.1f}",
        "Delivered": f"{statistics['delivered']:,}",
        "Expired": f"{statistics['expired']:,}",
        "Dead Lettered": f"{dead:,}",
    }


def _conditions(conditions: Sequence[Document]) -> str:
    fields = ("type", "status", "reason", "lastTransitionTime", "message")
    rows = [[one.get(name) or None for name in fields] for one in conditions]
    return columns(["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"], rows)


def _events(events: Sequence[Document]) -> str:
    fields = ("lastTimestamp", "type", "reason", "count", "message")
    rows = [[one.get(name) for name in fields] for one in events]
    return columns(["LAST SEEN", "TYPE", "REASON", "COUNT", "MESSAGE"], rows)


def _table(table: str) -> Iterator[str]:
    return (f"  {line}" for line in table.splitlines())


def _fields(depth: int, title: str, value: Any) -> Iterator[str]:
    """Yield a value below its title: mappings and lists of mappings on their own lines."""
    if isinstance(value, Mapping):
        yield f"{'  ' * depth}{title}:"
        for name, inner in value.items():
            shown = name if title in _OWN_NAMES else _title(name)
            yield from _fields(depth + 1, shown, inner)
    elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
        yield f"{'  ' * depth}{title}:"
        for one in value:
            inner = [line for name, part in one.items() for line in _fields(0, _title(name), part)]
            for number, line in enumerate(inner):
                yield f"{'  ' * (depth + 1)}{'- ' if number == 0 else '  '}{line}"
    elif isinstance(value, list | tuple):
        yield _line(depth, title, ", ".join(map(_plain, value)) or "none")
    else:
        yield _line(depth, title, value)


def _line(depth: int, title: str, value: Any) -> str:
    head = f"{'  ' * depth}{title}:"
    return f"{head.ljust(_FIRST)} {_plain(value)}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _title(name: str) -> str:
    """Return the display title of a field: `messageTtl` is `Message Ttl`; a user-defined key is
    unchanged.
    """
    if not name.isalnum():
        return name
    words = "".join(f" {letter}" if letter.isupper() else letter for letter in name)
    return words[:1].upper() + words[1:]
