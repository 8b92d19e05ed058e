"""Prints changes for `enmasse get --watch`."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from enmasse.base.errors import Code, EnMasseError
from enmasse.cli.output.tables import ServerTable
from enmasse.cli.resources.names import find, is_in_space, with_name
from enmasse.cli.resources.targets import listed

if TYPE_CHECKING:
    from enmasse.cli.connect.client import Api
    from enmasse.cli.output.formats import Form
    from enmasse.cli.resources.targets import Named, Scope

Document = dict[str, Any]


def follow(api: "Api", wanted: "Named", scope: "Scope", how: "Form", *, watch_only: bool) -> None:
    """Print the resources of a kind, then every change, until interrupted.

    A watch that the server ends resumes at its last version, or lists again if that has been
    compacted. A name is followed in each space where it existed at the start.

    Raises: Missing if the name does not exist.
    """
    model, names = wanted.model, None
    if wanted.names:
        items = listed(api, wanted, scope)
        is_selected = with_name(items, model, wanted.names[0])
        is_selected = is_selected or [find(items, model, wanted.names[0], scope.space or "")]
        names = {one["metadata"]["name"] for one in is_selected}
        # The server filters a single name; several are filtered here.
        if len(names) == 1:
            scope = scope._replace(fields=f"metadata.name={next(iter(names))}")
    print_change = _printer(wanted, scope, how, names)
    where = (scope.namespace, scope.selector, scope.fields)
    version = None
    while True:
        try:
            if version is None:
                initial = api.table(model, *where) if how.is_table else _list(api, wanted, scope)
                version = initial["metadata"]["resourceVersion"]
                if not watch_only:
                    for one in [initial] if how.is_table else initial["items"]:
                        print_change(one)
            for event in api.watch(model, *where, version=version, as_table=how.is_table):
                version = _version(event["object"]) or version
                if event["type"] != "BOOKMARK":
                    print_change(event["object"])
        except EnMasseError as error:
            if error.code != Code.VERSION_EXPIRED:
                raise
            version = None


def _list(api: "Api", wanted: "Named", scope: "Scope") -> Document:
    return api.list(
        wanted.model.plural, scope.namespace, selector=scope.selector, fields=scope.fields
    )


def _printer(
    wanted: "Named", scope: "Scope", how: "Form", names: Collection[str] | None
) -> Callable[[Document], None]:
    rows = ServerTable(
        wide=how.wide, namespaces=wanted.model.namespaced and scope.namespace is None
    )

    def is_selected(one: Document) -> bool:
        if names is not None and one["metadata"]["name"] not in names:
            return False
        return scope.space is None or is_in_space(wanted.model, one, scope.space)

    def print_change(document: Document) -> None:
        if how.is_table:
            if rows_text := rows.text(document, is_selected):
                print(rows_text, flush=True)
        elif is_selected(document):
            print(how.text(document), end="", flush=True)

    return print_change


def _version(document: Document) -> str | None:
    """Return the version of a resource or table row."""
    rows = document.get("rows")
    metadata = rows[0]["object"]["metadata"] if rows else document.get("metadata", {})
    found: str | None = metadata.get("resourceVersion")
    return found
