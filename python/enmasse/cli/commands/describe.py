"""`enmasse describe`: everything about resources, and what has happened to them."""

from typing import Annotated

import typer

from enmasse.cli.options.invocation import Spaced
from enmasse.cli.options.shared import AllNamespaces, Fields, Labels, Recursive, SomeFiles, Words


def describe(
    words: Words = None,
    file: SomeFiles = None,
    recursive: Recursive = False,
    all_namespaces: AllNamespaces = False,
    selector: Labels = None,
    field_selector: Fields = None,
    show_events: Annotated[
        bool, typer.Option("--show-events/--no-show-events", help="Include events.")
    ] = True,
    *,
    call: Spaced,
) -> None:
    """Show everything about resources: what is declared, conditions with reasons, and events.

    Of a kind without names it shows all in the address space.

    Examples:

      enmasse describe address orders

      enmasse describe addressspace/shop address/orders
    """
    from enmasse.cli import errors
    from enmasse.cli.output.description import text
    from enmasse.cli.resources.targets import Meant, Scope, found

    scope = Scope(None if all_namespaces else call.namespace, call.space, selector, field_selector)
    given = words or []
    is_kind_alone = len(given) == 1 and "/" not in given[0] and not scope.selects
    meant = Meant(given, scope, file or (), recursive, every=is_kind_alone and not file)
    with call.api() as api:
        told = [text(one, api.events_of(one) if show_events else None) for one in found(api, meant)]
    if told:
        print("\n\n".join(told))
    else:
        errors.tell(scope.empty)
