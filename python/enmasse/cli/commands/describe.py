"""`enmasse describe`: everything about one resource, and what has happened to it."""

from typing import Annotated

import typer

from enmasse.cli.options import Data, Kind, Namespace, ServerUrl, Space, TokenFile


def describe(
    kind: Kind,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names, one or more.")],
    space: Space = "default",
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show everything about resources: what is declared, conditions with reasons, and events.

    Examples:

      enmasse describe address orders

      enmasse describe addressspace shop
    """
    from enmasse.cli import kinds
    from enmasse.cli.client import Api
    from enmasse.cli.description import text
    from enmasse.cli.names import looked_up

    model = kinds.named(kind)
    with Api.find(data, server, token_file) as api:
        found = [looked_up(api, model, name, space, namespace) for name in names]
        print("\n\n".join(text(one, api.events_of(one)) for one in found))
