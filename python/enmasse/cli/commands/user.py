"""`enmasse user`: who may connect, and what they may do."""

from typing import Annotated, Any

import typer

from enmasse.cli.commands import create as creating
from enmasse.cli.options import (
    AnyNamespace,
    AnySpace,
    Data,
    Labels,
    ListingForm,
    Namespace,
    ServerUrl,
    Space,
    TokenFile,
    Wait,
)

app = typer.Typer(no_args_is_help=True, help=("Users of address spaces: create, list, change."))

UserName = Annotated[str, typer.Argument(help="User name for login.")]


def _right(help: str) -> Any:
    return typer.Option(metavar="ADDRESS", help=help)


Sends = Annotated[list[str] | None, _right("Right to send to this address or pattern; repeatable.")]
Receives = Annotated[
    list[str] | None, _right("Right to receive from this address or pattern; repeatable.")
]
Creates = Annotated[
    list[str] | None,
    _right("Right to have it created by a link (autoCreate); repeatable."),
]
Views = Annotated[
    bool, typer.Option("--view", help=("Right to query `$management` about every address."))
]
Manages = Annotated[bool, typer.Option("--manage", help="Stored without effect.")]

app.command("create")(creating.user)


@app.command("list")
def list_(
    space: AnySpace = None,
    namespace: AnyNamespace = None,
    selector: Labels = None,
    output: ListingForm = "table",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show users and what they may do. Passwords are never shown.

    Example: enmasse user list --space shop
    """
    from enmasse.cli.commands import get

    get.get(
        words=["users"],
        space=space,
        namespace=namespace,
        selector=selector,
        output=output,
        data=data,
        server=server,
        token_file=token_file,
    )


@app.command()
def passwd(
    name: UserName,
    password: creating.Password = None,
    space: Space = "default",
    namespace: Namespace = "default",
    wait: Wait = True,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Give a user another password. Connections that came in by the old one are closed.

    Example: enmasse user passwd alice --space shop
    """
    encoded = creating.encoded_password(password)
    spec = {"authentication": {"password": encoded}}
    _change(name, spec, space, namespace, (data, server, token_file), wait=wait)
    print(f"password of user {name} changed")


@app.command()
def allow(
    name: UserName,
    send: Sends = None,
    receive: Receives = None,
    create: Creates = None,
    view: Views = False,
    manage: Manages = False,
    space: Space = "default",
    namespace: Namespace = "default",
    wait: Wait = True,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Replace the rights of a user by these. Without any right they may do nothing.

    Examples:

      enmasse user allow alice --send orders --receive 'news/#'

      enmasse user allow bob --view --manage --space shop
    """
    given = (("send", send), ("recv", receive), ("create", create))
    rights: list[dict[str, Any]] = [
        {"operations": [operation], "addresses": addresses}
        for operation, addresses in given
        if addresses
    ]
    whole = [name for name, is_given in (("view", view), ("manage", manage)) if is_given]
    if whole:
        rights.append({"operations": whole})
    spec = {"authorization": rights}
    _change(name, spec, space, namespace, (data, server, token_file), wait=wait)
    said = "; ".join(
        f"{','.join(one['operations'])} {' '.join(one.get('addresses', ['everywhere']))}"
        for one in rights
    )
    print(f"user {name} may {said or 'do nothing'}")


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names, one or more.")],
    space: Space = "default",
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Delete users, by user name or by resource name.

    Example: enmasse user delete alice --space shop
    """
    from enmasse.cli.commands import delete as deleting

    words = ["user", *names]
    deleting.delete(
        words, space=space, namespace=namespace, data=data, server=server, token_file=token_file
    )


def _change(
    name: str,
    spec: dict[str, Any],
    space: str,
    namespace: str,
    place: tuple[Data, ServerUrl, TokenFile],
    *,
    wait: bool,
) -> None:
    from enmasse.cli.client import Api
    from enmasse.cli.names import looked_up
    from enmasse.resources import MessagingUser

    with Api.find(*place) as api:
        found = looked_up(api, MessagingUser, name, space, namespace)
        own = found["metadata"]["name"]
        changed = api.patch(MessagingUser, namespace, own, {"spec": spec})
        if wait:
            api.wait_ready(MessagingUser.plural, changed)
