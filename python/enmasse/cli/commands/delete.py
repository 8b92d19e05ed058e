"""`enmasse delete`: take back what was declared."""

from typing import Annotated, Any

import typer

from enmasse.cli.group import Aliases
from enmasse.cli.options import Data, Namespace, ServerUrl, Space, TokenFile

app = typer.Typer(cls=Aliases, no_args_is_help=True, help="Delete an address, a space or a user.")

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names, one or more.")]


@app.command()
def address(
    names: Names,
    space: Space = "default",
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Delete addresses, by address or by resource name, and the messages in them.

    Example: enmasse delete address orders news/europe
    """
    _delete("addresses", "address", names, space, namespace, (data, server, token_file))


@app.command()
def addressspace(
    names: Names,
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Delete address spaces, with all their addresses and users.

    Example: enmasse delete addressspace shop
    """
    _delete("addressspaces", "", names, "", namespace, (data, server, token_file))


@app.command()
def user(
    names: Names,
    space: Space = "default",
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Delete users, by user name or by resource name.

    Example: enmasse delete user alice
    """
    _delete("messagingusers", "username", names, space, namespace, (data, server, token_file))


def _delete(
    plural: str,
    field: str,
    names: list[str],
    space: str,
    namespace: str,
    place: tuple[Data, ServerUrl, TokenFile],
) -> None:
    from enmasse.cli.client import Api

    with Api.find(*place) as api:
        listed = api.list(plural, namespace)["items"]
        found = [_find(listed, field, name, space) for name in names]
        for document in found:
            api.delete(plural, namespace, document["metadata"]["name"])
            print(f"{document['kind']} {document['metadata']['name']} deleted")


def _find(listed: list[dict[str, Any]], field: str, name: str, space: str) -> dict[str, Any]:
    """Return what a name means: what clients call it, or the resource's own name."""
    from enmasse.base.errors import Code, Missing

    prefix = f"{space}." if space else ""
    for document in listed:
        own = document["metadata"]["name"]
        if field and own.startswith(prefix) and document["spec"][field] == name:
            return document
    for document in listed:
        if document["metadata"]["name"] in (name, prefix + name):
            return document
    where = f" in address space {space!r}" if space else ""
    raise Missing(Code.RESOURCE_MISSING, f"there is no {name!r}{where}")
