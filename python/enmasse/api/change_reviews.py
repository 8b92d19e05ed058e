"""POST on `changereviews`: what a change of an operator's resource would change for tenants."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.http.bodies import object_body
from enmasse.api.platform import Platform
from enmasse.base.errors import Code, Fault, Invalid
from enmasse.plan.impact import Affected, impact_of, resources_for
from enmasse.resources import (
    API_VERSION,
    AddressPlan,
    AddressSpacePlan,
    AuthenticationService,
    BrokeredInfraConfig,
    StandardInfraConfig,
    parse,
)

LISTED_MAX = 200
"""Maximum addresses, and spaces, in an answer; `total` has the number of all."""

KINDS = (
    *(AddressPlan, AddressSpacePlan, StandardInfraConfig, BrokeredInfraConfig),
    AuthenticationService,
)


class ChangeReviews:
    """Answers what a document would change, without changing anything."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._working = asyncio.Lock()
        """One review at a time: of many addresses it takes seconds of a core."""

    async def review(self, request: Request) -> Response:
        """Return the impact of a document that may be written."""
        document = await object_body(request)
        changed = parse(document)
        if not isinstance(changed, KINDS):
            fault = Fault("kind", f"must be one of {', '.join(one.__name__ for one in KINDS)}")
            raise Invalid(Code.FIELD_INVALID, str(fault), faults=[fault])
        admission, store = self._platform.admission, self._platform.store
        await store.refresh()
        is_new = store.get(changed.key) is None
        # Refuses what the write would refuse.
        await (admission.create if is_new else admission.replace)(changed, dry_run=True)
        async with self._working:
            resources = resources_for(admission.declared.current(), changed)
            compute = partial(impact_of, resources, changed, exposed=admission.exposed)
            found = await asyncio.to_thread(compute)
        return JSONResponse(
            {
                "kind": "ChangeReview",
                "apiVersion": API_VERSION,
                "resource": {
                    "kind": changed.key.kind,
                    "namespace": changed.key.namespace,
                    "name": changed.key.name,
                },
                "isNew": is_new,
                "addressSpaces": _listed(found.spaces),
                "addresses": _listed(found.addresses),
            }
        )


def _listed(affected: Sequence[Affected]) -> dict[str, Any]:
    return {
        "total": len(affected),
        "items": [
            {
                "namespace": one.key.namespace,
                "resource": one.key.name,
                "name": one.name,
                "changes": [change._asdict() for change in one.changes],
            }
            for one in affected[:LISTED_MAX]
        ],
    }
