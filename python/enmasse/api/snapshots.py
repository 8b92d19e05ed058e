"""Lists in pages: what a list was when its first page was read, until the last page has been."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from enmasse.base.errors import Code, Conflict, Fault, Invalid
from enmasse.base.ids import new_token
from enmasse.resources import Resource

SNAPSHOTS_MAX = 32
"""Lists read in pages at one time; the one that was read longest ago goes. Resources are shared
between them, so that one costs 8 bytes a resource."""


class Page(NamedTuple):
    """A part of a list."""

    version: int
    """The version of the store that the whole list is of."""

    resources: Sequence[Resource]
    continue_: str
    """What the next page is asked for with; empty on the last."""

    remaining: int


class Snapshots:
    """The lists that are being read."""

    def __init__(self, maximum: int = SNAPSHOTS_MAX) -> None:
        self._maximum = maximum
        self._kept: OrderedDict[str, tuple[int, Sequence[Resource]]] = OrderedDict()

    def first(self, version: int, resources: Sequence[Resource], limit: int) -> Page:
        """Return the first page of a list; 0 is no limit."""
        if limit == 0 or len(resources) <= limit:
            return Page(version, resources, "", 0)
        name = new_token()
        self._kept[name] = (version, resources)
        while len(self._kept) > self._maximum:
            self._kept.popitem(last=False)
        return self._page(name, 0, limit)

    def next(self, continue_: str, limit: int) -> Page:
        """Return the page that `continue_` of the one before stands for.

        Raises: Conflict if the list is no longer kept; Invalid if it is no such value.
        """
        start, _, name = continue_.partition(".")
        if not start.isdecimal() or not start.isascii() or len(start) > 18 or not name:
            fault = Fault("continue", "is not what an earlier page gave")
            raise Invalid(Code.REQUEST_INVALID, str(fault), faults=[fault])
        if name not in self._kept:
            raise Conflict(
                Code.VERSION_EXPIRED,
                "the rest of this list is no longer kept; begin the list anew, without `continue`",
            )
        self._kept.move_to_end(name)
        return self._page(name, int(start), limit)

    def _page(self, name: str, start: int, limit: int) -> Page:
        version, resources = self._kept[name]
        end = start + limit if limit else len(resources)
        remaining = max(len(resources) - end, 0)
        return Page(version, resources[start:end], f"{end}.{name}" if remaining else "", remaining)
