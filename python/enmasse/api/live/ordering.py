"""Lists of addresses and spaces in the order of a value.

The resources of a query are selected once per state of the store, and sorted once per sample. All
who ask for the same list share both. Large lists are selected and sorted in a thread, so that other
requests do not wait.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from enmasse.api.live.values import is_live, sort_keys, sort_value
from enmasse.api.monitoring.samples import Sample, Samples
from enmasse.api.resources.queries import ListQuery
from enmasse.base.errors import Code, Fault, Invalid
from enmasse.resources import Resource
from enmasse.store import Store

VIEWS_MAX = 64
"""Maximum sorted lists in memory; the least recently used is dropped."""

SELECTIONS_MAX = 16
"""Maximum selections in memory; the least recently used is dropped."""

AT_ONCE_MAX = 2_000
"""Maximum resources that are sorted on the event loop."""


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class View(NamedTuple):
    """A sorted list."""

    resources: Sequence[Resource]
    version: int
    """The version of the store."""

    sample: Sample | None
    """The sample whose values sorted it; None for keys that need none."""


class _Selection(NamedTuple):
    kind: str
    namespace: str | None
    selectors: tuple[str, str]
    contains: str
    version: int


class _Scope(NamedTuple):
    selection: _Selection
    sort_by: str
    sample: int


class Ordering:
    """Sorted lists of one store."""

    def __init__(self, store: Store, samples: Samples) -> None:
        self._store = store
        self._samples = samples
        self._views: OrderedDict[_Scope, View] = OrderedDict()
        self._selected: OrderedDict[_Selection, Sequence[Resource]] = OrderedDict()
        self._sorting = asyncio.Lock()

    async def view(self, model: type[Resource], namespace: str | None, query: ListQuery) -> View:
        """Return the list of a query in its order.

        Raises: Invalid for an unknown key.
        """
        key = query.sort_by.removeprefix("-")
        check_key(model, key)
        sample = await self._samples.recent() if is_live(key) else None
        async with self._sorting:
            selection = _Selection(
                model.__name__, namespace, query.selectors, query.contains, self._store.version
            )
            number = sample.number if sample is not None else 0
            scope = _Scope(selection, query.sort_by, number)
            if (found := self._views.get(scope)) is not None:
                self._views.move_to_end(scope)
                return found
            resources = await self._sorted(model, selection, query, sample)
            view = View(resources, selection.version, sample)
            _keep(self._views, scope, view, VIEWS_MAX)
            return view

    async def _sorted(
        self,
        model: type[Resource],
        selection: _Selection,
        query: ListQuery,
        sample: Sample | None,
    ) -> Sequence[Resource]:
        known = self._selected.get(selection)
        listed = self._store.list(*selection[:2]) if known is None else known

        def sort() -> tuple[Sequence[Resource], Sequence[Resource]]:
            selected = [one for one in listed if query.selects(one)] if known is None else known
            # Stable in both directions: equal values stay in the order of namespace and name.
            value = sort_value(model, query.sort_by.removeprefix("-"), sample)
            return selected, sorted(selected, key=value, reverse=query.sort_by.startswith("-"))

        is_short = len(listed) <= AT_ONCE_MAX
        selected, in_order = sort() if is_short else await asyncio.to_thread(sort)
        _keep(self._selected, selection, selected, SELECTIONS_MAX)
        return in_order


def _keep(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value, maximum: int) -> None:
    """Keep a value as the most recently used, and drop the least recently used beyond a maximum."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > maximum:
        kept.popitem(last=False)


def check_key(model: type[Resource], key: str) -> None:
    """Check a sort key.

    Raises: Invalid naming the known ones.
    """
    known = sort_keys(model)
    if key not in known:
        of = f"must be one of {', '.join(known)}" if known else f"is not for {model.plural}"
        fault = Fault("sortBy", of)
        raise Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])
