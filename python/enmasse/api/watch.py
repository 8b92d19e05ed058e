"""Watching: every change as one JSON object, one a line, until the client goes or time is up."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from enmasse.api.errors import status_object
from enmasse.base.errors import Code, Conflict, Fault, Invalid
from enmasse.resources import Resource
from enmasse.store import EventType, Store

TIMEOUT_S = 3600.0
"""Longest watch. A client lists and watches again, and a dead one is noticed in the end."""


def watch_lines(
    store: Store, model: type[Resource], namespace: str | None, parameters: Mapping[str, str]
) -> AsyncIterator[dict[str, Any]]:
    """Return what a watch sends, by the query parameters `resourceVersion` and `timeoutSeconds`.

    Without a version, or with 0, all that is there comes first, as added. A version that is no
    longer kept ends the watch with an ERROR event of code 410.

    Raises: Invalid if a parameter is not a number.
    """
    since = _number(parameters, "resourceVersion", 0)
    timeout_s = min(_number(parameters, "timeoutSeconds", int(TIMEOUT_S)), TIMEOUT_S)
    return _lines(store, model, namespace, since, timeout_s)


async def _lines(
    store: Store, model: type[Resource], namespace: str | None, since: int, timeout_s: float
) -> AsyncIterator[dict[str, Any]]:
    kind = model.__name__
    if since == 0:
        since = store.version
        for resource in store.list(kind, namespace):
            yield _line(EventType.ADDED, resource)
    try:
        async with asyncio.timeout(timeout_s):
            async for event in store.watch(since):
                key = event.resource.key
                if key.kind == kind and namespace in (None, key.namespace):
                    yield _line(event.type, event.resource)
    except TimeoutError:
        return
    except Conflict as error:
        yield {"type": "ERROR", "object": status_object(error)}


def _line(type_: EventType, resource: Resource) -> dict[str, Any]:
    return {"type": str(type_), "object": resource.public().document()}


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name) or str(default)
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        fault = Fault(name, f"must be a whole number, not {text!r}")
        raise Invalid(Code.REQUEST_INVALID, str(fault), faults=[fault])
    return int(text)
