"""`enmasse get`: show what is declared, whether it is ready, and what passes through it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.group import Aliases
from enmasse.cli.options import (
    AnyNamespace,
    AnySpace,
    Data,
    Kind,
    Labels,
    Listing,
    ListingForm,
    Output,
    OutputForm,
    ServerUrl,
    TokenFile,
)

if TYPE_CHECKING:
    from enmasse.cli.client import Api

REFRESH_S = 1.0
"""Time between two pictures of `--watch`."""

app = typer.Typer(
    cls=Aliases,
    no_args_is_help=True,
    help="Show what is declared. Every other kind works as these do: enmasse get addressplans.",
)

Name = Annotated[str | None, typer.Argument(help="Only this one, by either of its names.")]
Document = dict[str, Any]
Place = tuple[Data, ServerUrl, TokenFile]
Asked = tuple[str | None, str | None, str | None, str | None]
"""Name, address space, namespace and labels, each of them None for any."""


@app.command()
def addresses(
    name: Name = None,
    space: AnySpace = None,
    namespace: AnyNamespace = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every second until Ctrl-C.")
    ] = False,
    selector: Labels = None,
    output: ListingForm = Listing.TABLE,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show addresses with their live senders, receivers, stored messages and rates.

    OLDEST is how long the oldest message that can be had is there. Rates are messages a second
    handed to receivers. In JSON and YAML the figures are in
    status.statistics.

    Examples:

      enmasse get addresses --watch

      enmasse get addresses orders --output json
    """

    from enmasse.cli.names import called

    def row(one: Document) -> list[object]:
        figures = one.get("status", {}).get("statistics", {})
        return [
            called(one, "address")[0],
            one["spec"]["type"],
            *_whose(one),
            _state(one),
            *(figures.get(name) for name in ("senders", "receivers", "waiting")),
            *_at_rest(one["spec"]["type"], figures.get("stored", {})),
            figures.get("deliveredPerSecond"),
            figures.get("delivered"),
            *(one["spec"].get(field) for field in ("plan", "topic", "deadletter", "expiry")),
        ]

    headings = "ADDRESS TYPE SPACE NAMESPACE STATUS SENDERS RECEIVERS WAITING STORED OLDEST"
    headings += " RATE DELIVERED PLAN TOPIC DEADLETTER EXPIRY"
    listing = _Listing("addresses", "address", headings.split(), row, hidden=4)
    asked = (name, space, namespace, selector)
    listing.show(asked, output, (data, server, token_file), watch=watch)


@app.command()
def addressspaces(
    name: Name = None,
    namespace: AnyNamespace = None,
    selector: Labels = None,
    output: ListingForm = Listing.TABLE,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show address spaces.

    Example: enmasse get addressspaces
    """

    def row(one: Document) -> list[object]:
        service = one["spec"].get("authenticationService", {})
        authentication = service.get("name") or service.get("type") or "by users"
        plan = one["spec"].get("plan")
        return [*_whose(one), one["spec"]["type"], authentication, _state(one), plan]

    headings = ["SPACE", "NAMESPACE", "TYPE", "AUTHENTICATION", "STATUS", "PLAN"]
    listing = _Listing("addressspaces", None, headings, row, hidden=1)
    listing.show((name, None, namespace, selector), output, (data, server, token_file))


@app.command()
def users(
    name: Name = None,
    space: AnySpace = None,
    namespace: AnyNamespace = None,
    selector: Labels = None,
    output: ListingForm = Listing.TABLE,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show users and what they may do. Passwords are never shown.

    Example: enmasse get users --space shop
    """

    show_users(name, space, namespace, selector, output, (data, server, token_file))


def show_users(
    name: str | None,
    space: str | None,
    namespace: str | None,
    selector: str | None,
    output: Listing,
    place: Place,
) -> None:
    """Print users and what they may do."""

    def row(one: Document) -> list[object]:
        allowed = "; ".join(
            f"{','.join(part['operations'])} {' '.join(part['addresses']) or 'everywhere'}"
            for part in one["spec"].get("authorization", [])
        )
        return [one["spec"]["username"], *_whose(one), _state(one), allowed or "nothing"]

    headings = ["USER", "SPACE", "NAMESPACE", "STATUS", "MAY"]
    listing = _Listing("messagingusers", "username", headings, row)
    listing.show((name, space, namespace, selector), output, place)


@app.command()
def resources(
    kind: Kind,
    name: Name = None,
    namespace: AnyNamespace = None,
    selector: Labels = None,
    output: ListingForm = Listing.TABLE,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show resources of any kind. The word `resources` may be left out.

    Examples:

      enmasse get resources addressplans

      enmasse get addressspaceplans standard-small --output yaml
    """
    from enmasse.cli import kinds
    from enmasse.cli import output as printing
    from enmasse.cli.client import Api
    from enmasse.cli.names import looked_up

    model = kinds.named(kind)
    with Api.find(data, server, token_file) as api:
        if name is not None:
            document = looked_up(api, model, name, "", namespace or "default")
            where = document["metadata"].get("namespace")
            table = api.table(model, where, name) if output in _TABLES else {}
        else:
            document = api.list(model.plural, namespace, selector=selector)
            table = api.table(model, namespace, None, selector) if output in _TABLES else {}
    in_all = model.namespaced and namespace is None
    printing.show_listed(
        document,
        output,
        lambda wide: printing.server_table(table, wide=wide, namespaces=in_all),
    )


_TABLES = (Listing.TABLE, Listing.WIDE)


@app.command()
def connections(
    output: OutputForm = Output.TABLE,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show open connections. Their numbers are what `enmasse trace` takes.

    Example: enmasse get connections
    """
    from enmasse.cli.client import Api
    from enmasse.cli.output import columns, show

    with Api.find(data, server, token_file) as api:
        document = api.connections()
    fields = ["id", "space", "user", "container", "peer", "transport", "links"]
    rows = [[one[field] for field in fields] for one in document["items"]]
    show(document, output, lambda: columns([field.upper() for field in fields], rows))


class _Listing:
    """How one kind is listed."""

    def __init__(
        self,
        plural: str,
        field: str | None,
        headings: list[str],
        row: Callable[[Document], list[object]],
        hidden: int = 0,
    ) -> None:
        """`hidden`: how many of the last columns are only in the wide form."""
        self._plural = plural
        self._field = field
        self._headings = headings
        self._row = row
        self._narrow = len(headings) - hidden

    def show(self, asked: Asked, output: Listing, place: Place, *, watch: bool = False) -> None:
        """Print what is there once, or again and again."""
        from enmasse.cli.client import Api
        from enmasse.cli.output import repeat, show_listed

        with Api.find(*place) as api:
            if watch:
                wide = output is Listing.WIDE
                repeat(lambda: self._text(self._items(api, asked), wide), REFRESH_S)
            document = self._items(api, asked)
            show_listed(document, output, lambda wide: self._text(document, wide))

    def _text(self, document: Document, wide: bool) -> str:
        from enmasse.cli.output import columns

        width = len(self._headings) if wide else self._narrow
        rows = [self._row(one)[:width] for one in document["items"]]
        return columns(self._headings[:width], rows)

    def _items(self, api: "Api", asked: Asked) -> Document:
        from enmasse.cli.names import find

        name, space, namespace, selector = asked
        figures = self._plural == "addresses"
        document = api.list(self._plural, namespace, statistics=figures, selector=selector)
        listed = document["items"]
        document["items"] = [one for one in listed if self._is_meant(one, name, space)]
        if name and not document["items"]:
            find(listed, self._field or "", name, space or "")
        return document

    def _is_meant(self, one: Document, name: str | None, space: str | None) -> bool:
        from enmasse.cli.names import called

        own = one["metadata"]["name"]
        names = {own, own.partition(".")[2], *(called(one, self._field) if self._field else ())}
        return name in {None, *names} and space in {None, own.partition(".")[0]}


def _whose(one: Document) -> tuple[str, str]:
    return one["metadata"]["name"].partition(".")[0], one["metadata"]["namespace"]


def _state(one: Document) -> str:
    status = one.get("status", {})
    if status.get("isReady"):
        return "Active"
    return ": ".join([status.get("phase", "Pending"), *status.get("messages", [])])


def _at_rest(kind: str, stored: dict[str, Any]) -> tuple[int | None, str | None]:
    """How many messages an address stores, and the age of the oldest."""
    from enmasse.resources.address_rules import STORED

    if kind not in STORED:
        return None, None
    return stored.get("messages"), _age(stored.get("oldestAgeSeconds") or 0.0)


def _age(seconds: float) -> str | None:
    if seconds <= 0:
        return None
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds // length_s:.0f}{unit}"
    return f"{seconds:.0f}s"
