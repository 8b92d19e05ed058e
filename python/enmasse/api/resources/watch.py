"""Watches: every change as one JSON line, until the client leaves or the time is up."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from enmasse.api.errors import status_object
from enmasse.api.http.accept import Form
from enmasse.api.kinds import Kind
from enmasse.api.resources import representations
from enmasse.api.resources.queries import ListQuery
from enmasse.api.resources.representations import Shown
from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, Unavailable
from enmasse.resources import Resource
from enmasse.store import Event, EventType, Store

TIMEOUT_S = 3600
"""Maximum duration. The client lists and watches again, so a dead client is detected eventually."""

FILTERED_CHANGES_MAX = 1000
"""Filtered changes after which a watcher gets a bookmark, if it accepts them: its version then
never falls behind the retained changes.
"""

BOOKMARK = "BOOKMARK"
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}

Line = dict[str, Any]


class Watched(NamedTuple):
    """The scope and format of a watch."""

    store: Store
    kind: Kind
    namespace: str | None
    form: Form
    shown: Shown
    clock: Clock


def watch_lines(watched: Watched, query: ListQuery) -> AsyncIterator[Line]:
    """Return the events of a watch.

    Without a version, or with 0, the present resources come first as added. A compacted version
    ends the watch with an ERROR event of code 410.

    Raises: Unavailable if the version is in the future.
    """
    check_version(watched.store, query.resource_version)
    return _lines(watched, query)


def check_version(store: Store, version: int | None) -> None:
    """Check that a version exists.

    Raises: Unavailable if it is in the future.
    """
    if version is not None and version > store.version:
        raise Unavailable(
            Code.VERSION_AHEAD,
            f"Too large resource version: {version}, current: {store.version}; list again",
            retry_after_s=1.0,
        )


async def _lines(watched: Watched, query: ListQuery) -> AsyncIterator[Line]:
    store, namespace = watched.store, watched.namespace
    since = query.resource_version or 0
    initial = query.initial_events
    # As Kubernetes: version 0 lists first unless sendInitialEvents is false; another version
    # continues.
    if initial or (initial is None and since == 0):
        since = store.version
        for resource in store.list(watched.kind.name, namespace):
            if query.selects(resource):
                yield _line(watched, EventType.ADDED, resource)
        if initial and query.bookmarks:
            yield _bookmark(watched, since, INITIAL_EVENTS_END)
    elif since == 0:
        since = store.version
    position = reported_version = since
    timeout_s = min(TIMEOUT_S if query.timeout_s is None else query.timeout_s, TIMEOUT_S)
    try:
        async with asyncio.timeout(timeout_s):
            async for event in store.watch(since):
                position = event.version
                if (line := _filtered_line(watched, query, event)) is not None:
                    reported_version = position
                    yield line
                # A watch of rare changes would otherwise fall behind the versions that the store
                # keeps.
                elif query.bookmarks and position - reported_version >= FILTERED_CHANGES_MAX:
                    reported_version = position
                    yield _bookmark(watched, position)
    except TimeoutError:
        if query.bookmarks and position > reported_version:
            yield _bookmark(watched, position)
    except Conflict as error:
        yield {"type": "ERROR", "object": status_object(error)}


def _filtered_line(watched: Watched, query: ListQuery, event: Event) -> Line | None:
    """Return a change as seen through the selectors."""
    key = event.resource.key
    if key.kind != watched.kind.name or watched.namespace not in (None, key.namespace):
        return None
    was = event.before is not None and query.selects(event.before)
    if event.type is EventType.DELETED:
        return _line(watched, EventType.DELETED, event.resource) if was else None
    if query.selects(event.resource):
        type_ = EventType.MODIFIED if was else EventType.ADDED
        return _line(watched, type_, event.resource)
    return _line(watched, EventType.DELETED, event.resource) if was else None


def _line(watched: Watched, type_: EventType, resource: Resource) -> Line:
    now = watched.clock.now()
    shown = representations.one(watched.kind, watched.form, resource, watched.shown, now)
    return {"type": str(type_), "object": shown}


def _bookmark(watched: Watched, version: int, annotations: dict[str, str] | None = None) -> Line:
    marked = representations.bookmark(watched.kind, watched.form, version, annotations or {})
    return {"type": BOOKMARK, "object": marked}
