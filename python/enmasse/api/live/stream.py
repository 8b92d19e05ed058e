"""Live values as server-sent events (HTML Living Standard, 9.2).

All streams share the samples, and the encoded values of an address in a sample.
"""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from enmasse.api.access.reviews import while_allowed
from enmasse.api.live.members import spaces_within
from enmasse.api.live.values import full_name, live_space, totals
from enmasse.api.monitoring.samples import Sample
from enmasse.api.monitoring.statistics import shown_of
from enmasse.api.platform import Platform
from enmasse.api.resources.queries import flag, number
from enmasse.base.errors import Code, Fault, Invalid
from enmasse.resources import AddressSpace, Key

MEDIA_TYPE = "text/event-stream"
ADDRESSES_MAX = 200
"""Maximum addresses of a stream: a page shows fewer."""

SPACES_MAX = 200
INTERVAL_MIN_S, INTERVAL_MAX_S = 2, 60
SLACK_S = 0.02
"""Time after which the next sample is certainly due."""

SILENCE_MAX_S = 15.0
"""Maximum time without an event or a comment, so that proxies keep the connection."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stream contains."""

    namespace: str | None
    space: str | None
    keys: Sequence[Key]
    with_spaces: bool
    interval_s: int

    @classmethod
    def of(cls, namespace: str | None, parameters: QueryParams) -> "Wanted":
        """Parse the parameters.

        Raises: Invalid if one is malformed.
        """
        names = parameters.getlist("address")
        if len(names) > ADDRESSES_MAX:
            raise _fault("address", f"may be given at most {ADDRESSES_MAX} times")
        interval = number(parameters, "interval")
        interval = INTERVAL_MIN_S if interval is None else interval
        if not INTERVAL_MIN_S <= interval <= INTERVAL_MAX_S:
            raise _fault("interval", f"must be {INTERVAL_MIN_S} to {INTERVAL_MAX_S} seconds")
        space = parameters.get("space")
        if namespace is None and space is not None:
            raise _fault("space", "needs a namespace in the path")
        return cls(
            namespace=namespace,
            space=space,
            keys=[_key(namespace, name) for name in names],
            with_spaces=flag(parameters, "spaces") or space is not None,
            interval_s=interval,
        )


class SamplePages:
    """GET on `samples`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def samples(self, request: Request) -> Response:
        """The present sample, or with `?follow=true` a stream of them."""
        namespace = request.path_params.get("namespace")
        wanted = Wanted.of(namespace, request.query_params)
        if flag(request.query_params, "follow"):
            headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
            return StreamingResponse(
                self._stream(request, wanted), media_type=MEDIA_TYPE, headers=headers
            )
        sample = await self._platform.statistics.shared.recent()
        return Response(self._document(sample, wanted), media_type="application/json")

    async def _stream(self, request: Request, wanted: Wanted) -> AsyncIterator[str]:
        async for event in while_allowed(request, self._events(wanted)):
            yield event
        reason = "session" if self._platform.is_ready() else "stopping"
        yield f'event: end\ndata: {{"reason": "{reason}"}}\n\n'

    async def _events(self, wanted: Wanted) -> AsyncIterator[str]:
        """Yield an event for every new sample until the process stops."""
        clock = self._platform.clock
        seen, sent_s = 0, clock.monotonic()
        while self._platform.is_ready():
            sample = await self._platform.statistics.shared.latest()
            if sample.number != seen:
                seen, sent_s = sample.number, clock.monotonic()
                data = self._document(sample, wanted)
                yield f"event: sample\nid: {sample.number}\ndata: {data}\n\n"
            elif clock.monotonic() - sent_s >= SILENCE_MAX_S:
                sent_s = clock.monotonic()
                yield ": \n\n"
            # At the time of the next sample, so that values are shown when they are new: streams
            # that slept on their own would show some that are nearly as old as the next ones.
            due_s = max(sample.renewed_s, sample.now.taken_s + wanted.interval_s)
            await clock.sleep(max(due_s - clock.monotonic(), 0.0) + SLACK_S)

    def _document(self, sample: Sample, wanted: Wanted) -> str:
        store = self._platform.store
        found = []
        for key in wanted.keys:
            resource = store.get(key)
            uid = resource.metadata.uid if resource is not None else None
            if uid and (text := _encoded(sample, uid)) is not None:
                found.append(f"{json.dumps(f'{key.namespace}/{key.name}')}: {text}")
        spaces = [
            one
            for one in spaces_within(sample, store, wanted.namespace)
            if wanted.space in (None, one.metadata.name)
        ]
        head: dict[str, Any] = {
            "time": sample.time,
            "windowSeconds": round(sample.window_s, 3),
            "totals": _totals(sample, wanted, spaces),
        }
        if wanted.with_spaces:
            head["spaces"] = {
                f"{one.metadata.namespace}/{one.metadata.name}": live_space(sample, full_name(one))
                for one in spaces[:SPACES_MAX]
            }
        return f'{json.dumps(head)[:-1]}, "addresses": {{{", ".join(found)}}}}}'


def _totals(sample: Sample, wanted: Wanted, spaces: Sequence[AddressSpace]) -> dict[str, float]:
    name = f"totals {wanted.namespace} {wanted.space}"
    if name not in sample.derived:
        sample.derived[name] = totals(sample, spaces)
    return cast(dict[str, float], sample.derived[name])


def _encoded(sample: Sample, uid: str) -> str | None:
    """Return the statistics of an address as JSON, encoded once per sample."""
    known = cast(dict[str, str], sample.derived.setdefault("encoded", {}))
    if uid not in known:
        shown = shown_of(sample, uid)
        if shown is None:
            return None
        known[uid] = json.dumps(shown, separators=(",", ":"))
    return known[uid]


def _key(namespace: str | None, name: str) -> Key:
    if namespace is not None:
        return Key("Address", namespace, name)
    within, slash, rest = name.partition("/")
    if not slash:
        raise _fault("address", "must be NAMESPACE/NAME on a path without a namespace")
    return Key("Address", within, rest)


def _fault(field: str, problem: str) -> Invalid:
    fault = Fault(field, problem)
    return Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])
