"""Lists in pages: what a list was when its first page was read, until the last page has been."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, Fault, Invalid
from enmasse.base.ids import new_token
from enmasse.resources import Resource

SNAPSHOTS_MAX = 256
"""Lists read in pages at one time; the one that was read longest ago goes. Resources are shared
between them, so that one costs 8 bytes a resource."""

SNAPSHOTS_OF_ONE_MAX = 8
"""Of these, those of one caller; of more its own goes that was read longest ago."""


KEPT_S = 300.0
"""How long a list is kept that nobody goes on reading: it holds resources that have changed since
or are gone."""


class Asked(NamedTuple):
    """What a list is of. Only the same is answered with a page of it."""

    caller: str
    kind: str
    namespace: str | None
    """None: all."""

    selectors: tuple[str, str]


class Page(NamedTuple):
    """A part of a list."""

    version: int
    """The version of the store that the whole list is of."""

    resources: Sequence[Resource]
    continue_: str
    """What the next page is asked for with; empty on the last."""

    remaining: int


class _Snapshot(NamedTuple):
    """A whole list."""

    asked: Asked
    version: int
    resources: Sequence[Resource]
    read_s: float
    """When it was read last, by the clock."""


class Snapshots:
    """The lists that are being read."""

    def __init__(
        self, clock: Clock, maximum: int = SNAPSHOTS_MAX, of_one: int = SNAPSHOTS_OF_ONE_MAX
    ) -> None:
        self._clock = clock
        self._maximum = maximum
        self._of_one = of_one
        self._kept: OrderedDict[str, _Snapshot] = OrderedDict()
        """By name, the one read longest ago first."""

    def first(self, asked: Asked, version: int, resources: Sequence[Resource], limit: int) -> Page:
        """Return the first page of a list; 0 is no limit."""
        self._forget()
        if limit == 0 or len(resources) <= limit:
            return Page(version, resources, "", 0)
        name = new_token()
        own = [one for one, kept in self._kept.items() if kept.asked.caller == asked.caller]
        if len(own) >= self._of_one:
            del self._kept[own[0]]
        elif len(self._kept) >= self._maximum:
            self._kept.popitem(last=False)
        self._kept[name] = _Snapshot(asked, version, resources, self._clock.monotonic())
        return self._page(name, 0, limit)

    def next(self, asked: Asked, continue_: str, limit: int) -> Page:
        """Return the page that `continue_` of the one before stands for.

        Raises: Conflict if the list is no longer kept, or is not what is asked for, which is not
            told apart; Invalid if it is no such value.
        """
        start, _, name = continue_.partition(".")
        if not start.isdecimal() or not start.isascii() or len(start) > 18 or not name:
            fault = Fault("continue", "is not what an earlier page gave")
            raise Invalid(Code.REQUEST_INVALID, str(fault), faults=[fault])
        self._forget()
        if name not in self._kept or self._kept[name].asked != asked:
            raise Conflict(
                Code.VERSION_EXPIRED,
                "no rest of this list, of these selectors and for this token, is kept; begin the"
                " list anew, without `continue`",
            )
        self._kept[name] = self._kept.pop(name)._replace(read_s=self._clock.monotonic())
        return self._page(name, int(start), limit)

    def _forget(self) -> None:
        oldest_s = self._clock.monotonic() - KEPT_S
        while self._kept and next(iter(self._kept.values())).read_s < oldest_s:
            self._kept.popitem(last=False)

    def _page(self, name: str, start: int, limit: int) -> Page:
        _, version, resources, _ = self._kept[name]
        end = start + limit if limit else len(resources)
        remaining = max(len(resources) - end, 0)
        return Page(version, resources[start:end], f"{end}.{name}" if remaining else "", remaining)
