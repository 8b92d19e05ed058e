"""Lists of addresses and spaces in the order of a value.

The whole list is sorted once per sample and state of the store, and shared by all who ask for the
same one. Large lists are sorted in a thread, so that other requests do not wait.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from enmasse.api.live.values import is_live, sort_keys, sort_value
from enmasse.api.monitoring.samples import Sample, Samples
from enmasse.api.resources.queries import ListQuery
from enmasse.base.errors import Code, Fault, Invalid
from enmasse.resources import Resource
from enmasse.store import Store

VIEWS_MAX = 64
"""Maximum sorted lists in memory; the least recently used is dropped."""

AT_ONCE_MAX = 2_000
"""Maximum resources that are sorted on the event loop."""


class View(NamedTuple):
    """A sorted list."""

    resources: Sequence[Resource]
    version: int
    """The version of the store."""

    sample: Sample | None
    """The sample whose values sorted it; None for keys that need none."""


class _Scope(NamedTuple):
    kind: str
    namespace: str | None
    selectors: tuple[str, str]
    contains: str
    sort_by: str
    version: int
    sample: int


class Ordering:
    """Sorted lists of one store."""

    def __init__(self, store: Store, samples: Samples) -> None:
        self._store = store
        self._samples = samples
        self._views: OrderedDict[_Scope, View] = OrderedDict()
        self._sorting = asyncio.Lock()

    async def view(self, model: type[Resource], namespace: str | None, query: ListQuery) -> View:
        """Return the list of a query in its order.

        Raises: Invalid for an unknown key.
        """
        key = query.sort_by.removeprefix("-")
        check_key(model, key)
        sample = await self._samples.recent() if is_live(key) else None
        async with self._sorting:
            scope = _Scope(
                model.__name__,
                namespace,
                query.selectors,
                query.contains,
                query.sort_by,
                self._store.version,
                sample.number if sample is not None else 0,
            )
            if (found := self._views.get(scope)) is not None:
                self._views.move_to_end(scope)
                return found
            view = View(await self._sorted(scope, query, sample), scope.version, sample)
            self._views[scope] = view
            while len(self._views) > VIEWS_MAX:
                self._views.popitem(last=False)
            return view

    async def _sorted(
        self, scope: _Scope, query: ListQuery, sample: Sample | None
    ) -> Sequence[Resource]:
        listed = self._store.list(scope.kind, scope.namespace)

        def sort() -> Sequence[Resource]:
            selected = [one for one in listed if query.selects(one)]
            # Stable in both directions: equal values stay in the order of namespace and name.
            value = sort_value(scope.sort_by.removeprefix("-"), sample)
            return sorted(selected, key=value, reverse=scope.sort_by.startswith("-"))

        return sort() if len(listed) <= AT_ONCE_MAX else await asyncio.to_thread(sort)


def check_key(model: type[Resource], key: str) -> None:
    """Check a sort key.

    Raises: Invalid naming the known ones.
    """
    known = sort_keys(model)
    if key not in known:
        of = f"must be one of {', '.join(known)}" if known else f"is not for {model.plural}"
        fault = Fault("sortBy", of)
        raise Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])
