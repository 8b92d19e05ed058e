"""Counts for the first page of the console, in one pass over the resources per sample."""

import asyncio
import base64
import heapq
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

from cryptography import x509
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.access.reviews import CALLER
from enmasse.api.live.members import spaces_within
from enmasse.api.live.values import address_values, totals
from enmasse.api.monitoring.samples import Sample
from enmasse.api.platform import Platform
from enmasse.auth.roles import GROUP, Attributes
from enmasse.base.clock import rfc3339
from enmasse.resources import Address, AddressSpace, MessagingUser, Pipeline, Resource
from enmasse.resources.model import Declared

NOT_READY_MAX = 100
TOP_MAX = 10
TOP_KEYS = ("stored", "storedBytes", "enqueuedRate", "deliveredRate", "oldestAge")
EXPIRES_WITHIN = timedelta(days=30)
"""Certificates with an earlier expiry are listed."""

Document = dict[str, Any]


class OverviewPages:
    """GET on `overview`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._counting = asyncio.Lock()

    async def overview(self, request: Request) -> Response:
        """Counts, what is not ready, and the addresses with the highest values."""
        namespace = request.path_params.get("namespace")
        sample = await self._platform.statistics.shared.recent()
        document = await self._counts(sample, namespace)
        if namespace is None and request.scope[CALLER].may(Attributes("list", GROUP, "logs")):
            document = document | {"node": self._node(sample)}
        return JSONResponse(document)

    async def _counts(self, sample: Sample, namespace: str | None) -> Document:
        """Return the counts, which all readers of a sample share."""
        name = f"overview {namespace}"
        async with self._counting:
            if name not in sample.derived:
                listed = self._platform.store.list(None, namespace)
                # In a thread: with many addresses it takes longer than a request may wait.
                found = await asyncio.to_thread(counts, sample, listed)
                spaces = spaces_within(sample, self._platform.store, namespace)
                found["totals"] = totals(sample, spaces)
                soon = rfc3339(self._platform.clock.now() + EXPIRES_WITHIN)
                found["certificates"] = list(_expiring(spaces, soon))[:NOT_READY_MAX]
                sample.derived[name] = found
        document = sample.derived[name]
        assert isinstance(document, dict)
        return document

    def _node(self, sample: Sample) -> Document:
        observed, data = sample.now.observed, self._platform.data()
        disk = None
        if data is not None:
            usage = shutil.disk_usage(data.path)
            disk = {"freeBytes": usage.free, "sizeBytes": usage.total}
        journal = observed.journal
        return {
            "workers": [
                {"busy": one.busy_permille / 1000, "connections": one.connections}
                for one in observed.workers
            ],
            "journal": journal
            and {
                "usedBytes": journal.used_bytes,
                "aliveBytes": journal.alive_bytes,
                "stopped": journal.stopped,
                "unreadable": journal.unreadable,
            },
            "disk": disk,
            "connections": observed.connections,
            "problem": self._platform.engine.problem(),
        }


def counts(sample: Sample, resources: Sequence[Resource]) -> Document:
    """Return the counts of resources. Pure."""
    addresses = [one for one in resources if isinstance(one, Address)]
    spaces = [one for one in resources if isinstance(one, AddressSpace)]
    users = sum(isinstance(one, MessagingUser) for one in resources)
    return {
        "time": sample.time,
        "addressSpaces": {"total": len(spaces), "ready": _ready(spaces)},
        "users": {"total": users},
        "addresses": {
            "total": len(addresses),
            "ready": _ready(addresses),
            "byType": dict(Counter(one.spec.type for one in addresses)),
            "byPhase": dict(Counter(one.status.phase for one in addresses)),
        },
        "notReady": _not_ready(resources),
        "top": {key: _top(sample, addresses, key) for key in TOP_KEYS},
    }


def _ready(resources: Iterable[Declared]) -> int:
    return sum(one.status.is_ready for one in resources)


def _not_ready(resources: Iterable[Resource]) -> list[Document]:
    """Return what the platform has not made ready."""
    found: list[Document] = []
    for one in resources:
        if not isinstance(one, Declared) or one.status.is_ready or _is_only_stored(one):
            continue
        found.append(
            {
                "kind": one.kind,
                "namespace": one.metadata.namespace,
                "name": one.metadata.name,
                "phase": one.status.phase,
                "messages": list(one.status.messages),
            }
        )
        if len(found) == NOT_READY_MAX:
            break
    return found


def _is_only_stored(resource: Declared) -> bool:
    """Whether it is a pipeline that is kept: the platform stores pipelines and runs none."""
    return isinstance(resource, Pipeline) and not resource.is_terminating


def _top(sample: Sample, addresses: Sequence[Address], key: str) -> list[Document]:
    values = address_values(sample, key)
    valued = (
        (number, one) for one in addresses if (number := values.get(one.metadata.uid or "", 0)) > 0
    )
    highest = heapq.nlargest(TOP_MAX, valued, key=lambda pair: pair[0])
    return [
        {"namespace": one.metadata.namespace, "name": one.metadata.name, "value": number}
        for number, one in highest
    ]


def _expiring(spaces: Sequence[AddressSpace], soon: str) -> Iterator[Mapping[str, str]]:
    for one in spaces:
        ends = [
            end
            for endpoint in one.status.endpoint_statuses or ()
            if endpoint.cert and (end := _expiry(endpoint.cert)) is not None
        ]
        if ends and min(ends) < soon:
            yield {
                "namespace": one.metadata.namespace,
                "space": one.metadata.name,
                "expires": min(ends),
            }


@lru_cache(maxsize=4096)
def _expiry(encoded: str) -> str | None:
    """Return the expiry of a certificate in base64 of PEM; None if it is unreadable."""
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(encoded))
    except ValueError:
        return None
    return rfc3339(certificate.not_valid_after_utc)
