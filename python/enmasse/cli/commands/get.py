"""`enmasse get`: show what is declared, whether it is ready, and what passes through it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.group import Aliases
from enmasse.cli.options import (
    AnyNamespace,
    AnySpace,
    Data,
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
    cls=Aliases, no_args_is_help=True, help="Show addresses, spaces, users or connections."
)

Name = Annotated[str | None, typer.Argument(help="Only this one, by either of its names.")]
Document = dict[str, Any]


@app.command()
def addresses(
    name: Name = None,
    space: AnySpace = None,
    namespace: AnyNamespace = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every second until Ctrl-C.")
    ] = False,
    output: OutputForm = Output.TABLE,
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
        figures = one["status"].get("statistics", {})
        return [
            called(one, "address")[0],
            one["spec"]["type"],
            *_whose(one),
            _state(one),
            *(figures.get(name) for name in ("senders", "receivers", "waiting")),
            *_at_rest(one["spec"]["type"], figures.get("stored", {})),
            figures.get("deliveredPerSecond"),
            figures.get("delivered"),
        ]

    headings = "ADDRESS TYPE SPACE NAMESPACE STATUS SENDERS RECEIVERS WAITING STORED OLDEST"
    headings += " RATE DELIVERED"
    listing = _Listing("addresses", "address", headings.split(), row)
    listing.show(name, space, namespace, output, (data, server, token_file), watch=watch)


@app.command()
def addressspaces(
    name: Name = None,
    namespace: AnyNamespace = None,
    output: OutputForm = Output.TABLE,
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
        return [*_whose(one), one["spec"]["type"], authentication, _state(one)]

    headings = ["SPACE", "NAMESPACE", "TYPE", "AUTHENTICATION", "STATUS"]
    listing = _Listing("addressspaces", None, headings, row)
    listing.show(name, None, namespace, output, (data, server, token_file))


@app.command()
def users(
    name: Name = None,
    space: AnySpace = None,
    namespace: AnyNamespace = None,
    output: OutputForm = Output.TABLE,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Show users and what they may do. Passwords are never shown.

    Example: enmasse get users --space shop
    """

    def row(one: Document) -> list[object]:
        allowed = "; ".join(
            f"{','.join(part['operations'])} {' '.join(part['addresses']) or 'everywhere'}"
            for part in one["spec"].get("authorization", [])
        )
        return [one["spec"]["username"], *_whose(one), _state(one), allowed or "nothing"]

    headings = ["USER", "SPACE", "NAMESPACE", "STATUS", "MAY"]
    listing = _Listing("messagingusers", "username", headings, row)
    listing.show(name, space, namespace, output, (data, server, token_file))


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
    ) -> None:
        self._plural = plural
        self._field = field
        self._headings = headings
        self._row = row

    def show(
        self,
        name: str | None,
        space: str | None,
        namespace: str | None,
        output: Output,
        place: tuple[Data, ServerUrl, TokenFile],
        *,
        watch: bool = False,
    ) -> None:
        """Print what is there once, or again and again."""
        from enmasse.cli.client import Api
        from enmasse.cli.output import repeat, show

        with Api.find(*place) as api:

            def items() -> Document:
                return self._items(api, name, space, namespace)

            if watch:
                repeat(lambda: self._text(items()), REFRESH_S)
            document = items()
            show(document, output, lambda: self._text(document))

    def _text(self, document: Document) -> str:
        from enmasse.cli.output import columns

        return columns(self._headings, [self._row(one) for one in document["items"]])

    def _items(
        self, api: "Api", name: str | None, space: str | None, namespace: str | None
    ) -> Document:
        from enmasse.base.errors import Code, Missing
        from enmasse.cli.names import KINDS

        document = api.list(self._plural, namespace, statistics=self._plural == "addresses")
        document["items"] = [one for one in document["items"] if self._is_meant(one, name, space)]
        if name and not document["items"]:
            where = f" in address space {space!r}" if space else ""
            kind = KINDS[self._field or ""]
            raise Missing(Code.RESOURCE_MISSING, f"there is no {kind} {name!r}{where}")
        return document

    def _is_meant(self, one: Document, name: str | None, space: str | None) -> bool:
        from enmasse.cli.names import called

        own = one["metadata"]["name"]
        names = {own, own.partition(".")[2], *(called(one, self._field) if self._field else ())}
        return name in {None, *names} and space in {None, own.partition(".")[0]}


def _whose(one: Document) -> tuple[str, str]:
    return one["metadata"]["name"].partition(".")[0], one["metadata"]["namespace"]


def _state(one: Document) -> str:
    status = one["status"]
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
