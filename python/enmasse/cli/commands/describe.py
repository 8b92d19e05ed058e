"""`enmasse describe`: all details of resources, and their events."""

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
    """Show all details of resources: spec, conditions with reasons, and events.

    For a kind without names it shows all resources of the address space.

    Examples:

      enmasse describe address orders

      enmasse describe addressspace/shop address/orders
    """
    from enmasse.cli import errors
    from enmasse.cli.output.description import text
    from enmasse.cli.resources.targets import Scope, Targets, found

    scope = Scope(None if all_namespaces else call.namespace, call.space, selector, field_selector)
    given = words or []
    is_kind_alone = len(given) == 1 and "/" not in given[0] and not scope.selects
    targets = Targets(given, scope, file or (), recursive, every=is_kind_alone and not file)
    with call.api() as api:
        texts = [
            text(one, api.events_of(one) if show_events else None) for one in found(api, targets)
        ]
    if texts:
        print("\n\n".join(texts))
    else:
        errors.write_line(scope.empty)
