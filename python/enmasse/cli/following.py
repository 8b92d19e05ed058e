"""Resources as they change: what `enmasse get --watch` prints."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from enmasse.base.errors import Code, EnMasseError
from enmasse.cli.names import find, in_its_space
from enmasse.cli.tables import ServerTable
from enmasse.cli.targets import listed

if TYPE_CHECKING:
    from enmasse.cli.client import Api
    from enmasse.cli.forms import Form
    from enmasse.cli.targets import Named, Scope

Document = dict[str, Any]


def follow(api: "Api", wanted: "Named", scope: "Scope", how: "Form", *, watch_only: bool) -> None:
    """Print what is there of a kind, and then each change, until the command is interrupted.

    A watch that the server ends begins again where it ended; where that is too long ago, with all
    there is.

    Raises: Missing for a name that is not there.
    """
    model = wanted.model
    if wanted.names:
        items = listed(api, wanted, scope)
        one = find(items, model, wanted.names[0], scope.space or "")
        scope = scope._replace(fields=f"metadata.name={one['metadata']['name']}")
    tell = _teller(wanted, scope, how)
    where = (scope.namespace, scope.selector, scope.fields)
    version = None
    while True:
        try:
            if version is None:
                there = api.table(model, *where) if how.is_table else _list(api, wanted, scope)
                version = there["metadata"]["resourceVersion"]
                if not watch_only:
                    for one in [there] if how.is_table else there["items"]:
                        tell(one)
            for event in api.watch(model, *where, version=version, as_table=how.is_table):
                version = _version(event["object"]) or version
                if event["type"] != "BOOKMARK":
                    tell(event["object"])
        except EnMasseError as error:
            if error.code != Code.VERSION_EXPIRED:
                raise
            version = None


def _list(api: "Api", wanted: "Named", scope: "Scope") -> Document:
    return api.list(
        wanted.model.plural, scope.namespace, selector=scope.selector, fields=scope.fields
    )


def _teller(wanted: "Named", scope: "Scope", how: "Form") -> Callable[[Document], None]:
    rows = ServerTable(
        wide=how.wide, namespaces=wanted.model.namespaced and scope.namespace is None
    )

    def meant(one: Document) -> bool:
        return scope.space is None or in_its_space(wanted.model, one, scope.space)

    def tell(document: Document) -> None:
        if how.is_table:
            if told := rows.text(document, meant):
                print(told, flush=True)
        elif meant(document):
            print(how.text(document), end="", flush=True)

    return tell


def _version(document: Document) -> str | None:
    """Return the version of a resource or of a row of a table."""
    rows = document.get("rows")
    metadata = rows[0]["object"]["metadata"] if rows else document.get("metadata", {})
    found: str | None = metadata.get("resourceVersion")
    return found
