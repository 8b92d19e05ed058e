"""`enmasse user`: users and their rights."""

from typing import Annotated, Any

import typer

from enmasse.cli.commands import create as creating
from enmasse.cli.options import completion
from enmasse.cli.options.invocation import Group, Listing, Spaced
from enmasse.cli.options.shared import Labels, Wait

app = Group(no_args_is_help=True, help=("Users of address spaces: create, list, change."))

UserName = Annotated[
    str, typer.Argument(help="User name for login.", autocompletion=completion.of("user"))
]


def _right(help: str) -> Any:
    return typer.Option(metavar="ADDRESS", help=help)


Sends = Annotated[list[str] | None, _right("Right to send to this address or pattern; repeatable.")]
Receives = Annotated[
    list[str] | None, _right("Right to receive from this address or pattern; repeatable.")
]
Creates = Annotated[
    list[str] | None,
    _right("Right to create this address or pattern by a link (autoCreate); repeatable."),
]
Views = Annotated[
    bool, typer.Option("--view", help=("Right to query `$management` about every address."))
]
Manages = Annotated[bool, typer.Option("--manage", help="Stored without effect.")]

app.command("create")(creating.user)


@app.command("list")
def list_(
    selector: Labels = None,
    *,
    call: Listing,
) -> None:
    """Show users and their rights. Passwords are never shown.

    Example: enmasse user list --space shop
    """
    from enmasse.cli.commands import get

    get.get(
        words=["users"],
        selector=selector,
        call=call,
    )


@app.command()
def passwd(
    name: UserName,
    password: creating.Password = None,
    wait: Wait = True,
    *,
    call: Spaced,
) -> None:
    """Change the password of a user. Connections that used the old password are closed.

    Example: enmasse user passwd alice --space shop
    """
    encoded = creating.encoded_password(password)
    spec = {"authentication": {"password": encoded}}
    _change(name, spec, call, wait=wait)
    print(f"password of user {name} changed")


@app.command()
def allow(
    name: UserName,
    send: Sends = None,
    receive: Receives = None,
    create: Creates = None,
    view: Views = False,
    manage: Manages = False,
    wait: Wait = True,
    *,
    call: Spaced,
) -> None:
    """Replace the rights of a user. Without any right the user may do nothing.

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
    _change(name, spec, call, wait=wait)
    rights_text = "; ".join(
        f"{','.join(one['operations'])} {' '.join(one.get('addresses', ['everywhere']))}"
        for one in rights
    )
    print(f"user {name} may {rights_text or 'do nothing'}")


@app.command()
def delete(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Names, one or more.",
            autocompletion=completion.of("user"),
        ),
    ],
    *,
    call: Spaced,
) -> None:
    """Delete users, by user name or by resource name.

    Example: enmasse user delete alice --space shop
    """
    from enmasse.cli.commands import delete as deleting

    words = ["user", *names]
    deleting.delete(
        words,
        call=call,
    )


def _change(
    name: str,
    spec: dict[str, Any],
    call: Spaced,
    *,
    wait: bool,
) -> None:
    from enmasse.base.kinds import KINDS
    from enmasse.cli.resources.names import fetch_by_name

    model = KINDS["MessagingUser"]
    with call.api() as api:
        found = fetch_by_name(api, model, name, call.space, call.namespace)
        own = found["metadata"]["name"]
        changed = api.patch(model, call.namespace, own, {"spec": spec})
        if wait:
            api.wait_ready(model.plural, changed)
