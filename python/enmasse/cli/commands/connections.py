"""`enmasse trace`: look at what one connection says."""

from typing import Annotated

import typer

from enmasse.cli.options import Data, ServerUrl, TokenFile


def trace(
    connection: Annotated[
        int, typer.Argument(help=("Connection number, from `enmasse get connections`."))
    ],
    off: Annotated[bool, typer.Option("--off", help="Stop tracing it.")] = False,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Write the frames of one connection to the platform's log. Payloads and secrets are left out.

    Examples:

      enmasse trace 7

      enmasse trace 7 --off
    """
    from enmasse.cli.client import Api

    with Api.find(data, server, token_file) as api:
        api.trace(connection, on=not off)
    print(f"connection {connection} is {'no longer ' if off else ''}traced")
