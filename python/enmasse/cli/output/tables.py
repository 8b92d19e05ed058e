"""Tables of resources: our own for kinds with statistics or rights, else the server's."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from enmasse.base.kinds import STORED
from enmasse.cli.output.printing import columns
from enmasse.cli.resources.names import client_names

Document = dict[str, Any]


class Table(NamedTuple):
    """Table definition of a kind."""

    headings: Sequence[str]
    row: Callable[[Document], list[Any]]
    hidden: int = 0
    """Number of last columns in the wide table only."""

    def text(self, items: Sequence[Document], *, wide: bool) -> str:
        """Return resources as rows with headings."""
        width = len(self.headings) - (0 if wide else self.hidden)
        return columns(self.headings[:width], [self.row(one)[:width] for one in items])


def _address(one: Document) -> list[Any]:
    statistics = one.get("status", {}).get("statistics", {})
    return [
        client_names(one, "address")[0],
        one["spec"]["type"],
        *_space_and_namespace(one),
        _state(one),
        *(statistics.get(name) for name in ("senders", "receivers", "waiting")),
        *_at_rest(one["spec"]["type"], statistics.get("stored", {})),
        statistics.get("deliveredPerSecond"),
        statistics.get("delivered"),
        *(one["spec"].get(field) for field in ("plan", "topic", "deadletter", "expiry")),
    ]


def _space(one: Document) -> list[Any]:
    service = one["spec"].get("authenticationService", {})
    authentication = service.get("name") or service.get("type") or "by users"
    plan = one["spec"].get("plan")
    return [*_space_and_namespace(one), one["spec"]["type"], authentication, _state(one), plan]


def _user(one: Document) -> list[Any]:
    allowed = "; ".join(
        f"{','.join(part['operations'])} {' '.join(part['addresses']) or 'everywhere'}"
        for part in one["spec"].get("authorization", [])
    )
    return [one["spec"]["username"], *_space_and_namespace(one), _state(one), allowed or "nothing"]


_ADDRESS = (
    "ADDRESS TYPE SPACE NAMESPACE STATUS SENDERS RECEIVERS WAITING STORED OLDEST RATE DELIVERED"
    " PLAN TOPIC DEADLETTER EXPIRY"
)
TABLES = {
    "addresses": Table(_ADDRESS.split(), _address, hidden=4),
    "addressspaces": Table("SPACE NAMESPACE TYPE AUTHENTICATION STATUS PLAN".split(), _space, 1),
    "messagingusers": Table("USER SPACE NAMESPACE STATUS MAY".split(), _user),
}
"""Our tables, by plural."""


class ServerTable:
    """A server-side table, printed incrementally; columns keep their widths."""

    def __init__(self, *, wide: bool, namespaces: bool) -> None:
        """`namespaces`: adds a first column for them."""
        self._wide = wide
        self._namespaces = namespaces
        self._columns: Sequence[Document] = ()
        self._widths: list[int] = []

    def text(self, table: Document, is_selected: Callable[[Document], bool]) -> str:
        """Return the rows of selected resources, with headings the first time."""
        # In a watch only the first table has column definitions.
        is_first = not self._widths
        self._columns = table["columnDefinitions"] or self._columns
        shown = [
            (place, column["name"].upper())
            for place, column in enumerate(self._columns)
            if self._wide or not column.get("priority")
        ]
        headings = ["NAMESPACE"] * self._namespaces + [name for _, name in shown]
        rows = [
            [
                *[row["object"]["metadata"].get("namespace")] * self._namespaces,
                *(_cell(row["cells"][place]) for place, _ in shown),
            ]
            for row in table["rows"]
            if is_selected(row["object"])
        ]
        self._widths = self._widths or [0] * len(headings)
        lines = columns(headings, rows, self._widths).splitlines()
        return "\n".join(lines if is_first else lines[1:])


def _cell(cell: Any) -> Any:
    """Return a cell of a server-side table; a list becomes one text."""
    return "; ".join(map(str, cell)) or None if isinstance(cell, list) else cell


def _space_and_namespace(one: Document) -> tuple[str, str]:
    return one["metadata"]["name"].partition(".")[0], one["metadata"]["namespace"]


def _state(one: Document) -> str:
    status = one.get("status", {})
    if status.get("isReady"):
        return "Active"
    return ": ".join([status.get("phase", "Pending"), *status.get("messages", [])])


def _at_rest(kind: str, stored: dict[str, Any]) -> tuple[int | None, str | None]:
    """Return the stored messages of an address and the age of the oldest."""
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
