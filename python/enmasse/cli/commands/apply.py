"""`enmasse apply`: create and change resources from files."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from enmasse.cli.options.invocation import Namespaced
from enmasse.cli.options.shared import Files, Recursive, Wait

if TYPE_CHECKING:
    from enmasse.resources import Resource


def apply(
    context: typer.Context,
    file: Files,
    recursive: Recursive = False,
    wait: Wait = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate only; change nothing.")
    ] = False,
    *,
    call: Namespaced,
) -> None:
    """Add and change the resources of files. Nothing is deleted.

    Dependencies are applied first: spaces, then addresses that others refer to. Resources that are
    in no file stay unchanged.

    Examples:

      enmasse apply -f addresses.yaml

      enmasse apply -f manifests -R --dry-run

      cat addresses.yaml | enmasse apply -f - -n shop
    """
    from enmasse.cli.resources.files import load_files
    from enmasse.resources import in_order

    resources = in_order(load_files(file, recursive=recursive, namespace=call.namespace))
    source = context.get_parameter_source("namespace")
    if source is not None and source.name == "COMMANDLINE":
        _check_namespace(resources, call.namespace)
    with call.api() as api:
        applied = []
        for resource in resources:
            document = resource.document()
            now, change = api.apply(resource.plural, document, dry_run=dry_run)
            print(f"{resource.key} {change}{' (dry run)' if dry_run else ''}")
            applied.append((resource.plural, now))
        if wait and not dry_run:
            for plural, document in applied:
                if "isReady" in document.get("status", {}):
                    api.wait_ready(plural, document)


def _check_namespace(resources: "Sequence[Resource]", namespace: str) -> None:
    """Check that resources are in the requested namespace.

    Raises: Invalid for the first resource in another namespace.
    """
    from enmasse.base.errors import Code, Invalid

    for one in resources:
        own = one.metadata.namespace
        if one.namespaced and not one.unique and own != namespace:
            raise Invalid(
                Code.REQUEST_INVALID,
                f"the namespace from the provided object {own!r} does not match the namespace"
                f" {namespace!r}; you must pass -n {own} to perform this operation",
            )
