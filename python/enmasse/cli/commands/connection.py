"""`enmasse connection`: connections of a namespace, with the rights of a tenant."""

from typing import Annotated, Any

import typer

from enmasse.cli.options.invocation import Group, Namespaced, NamespacedReporting

OUTCOMES = ("accepted", "rejected", "released", "modified")

app = Group(no_args_is_help=True, help="Connections of clients in a namespace.")

Number = Annotated[str, typer.Argument(metavar="ID", help="Number of the connection.")]


@app.command("list")
def list_(
    space: Annotated[
        str | None, typer.Option("--space", "-s", metavar="SPACE", help="Only of this space.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Only with a link at this address.")
    ] = None,
    *,
    call: NamespacedReporting,
) -> None:
    """Show the connections of a namespace with their traffic.

    Example: enmasse connection list --namespace shop --address orders
    """
    from enmasse.cli.output.printing import columns, show

    with call.api() as api:
        items = list(api.connections_in(call.namespace, space=space, address=address))
    headings = ["ID", "SPACE", "USER", "CONTAINER", "FROM", "PROTOCOL", "LINKS", "IN/S", "OUT/S"]
    members = ("id", "space", "user", "container", "peer", "protocol", "linkCount")
    rates = ("messagesInPerSecond", "messagesOutPerSecond")
    rows = [[one.get(name) for name in (*members, *rates)] for one in items]
    show({"items": items}, call.output, lambda: columns(headings, rows))


@app.command()
def show(connection: Number, *, call: NamespacedReporting) -> None:
    """Show one connection with its links and their outcomes.

    Example: enmasse connection show 17 --namespace shop
    """
    from enmasse.cli.output import printing

    with call.api() as api:
        found = api.connection_in(call.namespace, connection)
    printing.show(found, call.output, lambda: _links(found["links"]))


def _links(links: list[dict[str, Any]]) -> str:
    from enmasse.cli.output.printing import columns

    rows = [
        [
            one["name"],
            one["role"],
            one.get("address") or ", ".join(one["addresses"]),
            one["credit"],
            one["unsettled"],
            one["deliveries"],
            *(one.get("outcomes", {}).get(outcome, "") for outcome in OUTCOMES),
        ]
        for one in links
    ]
    titles = ["LINK", "CLIENT IS", "ADDRESS", "CREDIT", "UNSETTLED", "DELIVERIES"]
    return columns([*titles, *(outcome.upper() for outcome in OUTCOMES)], rows)


@app.command()
def close(connection: Number, *, call: Namespaced) -> None:
    """Close a connection; its client gets `amqp:connection:forced` and may connect again.

    Example: enmasse connection close 17 --namespace shop
    """
    with call.api() as api:
        api.close_connection(call.namespace, connection)
    print(f"connection {connection} closed")


@app.command()
def trace(
    connection: Number,
    frames: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Maximum number of frames.")
    ] = 200,
    seconds: Annotated[
        int, typer.Option(metavar="S", min=1, max=120, help="Maximum duration.")
    ] = 30,
    *,
    call: Namespaced,
) -> None:
    """Print the next frames of a connection, without payloads and secrets.

    Example: enmasse connection trace 17 --namespace shop --frames 20
    """
    with call.api() as api:
        for frame in api.traced(call.namespace, connection, frames=frames, seconds=seconds):
            start = f"{frame['atMs']} {'<-' if frame['direction'] == 'in' else '->'}"
            # What was read or written at once may have several.
            for line in frame["frames"].splitlines():
                print(f"{start} {line}")
