"""`enmasse wait`: wait until something is so with resources."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options import Data, Kind, Namespace, ServerUrl, Space, TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable

Document = dict[str, Any]


def wait(
    kind: Kind,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Names; or --all.")
    ] = None,
    for_: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="WHAT",
            help="`delete`, `condition=TYPE` (it is True) or `condition=TYPE=False`.",
        ),
    ] = "condition=Ready",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Longest wait for all of them.")
    ] = 30.0,
    all_: Annotated[
        bool, typer.Option("--all", help="All of the kind in the address space.")
    ] = False,
    space: Space = "default",
    namespace: Namespace = "default",
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Return when it is so; the exit code is 7 if that takes longer than --timeout.

    Examples:

      enmasse wait address orders

      enmasse wait address --all --for condition=Ready --timeout 60

      enmasse wait addressspace shop --for delete
    """
    from enmasse.base.errors import Missing
    from enmasse.cli import kinds
    from enmasse.cli.client import Api
    from enmasse.cli.names import in_its_space, looked_up

    model = kinds.named(kind)
    if all_ is bool(names):
        raise typer.BadParameter("name resources, or say --all", param_hint="NAME")
    deleted, is_so, what = _wanted(for_)
    with Api.find(data, server, token_file) as api:
        deadline_s = api.clock.monotonic() + timeout
        if all_:
            items = api.list(model.plural, namespace)["items"]
            found = [one for one in items if in_its_space(model, one, space)]
        else:
            found = []
            for name in names or ():
                try:
                    found.append(looked_up(api, model, name, space, namespace))
                except Missing:
                    if not deleted:
                        raise
        for one in found:
            left_s = max(deadline_s - api.clock.monotonic(), 0.0)
            if deleted:
                api.wait_deleted(model.plural, one, left_s)
            else:
                api.wait(model.plural, one, is_so, what, left_s)
            done = "is deleted" if deleted else f"is {what}"
            print(f"{model.__name__} {one['metadata']['name']} {done}")


def _wanted(text: str) -> "tuple[bool, Callable[[Document], bool], str]":
    """Return whether deletion is waited for, else what is asked of a document, and its name.

    Raises: BadParameter for what is neither.
    """
    if text == "delete":
        return True, lambda _: False, "deleted"
    word, _, rest = text.partition("=")
    type_, _, truth = rest.partition("=")
    if word != "condition" or not type_:
        raise typer.BadParameter(
            f"{text!r} is neither delete nor condition=TYPE", param_hint="--for"
        )
    wanted = (truth or "True").capitalize()

    def is_so(document: Document) -> bool:
        status = document.get("status", {})
        seen = status.get("observedGeneration", 0)
        return seen >= document["metadata"].get("generation", 0) and any(
            one["type"].lower() == type_.lower() and one["status"] == wanted
            for one in status.get("conditions", [])
        )

    return False, is_so, type_ if wanted == "True" else f"{type_}={wanted}"
