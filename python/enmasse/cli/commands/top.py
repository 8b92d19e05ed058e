"""`enmasse top`: the busiest addresses, spaces and connections."""

from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options.invocation import AnywhereReporting

if TYPE_CHECKING:
    from enmasse.cli.connect.client import Api

REFRESH_S = 1.0
Document = dict[str, Any]
Row = dict[str, Any]


class What(StrEnum):
    """The subject of a line."""

    ADDRESSES = "addresses"
    SPACES = "spaces"
    CONNECTIONS = "connections"


class Order(StrEnum):
    """The sort order."""

    RATE = "rate"
    BYTES = "bytes"
    DEPTH = "depth"
    AGE = "age"


_ORDER = {
    Order.RATE: lambda row: row["in"] + row["out"],
    Order.BYTES: lambda row: row["bytesPerSecond"],
    Order.DEPTH: lambda row: row["depth"],
    Order.AGE: lambda row: row["oldestAgeSeconds"],
}
_CONNECTION_ORDER = {
    Order.RATE: lambda row: row["messagesIn"] + row["messagesOut"],
    Order.BYTES: lambda row: row["bytesIn"] + row["bytesOut"],
}
_STATISTICS = ("in", "out", "bytesPerSecond", "depth", "storedBytes", "oldestAgeSeconds")
_COLUMNS = {
    What.ADDRESSES: ("address", "space", "namespace", *_STATISTICS, "senders", "receivers"),
    What.SPACES: ("space", "addresses", "namespace", *_STATISTICS, "senders", "receivers",
        "connections", "links"),
    What.CONNECTIONS: ("id", "space", "namespace", "user", "container", "peer", "links",
        "messagesIn", "messagesOut", "bytesIn", "bytesOut"),
}  # fmt: skip
_HEADINGS = {
    "bytesPerSecond": "bytes/s",
    "storedBytes": "stored bytes",
    "oldestAgeSeconds": "oldest s",
    "messagesIn": "in",
    "messagesOut": "out",
    "bytesIn": "bytes in",
    "bytesOut": "bytes out",
}


def top(
    what: Annotated[
        What, typer.Argument(metavar="[addresses|spaces|connections]", help="What to list.")
    ] = What.ADDRESSES,
    sort: Annotated[Order, typer.Option(help="Sort by rate, bytes, depth or age.")] = Order.RATE,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of lines.")] = 20,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every second until Ctrl-C.")
    ] = False,
    *,
    call: AnywhereReporting,
) -> None:
    """Show the busiest addresses, spaces or connections.

    IN is messages stored per second, OUT messages sent to receivers per second; for a connection
    they are the totals sent and received since it opened.

    Examples:

      enmasse top --sort depth

      enmasse top spaces --watch

      enmasse top connections --sort bytes
    """
    from enmasse.cli.output.printing import repeat, show

    order = _CONNECTION_ORDER if what is What.CONNECTIONS else _ORDER
    if sort not in order:
        raise typer.BadParameter("sort connections by rate or bytes", param_hint="--sort")
    with call.api() as api:

        def rows() -> list[Row]:
            found = _found(api, what, call.space, call.namespace)
            return sorted(found, key=order[sort], reverse=True)[:limit]

        if watch:
            repeat(lambda: _table(rows(), what), REFRESH_S)
        found = rows()
        show({"items": found}, call.output, lambda: _table(found, what))


def _found(api: "Api", what: What, space: str | None, namespace: str | None) -> list[Row]:
    """Return the unsorted rows of a space and a namespace; None means all."""
    connections = [] if what is What.ADDRESSES else list(map(_connection, _connections(api)))
    connections = [
        row
        for row in connections
        if space in (None, row["space"]) and namespace in (None, row["namespace"])
    ]
    if what is What.CONNECTIONS:
        return connections
    listed = api.list("addresses", namespace, statistics=True)["items"]
    rows = [_row(one) for one in listed if space in (None, _space(one))]
    return rows if what is What.ADDRESSES else _summed(rows, connections)


def _connections(api: "Api") -> list[Document]:
    return [one for one in api.connections()["items"] if one["space"]]


def _connection(one: Document) -> Row:
    space, _, namespace = one["space"].partition(".")
    names = ("id", "user", "container", "peer", "transport", "links")
    return (
        {"space": space, "namespace": namespace}
        | {name: one[name] for name in names}
        | {
            "messagesIn": one["messages_in"],
            "messagesOut": one["messages_out"],
            "bytesIn": one["bytes_in"],
            "bytesOut": one["bytes_out"],
        }
    )


def _row(one: Document) -> Row:
    from enmasse.cli.resources.names import client_names

    stats = one.get("status", {}).get("statistics", {})
    stored = stats.get("stored", {})
    return {
        "address": client_names(one, "address")[0],
        "space": _space(one),
        "namespace": one["metadata"]["namespace"],
        "in": stats.get("enqueuedPerSecond", 0.0),
        "out": stats.get("deliveredPerSecond", 0.0),
        "bytesPerSecond": stats.get("bytesPerSecond", 0.0),
        "depth": stored.get("messages", 0) + stats.get("waiting", 0),
        "storedBytes": stored.get("bytes", 0),
        "oldestAgeSeconds": stored.get("oldestAgeSeconds", 0.0),
        "senders": stats.get("senders", 0),
        "receivers": stats.get("receivers", 0),
    }


_SUMS = ("in", "out", "bytesPerSecond", "depth", "storedBytes", "senders", "receivers")


def _summed(rows: list[Row], connections: list[Row]) -> list[Row]:
    spaces: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        spaces[row["namespace"], row["space"]].append(row)
    peers: Counter[tuple[str, str]] = Counter()
    links: Counter[tuple[str, str]] = Counter()
    for one in connections:
        key = (one["namespace"], one["space"])
        peers[key] += 1
        links[key] += one["links"]
    return [
        {"space": key[1], "namespace": key[0], "addresses": len(members)}
        | {name: sum(row[name] for row in members) for name in _SUMS}
        | {"oldestAgeSeconds": max((row["oldestAgeSeconds"] for row in members), default=0.0)}
        | {"connections": peers[key], "links": links[key]}
        for key, members in {**{peer: [] for peer in peers}, **spaces}.items()
    ]


def _table(rows: list[Row], what: What) -> str:
    from enmasse.cli.output.printing import columns

    fields = _COLUMNS[what]
    headings = [_HEADINGS.get(name, name).upper() for name in fields]
    return columns(headings, [[row[name] for name in fields] for row in rows])


def _space(one: Document) -> str:
    return str(one["metadata"]["name"]).partition(".")[0]
