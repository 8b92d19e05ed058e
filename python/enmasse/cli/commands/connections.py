"""`enmasse trace`: trace the protocol of one connection."""

from typing import Annotated

import typer

from enmasse.cli.options.invocation import Invocation


def trace(
    connection: Annotated[
        int, typer.Argument(help=("Connection number, from `enmasse get connections`."))
    ],
    off: Annotated[bool, typer.Option("--off", help="Stop tracing it.")] = False,
    *,
    call: Invocation,
) -> None:
    """Write the frames of one connection to the platform's log, without payloads and secrets.

    Examples:

      enmasse trace 7

      enmasse trace 7 --off
    """
    with call.api() as api:
        api.trace(connection, on=not off)
    print(f"connection {connection} is {'no longer ' if off else ''}traced")
