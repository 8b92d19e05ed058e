"""`enmasse get`: show resources, their readiness and their traffic."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options.invocation import Listing
from enmasse.cli.options.shared import AllNamespaces, Fields, IgnoreMissing, Labels, Words

if TYPE_CHECKING:
    from enmasse.base.errors import Missing
    from enmasse.cli.connect.client import Api
    from enmasse.cli.output.formats import Form
    from enmasse.cli.resources.targets import Named, Scope

Document = dict[str, Any]

CONNECTIONS = ("connection", "connections")
RETAINED = ("retained",)
SESSIONS = ("session", "sessions")
"""Words for what is no resource."""


def get(
    words: Words = None,
    all_namespaces: AllNamespaces = False,
    selector: Labels = None,
    field_selector: Fields = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Then print every change until Ctrl-C.")
    ] = False,
    watch_only: Annotated[
        bool, typer.Option("--watch-only", help="Print changes only, until Ctrl-C.")
    ] = False,
    ignore_not_found: IgnoreMissing = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Omit the headings.")] = False,
    *,
    call: Listing,
) -> None:
    """Show resources of any kind, or `connections`, `retained` messages or MQTT `sessions`.

    Numbers of connections are arguments of `enmasse trace`.

    Addresses are shown with live senders, receivers, stored messages and rates; OLDEST is the age
    of the oldest available message. Rates are messages per second sent to receivers. In JSON and
    YAML the statistics are in status.statistics. Passwords are never shown.

    Examples:

      enmasse get addresses

      enmasse get address/orders addressspace/default -o yaml

      enmasse get addresses,users -A -l team=north -o name

      enmasse get addresses -o jsonpath='{.items[*].spec.address}'

      enmasse get address orders -w

      enmasse get retained 'sensors/#'
    """
    from enmasse.cli.output.formats import form
    from enmasse.cli.resources.targets import NO_TARGET, Scope, named

    how = form(call.output)
    wanted_words = words or []
    if not wanted_words:
        raise typer.BadParameter(NO_TARGET, param_hint="KIND")
    where = None if all_namespaces else call.namespace
    scope = Scope(where, call.space, selector, field_selector)
    word = wanted_words[0].lower()
    is_resource = word not in (*CONNECTIONS, *RETAINED, *SESSIONS)
    wanted = named(wanted_words) if is_resource else []
    with call.api() as api:
        if word in CONNECTIONS:
            _print(_connections(api, how), no_headers=no_headers)
        elif word in RETAINED:
            topics = wanted_words[1] if len(wanted_words) > 1 else None
            _print(_retained(api, call, topics, how), no_headers=no_headers)
        elif word in SESSIONS:
            _print(_sessions(api, call, how), no_headers=no_headers)
        elif watch or watch_only:
            _follow(api, wanted, scope, how, watch_only=watch_only)
        else:
            show(api, wanted, scope, how, ignore_missing=ignore_not_found, no_headers=no_headers)


def show(
    api: "Api",
    wanted: "Sequence[Named]",
    scope: "Scope",
    how: "Form",
    *,
    ignore_missing: bool = False,
    no_headers: bool = False,
) -> None:
    """Print the resources of the requested kinds and names.

    Raises: Missing for the first name that does not exist, once the others are printed.
    """
    from enmasse.cli import errors
    from enmasse.cli.output.formats import list_of

    items: dict[str, list[Document]] = {}
    refusals: list[Missing] = []
    # What exists is printed even if other names are missing, as kubectl does.
    for one in wanted:
        found, missing = _select(api, one, scope)
        refusals += missing
        if found or not one.names:
            items.setdefault(one.model.plural, []).extend(found)
    if how.is_table:
        tables = [_table(api, plural, some, scope, how) for plural, some in items.items()]
        _print("\n\n".join(tables) + "\n" if tables else "", no_headers=no_headers)
        if tables and not any(items.values()):
            errors.write_line(scope.empty)
    else:
        every = [one for some in items.values() for one in some]
        is_one = len(every) == 1 and len(wanted) == 1 and len(wanted[0].names) == 1
        if items:
            document = every[0] if is_one else list_of(every)
            print(how.text(document, headings=not no_headers), end="")
    if refusals and not ignore_missing:
        raise refusals[0]


def _print(table: str, *, no_headers: bool) -> None:
    if no_headers:
        blocks = table.split("\n\n")
        table = "\n\n".join(block.partition("\n")[2] for block in blocks)
    print(table, end="")


def _select(api: "Api", wanted: "Named", scope: "Scope") -> "tuple[list[Document], list[Missing]]":
    """Return all resources of a kind, or those with the given names in any space and namespace, and
    an error for each unknown name.
    """
    from enmasse.base.errors import Missing
    from enmasse.cli.resources.names import FIELDS, fetch_by_name, find, with_name
    from enmasse.cli.resources.targets import listed

    model, names = wanted
    is_listed = not names or scope.selects or model.plural in {*FIELDS, "addressspaces"}
    items = listed(api, wanted, scope) if is_listed else []
    if not names:
        return items, []
    found: list[Document] = []
    refusals: list[Missing] = []
    for name in names:
        try:
            if is_listed:
                some = with_name(items, model, name)
                found += some or [find(items, model, name, scope.space or "")]
            else:
                found.append(fetch_by_name(api, model, name, "", scope.namespace or "default"))
        except Missing as error:
            refusals.append(error)
    return found, refusals


def _table(api: "Api", plural: str, items: Sequence[Document], scope: "Scope", how: "Form") -> str:
    from enmasse.cli.output.tables import TABLES, ServerTable
    from enmasse.cli.resources import kinds

    if (own := TABLES.get(plural)) is not None:
        return own.text(items, wide=how.wide)
    model = kinds.named(plural)
    uids = {one["metadata"].get("uid", one["metadata"]["name"]) for one in items}
    table = api.table(model, scope.namespace, scope.selector, scope.fields)
    in_all = model.namespaced and scope.namespace is None
    return ServerTable(wide=how.wide, namespaces=in_all).text(
        table, lambda one: one["metadata"].get("uid", one["metadata"]["name"]) in uids
    )


def _follow(
    api: "Api", wanted: "Sequence[Named]", scope: "Scope", how: "Form", *, watch_only: bool
) -> None:
    """Print the resources of one kind, and each change of them, until Ctrl-C."""
    from enmasse.cli.output.watching import follow

    if len(wanted) != 1 or len(wanted[0].names) > 1:
        raise typer.BadParameter(
            "watch is only supported on individual resources and resource collections: name one"
            " kind, and one name or none",
            param_hint="--watch",
        )
    follow(api, wanted[0], scope, how, watch_only=watch_only)


def _retained(api: "Api", call: Listing, topics: str | None, how: "Form") -> str:
    from enmasse.cli.output.retained import table

    items = list(api.retained(*_space(call), topics))
    return table(items) + "\n" if how.is_table else how.text({"items": items})


def _sessions(api: "Api", call: Listing, how: "Form") -> str:
    from enmasse.cli.output.retained import sessions

    items = list(api.mqtt_sessions(*_space(call)))
    return sessions(items) + "\n" if how.is_table else how.text({"items": items})


def _space(call: Listing) -> tuple[str, str]:
    """Return namespace and name of the requested space, or of the platform's default."""
    from enmasse.cli.connect.default_space import default_home

    namespace, name = default_home(call.data, call.server, call.token_file)
    return call.namespace or namespace, call.space or name


def _connections(api: "Api", how: "Form") -> str:
    from enmasse.cli.output.printing import columns

    document = api.connections()
    if not how.is_table:
        return how.text(document)
    fields = ["id", "space", "user", "container", "peer", "transport", "links"]
    rows = [[one[field] for field in fields] for one in document["items"]]
    return columns([field.upper() for field in fields], rows) + "\n"
