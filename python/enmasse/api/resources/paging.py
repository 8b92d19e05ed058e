"""Paged lists: a snapshot from the first page to the last."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, Fault, Invalid
from enmasse.base.ids import new_token
from enmasse.resources import Resource

SNAPSHOTS_MAX = 256
"""Maximum paged lists; the least recently read is evicted. They share resources, so a list takes 8
bytes per resource.
"""

SNAPSHOTS_OF_ONE_MAX = 8
"""Maximum per caller; beyond it the caller's least recently read list is evicted."""


KEPT_S = 300.0
"""Idle time after which a list is dropped: it retains resources that were changed or deleted."""


class ListScope(NamedTuple):
    """The query of a list; a page token is valid only for the same query."""

    caller: str
    kind: str
    namespace: str | None
    """None: all."""

    selectors: tuple[str, str]
    order: tuple[str, str] = ("", "")
    """The sort key and the text that names contain."""


class Page(NamedTuple):
    """One page."""

    version: int
    """The store version of the whole list."""

    resources: Sequence[Resource]
    continue_: str
    """The token of the next page; empty on the last."""

    remaining: int


class _Snapshot(NamedTuple):
    """A whole list."""

    asked: ListScope
    version: int
    resources: Sequence[Resource]
    read_s: float
    """Time of the last read, by the clock."""


class Snapshots:
    """The open lists."""

    def __init__(
        self, clock: Clock, maximum: int = SNAPSHOTS_MAX, of_one: int = SNAPSHOTS_OF_ONE_MAX
    ) -> None:
        self._clock = clock
        self._maximum = maximum
        self._of_one = of_one
        self._kept: OrderedDict[str, _Snapshot] = OrderedDict()
        """By name, least recently read first."""

    def first(
        self,
        asked: ListScope,
        version: int,
        resources: Sequence[Resource],
        limit: int,
        offset: int = 0,
    ) -> Page:
        """Return the first page of a list, after `offset` resources; 0 means unlimited."""
        self._drop_expired()
        if limit == 0 or len(resources) - offset <= limit:
            return Page(version, resources[offset:] if offset else resources, "", 0)
        name = new_token()
        own = [one for one, kept in self._kept.items() if kept.asked.caller == asked.caller]
        if len(own) >= self._of_one:
            del self._kept[own[0]]
        elif len(self._kept) >= self._maximum:
            self._kept.popitem(last=False)
        self._kept[name] = _Snapshot(asked, version, resources, self._clock.monotonic())
        return self._page(name, offset, limit)

    def next(self, asked: ListScope, continue_: str, limit: int) -> Page:
        """Return the page of a `continue` token.

        Raises: Conflict if the list has expired or has another query, indistinguishably; Invalid if
            the token is malformed.
        """
        start, _, name = continue_.partition(".")
        if not start.isdecimal() or not start.isascii() or len(start) > 18 or not name:
            fault = Fault("continue", "is not a continue token")
            raise Invalid(Code.REQUEST_INVALID, str(fault), faults=[fault])
        self._drop_expired()
        if name not in self._kept or self._kept[name].asked != asked:
            raise Conflict(
                Code.VERSION_EXPIRED,
                "continue token expired or not valid for this query; restart"
                " the list without `continue`",
            )
        self._kept[name] = self._kept.pop(name)._replace(read_s=self._clock.monotonic())
        return self._page(name, int(start), limit)

    def _drop_expired(self) -> None:
        oldest_s = self._clock.monotonic() - KEPT_S
        while self._kept and next(iter(self._kept.values())).read_s < oldest_s:
            self._kept.popitem(last=False)

    def _page(self, name: str, start: int, limit: int) -> Page:
        _, version, resources, _ = self._kept[name]
        end = start + limit if limit else len(resources)
        remaining = max(len(resources) - end, 0)
        return Page(version, resources[start:end], f"{end}.{name}" if remaining else "", remaining)
