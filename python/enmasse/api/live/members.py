"""Declared spaces and addresses at the time of a sample, found once for all readers of it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

from enmasse.api.monitoring.samples import Sample
from enmasse.resources import AddressSpace
from enmasse.store import Store


def spaces_within(sample: Sample, store: Store, namespace: str | None) -> Sequence[AddressSpace]:
    """Return the spaces of a namespace; None: of all."""
    by_namespace = sample.derived.get("spaces")
    if by_namespace is None:
        found: defaultdict[str | None, list[AddressSpace]] = defaultdict(list)
        for one in store.list("AddressSpace"):
            if isinstance(one, AddressSpace):
                found[one.metadata.namespace].append(one)
                found[None].append(one)
        by_namespace = sample.derived["spaces"] = dict(found)
    known = cast(Mapping[str | None, Sequence[AddressSpace]], by_namespace)
    return known.get(namespace, ())
