"""`enmasse wait`: wait until resources meet a condition."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options.invocation import Spaced
from enmasse.cli.options.shared import (
    AllNamespaces,
    Every,
    Fields,
    Labels,
    Recursive,
    SomeFiles,
    TimeoutS,
    Words,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Document = dict[str, Any]


def wait(
    words: Words = None,
    file: SomeFiles = None,
    recursive: Recursive = False,
    for_: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="WHAT",
            help="`delete`, `condition=TYPE` (it is True), `condition=TYPE=False`,"
            " `jsonpath={PATH}=VALUE` or `jsonpath={PATH}` (it exists).",
        ),
    ] = "condition=Ready",
    timeout: TimeoutS = "30s",
    all_: Every = False,
    selector: Labels = None,
    field_selector: Fields = None,
    all_namespaces: AllNamespaces = False,
    *,
    call: Spaced,
) -> None:
    """Return when the condition is met; the exit code is 7 after --timeout.

    Examples:

      enmasse wait address orders

      enmasse wait address --all --for condition=Ready --timeout 60s

      enmasse wait address/orders --for jsonpath='{.status.phase}'=Active

      enmasse wait addressspace shop --for delete
    """
    from enmasse.base.errors import Code, Missing
    from enmasse.cli.resources import kinds
    from enmasse.cli.resources.targets import Scope, Targets, found, seconds

    deleted, is_met, what = _wanted(for_)
    longest_s = seconds(timeout)
    scope = Scope(None if all_namespaces else call.namespace, call.space, selector, field_selector)
    targets = Targets(words or (), scope, file or (), recursive, all_)
    with call.api() as api:
        deadline_s = api.clock.monotonic() + longest_s
        items = found(api, targets, ignore_missing=deleted)
        if not items and not deleted:
            raise Missing(Code.RESOURCE_MISSING, scope.empty)
        for one in items:
            plural = kinds.named(one["kind"]).plural
            left_s = max(deadline_s - api.clock.monotonic(), 0.0)
            if deleted:
                api.wait_deleted(plural, one, left_s)
            else:
                api.wait(plural, one, is_met, what, left_s)
            done = "is deleted" if deleted else f"is {what}"
            print(f"{one['kind']} {one['metadata']['name']} {done}")


def _wanted(text: str) -> "tuple[bool, Callable[[Document], bool], str]":
    """Return whether it waits for deletion, else the condition on a document, and its name.

    Raises: BadParameter for anything else.
    """
    if text == "delete":
        return True, lambda _: False, "deleted"
    word, _, rest = text.partition("=")
    if word == "jsonpath" and rest:
        return False, *_value(rest)
    type_, _, truth = rest.partition("=")
    if word != "condition" or not type_:
        raise typer.BadParameter(
            f"unrecognized condition: {text!r} is neither delete, condition=TYPE nor"
            " jsonpath={PATH}=VALUE",
            param_hint="--for",
        )
    wanted = (truth or "True").capitalize()

    def is_met(document: Document) -> bool:
        # A status of an older generation describes another spec.
        status = document.get("status", {})
        seen = status.get("observedGeneration", 0)
        return seen >= document["metadata"].get("generation", 0) and any(
            one["type"].lower() == type_.lower() and one["status"] == wanted
            for one in status.get("conditions", [])
        )

    return False, is_met, type_ if wanted == "True" else f"{type_}={wanted}"


def _value(text: str) -> "tuple[Callable[[Document], bool], str]":
    """Return the condition of `{PATH}=VALUE` or `{PATH}` on a document, and its name.

    Raises: BadParameter if the path is malformed.
    """
    from enmasse.cli.output.jsonpath import path, text_of

    # A filter also contains `=`, so the value begins after the last brace.
    braced, closed, rest = text.rpartition("}")
    where, has_value, wanted = (braced + closed, *rest.partition("=")[1:])
    if not closed:
        where, has_value, wanted = text.partition("=")
    try:
        found = path(where)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None
    wanted = wanted.strip("'\"")

    def is_met(document: Document) -> bool:
        values = found.values(document)
        return len(values) == 1 and text_of(values[0]) == wanted if has_value else bool(values)

    return is_met, f"{where}={wanted}" if has_value else where
