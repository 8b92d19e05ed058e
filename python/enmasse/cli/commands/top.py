"""`enmasse top`: where the messages are."""

from collections import defaultdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from enmasse.cli.options import (
    AnyNamespace,
    AnySpace,
    Data,
    Output,
    OutputForm,
    ServerUrl,
    TokenFile,
)

REFRESH_S = 1.0
Document = dict[str, Any]
Row = dict[str, Any]


class By(StrEnum):
    """What a line is about."""

    ADDRESS = "address"
    SPACE = "space"


class Order(StrEnum):
    """What comes first."""

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


def top(
    by: Annotated[By, typer.Option(help="A line for each address, or for each space.")] = (
        By.ADDRESS
    ),
    sort: Annotated[
        Order, typer.Option(help="First: most messages a second, bytes, depth, or the oldest.")
    ] = Order.RATE,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Lines at most.")] = 20,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every second until Ctrl-C.")
    ] = False,
    space: AnySpace = None,
    namespace: AnyNamespace = None,
    output: OutputForm = Output.TABLE,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show the busiest addresses: messages a second in and out, depth, and the oldest message.

    IN is messages stored a second, OUT messages handed to receivers.

    Examples:

      enmasse top --sort depth

      enmasse top --by space --watch
    """
    from enmasse.cli.client import Api
    from enmasse.cli.output import repeat, show

    with Api.find(data, server, token_file) as api:

        def rows() -> list[Row]:
            listed = api.list("addresses", namespace, statistics=True)["items"]
            found = [_row(one) for one in listed if space in (None, _space(one))]
            if by is By.SPACE:
                found = _summed(found)
            return sorted(found, key=_ORDER[sort], reverse=True)[:limit]

        if watch:
            repeat(lambda: _table(rows(), by), REFRESH_S)
        found = rows()
        show({"items": found}, output, lambda: _table(found, by))


def _row(one: Document) -> Row:
    from enmasse.cli.names import called

    figures = one.get("status", {}).get("statistics", {})
    stored = figures.get("stored", {})
    return {
        "address": called(one, "address")[0],
        "space": _space(one),
        "namespace": one["metadata"]["namespace"],
        "in": figures.get("enqueuedPerSecond", 0.0),
        "out": figures.get("deliveredPerSecond", 0.0),
        "bytesPerSecond": figures.get("bytesPerSecond", 0.0),
        "depth": stored.get("messages", 0) + figures.get("waiting", 0),
        "storedBytes": stored.get("bytes", 0),
        "oldestAgeSeconds": stored.get("oldestAgeSeconds", 0.0),
        "senders": figures.get("senders", 0),
        "receivers": figures.get("receivers", 0),
    }


_SUMS = ("in", "out", "bytesPerSecond", "depth", "storedBytes", "senders", "receivers")


def _summed(rows: list[Row]) -> list[Row]:
    spaces: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        spaces[row["namespace"], row["space"]].append(row)
    return [
        {"space": space, "namespace": namespace, "addresses": len(members)}
        | {name: sum(row[name] for row in members) for name in _SUMS}
        | {"oldestAgeSeconds": max(row["oldestAgeSeconds"] for row in members)}
        for (namespace, space), members in spaces.items()
    ]


def _table(rows: list[Row], by: By) -> str:
    from enmasse.cli.output import columns

    first = ("address", "space") if by is By.ADDRESS else ("space", "addresses")
    names = (*first, "namespace", "in", "out", "bytesPerSecond", "depth", "storedBytes")
    headings = [*first, "namespace", "in", "out", "bytes/s", "depth", "stored bytes", "oldest s"]
    headings += ["senders", "receivers"]
    fields = (*names, "oldestAgeSeconds", "senders", "receivers")
    return columns(
        [one.upper() for one in headings], [[row[one] for one in fields] for row in rows]
    )


def _space(one: Document) -> str:
    return str(one["metadata"]["name"]).partition(".")[0]
