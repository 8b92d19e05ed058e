"""`enmasse delete`: take back what was declared."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.group import Aliases
from enmasse.cli.options import Data, Kind, Namespace, ServerUrl, Space, TokenFile

if TYPE_CHECKING:
    from enmasse.cli.client import Api

app = typer.Typer(cls=Aliases, no_args_is_help=True, help="Delete what is declared.")

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names, one or more.")]
Force = Annotated[
    bool, typer.Option("--force", help="Delete messages that are stored, without asking.")
]


@app.command()
def address(
    names: Names,
    force: Force = False,
    space: Space = "default",
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Delete addresses, by address or by resource name, and the messages in them.

    If there are messages it asks first; without a terminal it deletes nothing, unless --force.

    Examples:

      enmasse delete address orders news/europe

      enmasse delete address orders --force
    """
    place = (data, server, token_file)
    _delete("addresses", "address", names, space, namespace, place, force=force)


@app.command()
def addressspace(
    names: Names,
    force: Force = False,
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Delete address spaces, with all their addresses, the messages in them, and users.

    If there are messages it asks first; without a terminal it deletes nothing, unless --force.

    Example: enmasse delete addressspace shop
    """
    place = (data, server, token_file)
    _delete("addressspaces", "", names, "", namespace, place, force=force)


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


@app.command()
def resources(
    kind: Kind,
    names: Names,
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Delete resources of any other kind. The word `resources` may be left out.

    Examples:

      enmasse delete resources addressplan team-queue

      enmasse delete addressspaceplan team
    """
    from enmasse.cli import kinds
    from enmasse.cli.client import Api
    from enmasse.cli.names import FIELDS, looked_up

    model = kinds.named(kind)
    if model.plural in FIELDS or model.plural == "addressspaces":
        singular = {"addresses": "address", "messagingusers": "user"}.get(
            model.plural, "addressspace"
        )
        raise typer.BadParameter(f"use `enmasse delete {singular}`", param_hint="KIND")
    with Api.find(data, server, token_file) as api:
        for found in [looked_up(api, model, name, "", namespace) for name in names]:
            metadata = found["metadata"]
            api.delete(model.plural, metadata.get("namespace", ""), metadata["name"])
            print(f"{found['kind']} {metadata['name']} deleted")


def _delete(
    plural: str,
    field: str,
    names: list[str],
    space: str,
    namespace: str,
    place: tuple[Data, ServerUrl, TokenFile],
    *,
    force: bool = True,
) -> None:
    from enmasse.cli.client import Api
    from enmasse.cli.names import find

    with Api.find(*place) as api:
        listed = api.list(plural, namespace)["items"]
        found = [find(listed, field, name, space) for name in names]
        if not force:
            _agree(api, plural, namespace, found)
        for document in found:
            api.delete(plural, namespace, document["metadata"]["name"])
            print(f"{document['kind']} {document['metadata']['name']} deleted")


def _agree(api: "Api", plural: str, namespace: str, found: list[dict[str, Any]]) -> None:
    """Ask whether the messages of addresses, or of all addresses of spaces, may go.

    Raises: Conflict if there are some and nobody is there to be asked.
    """
    from enmasse.base.errors import Code, Conflict
    from enmasse.cli.output import can_ask, text
    from enmasse.resources.address_rules import STORED

    names = {document["metadata"]["name"] for document in found}

    def is_meant(one: dict[str, Any]) -> bool:
        name = one["metadata"]["name"]
        return (name if plural == "addresses" else name.partition(".")[0]) in names

    listed = found if plural == "addresses" else api.list("addresses", namespace)["items"]
    if not any(one["spec"]["type"] in STORED for one in listed if is_meant(one)):
        return
    for one in api.list("addresses", namespace, statistics=True)["items"]:
        count = one.get("status", {}).get("statistics", {}).get("stored", {}).get("messages", 0)
        if count == 0 or not is_meant(one):
            continue
        holds = f"{one['spec']['address']} holds {text(count)} messages"
        if not can_ask():
            raise Conflict(Code.MESSAGES_STORED, f"{holds}; add --force to delete them too")
        typer.confirm(f"{holds}. Delete them too?", abort=True)
