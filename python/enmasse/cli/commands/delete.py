"""`enmasse delete`: delete resources."""

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options.invocation import Spaced
from enmasse.cli.options.shared import (
    AllNamespaces,
    Every,
    Fields,
    IgnoreMissing,
    Labels,
    Recursive,
    SomeFiles,
    TimeoutS,
    Words,
)

if TYPE_CHECKING:
    from enmasse.cli.connect.client import Api

Document = dict[str, Any]


def delete(
    words: Words = None,
    file: SomeFiles = None,
    recursive: Recursive = False,
    all_: Every = False,
    selector: Labels = None,
    field_selector: Fields = None,
    force: Annotated[
        bool, typer.Option("--force", help="Delete stored messages without confirmation.")
    ] = False,
    ignore_not_found: IgnoreMissing = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate only; delete nothing.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help=("Wait until it is deleted, or return immediately.")),
    ] = True,
    timeout: TimeoutS = "30s",
    all_namespaces: AllNamespaces = False,
    *,
    call: Spaced,
) -> None:
    """Delete resources: addresses with their messages, spaces with everything in them.

    Asks for confirmation if messages are stored; without a terminal it refuses, unless --force.

    Examples:

      enmasse delete address orders news/europe

      enmasse delete address/orders addressspace/shop --force

      enmasse delete -f addresses.yaml --ignore-not-found

      enmasse delete addresses --all --space trial
    """
    from enmasse.cli import errors
    from enmasse.cli.resources import kinds
    from enmasse.cli.resources.targets import Scope, Targets, found, seconds

    longest_s = seconds(timeout)
    scope = Scope(None if all_namespaces else call.namespace, call.space, selector, field_selector)
    targets = Targets(words or (), scope, file or (), recursive, all_)
    with call.api() as api:
        items = found(api, targets, ignore_missing=ignore_not_found)
        if not items and not ignore_not_found:
            errors.write_line(scope.empty)
        if file:
            items.reverse()  # Dependents are deleted before their dependencies.
        if not force and not dry_run:
            _confirm(api, items)
        deadline_s = api.clock.monotonic() + longest_s
        for one in items:
            plural = kinds.named(one["kind"]).plural
            _delete(api, plural, one, dry_run=dry_run)
            print(f"{one['kind']} {one['metadata']['name']} deleted{' (dry run)' * dry_run}")
            if wait and not dry_run and one["metadata"].get("finalizers"):
                left_s = max(deadline_s - api.clock.monotonic(), 0.0)
                api.wait_deleted(plural, one, left_s)


def _delete(api: "Api", plural: str, one: Document, *, dry_run: bool) -> None:
    metadata = one["metadata"]
    api.delete(plural, metadata.get("namespace", ""), metadata["name"], dry_run=dry_run)


def _confirm(api: "Api", items: list[Document]) -> None:
    """Ask for confirmation if addresses, spaces or namespaces of the list have stored messages.

    Raises: Conflict if there are messages and no terminal.
    """
    from enmasse.base.errors import Code, Conflict
    from enmasse.cli.output.printing import is_interactive, text

    # By namespace, so that the number of requests does not depend on the number of resources.
    homes: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for one in items:
        metadata = one["metadata"]
        homes[metadata.get("namespace") or metadata["name"]].add((one["kind"], metadata["name"]))
    for namespace, deletions in homes.items():
        if not {kind for kind, _ in deletions} & {"Address", "AddressSpace", "Namespace"}:
            continue
        for one in api.list("addresses", namespace, statistics=True)["items"]:
            name = one["metadata"]["name"]
            owners = {("Namespace", namespace), ("Address", name)}
            owners.add(("AddressSpace", name.partition(".")[0]))
            count = one.get("status", {}).get("statistics", {}).get("stored", {}).get("messages", 0)
            if count == 0 or not owners & deletions:
                continue
            holds = f"{one['spec']['address']} holds {text(count)} messages"
            if not is_interactive():
                raise Conflict(Code.MESSAGES_STORED, f"{holds}; add --force to delete them too")
            typer.confirm(f"{holds}. Delete them too?", abort=True)
