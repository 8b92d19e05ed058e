"""Kubernetes events of resources, as shown by `kubectl describe`.

The newest ones are kept in memory. A repeated event is counted, not duplicated. An event contains
only status messages, which never contain secrets.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from enmasse.base.clock import Clock, rfc3339
from enmasse.base.ids import new_uid
from enmasse.resources import Declared, Event, Key, MessagingNode
from enmasse.resources.conditions import READY, find
from enmasse.resources.core import EventSource, NamedMetadata, ObjectReference
from enmasse.store import Store

EVENTS_MAX = 4096
"""Maximum events; beyond it the oldest of the namespace with the most events is dropped."""

AT_ONCE_MAX = 256
"""Maximum events written at one moment, warnings first: when thousands of addresses become active
together, one event each would displace all others.
"""

COMPONENT = "enmasse"
_QUIET = ("Active", "Configuring", "Terminating")
"""Phases without problems."""

_NAME_LENGTH_MAX = 200


class EventDetails(NamedTuple):
    """An event of a resource: a reason for programs, a message for people."""

    resource: Declared
    reason: str
    message: str
    is_warning: bool


def event_of_change(before: Declared, after: Declared) -> EventDetails | None:
    """Return the event of a status change, if there is one."""
    was, now = (find(one.status.conditions, READY) for one in (before, after))
    if now is None or (was and (was.reason, was.message) == (now.reason, now.message)):
        return None
    is_node = isinstance(after, MessagingNode)
    message = now.message or ("its heartbeats arrive" if is_node else "the node serves it")
    return EventDetails(after, now.reason, message, after.status.phase not in _QUIET)


class Events:
    """Records events."""

    def __init__(self, store: Store, clock: Clock, maximum: int = EVENTS_MAX) -> None:
        """Write into `store` as its only writer, continuing with its present content."""
        self._store = store
        self._clock = clock
        self._maximum = maximum
        there = [one for one in store.list("Event") if isinstance(one, Event)]
        self._written: OrderedDict[tuple[str, str, str], Key] = OrderedDict(
            ((one.involved_object.uid or "", one.reason, one.message), one.key)
            for one in sorted(there, key=lambda one: (one.last_timestamp or "", one.key))
        )

    async def record(self, news: Iterable[EventDetails]) -> None:
        """Record simultaneous events."""
        now = rfc3339(self._clock.now())
        events: dict[Key, Event] = {}
        for one in sorted(news, key=lambda one: not one.is_warning)[:AT_ONCE_MAX]:
            identity = (one.resource.metadata.uid or "", one.reason, one.message)
            known = self._written.pop(identity, None)
            before = (events.get(known) or self._store.get(known)) if known else None
            event = _again(before, now) if isinstance(before, Event) else _event(one, now)
            self._written[identity] = event.key
            events[event.key] = event
        await self._store.put(list(events.values()))
        if gone := self._beyond_limit():
            await self._store.delete(gone)

    def _beyond_limit(self) -> list[Key]:
        """Return the events beyond the limit: the oldest of the namespaces with the most."""
        excess = len(self._written) - self._maximum
        if excess <= 0:
            return []
        counts = Counter(key.namespace for key in self._written.values())
        most = Counter[str]()
        for _ in range(excess):
            ((namespace, _),) = counts.most_common(1)
            counts[namespace] -= 1
            most[namespace] += 1
        gone = []
        for identity, key in self._written.items():
            if most[key.namespace] > 0:
                most[key.namespace] -= 1
                gone.append(identity)
        return [self._written.pop(identity) for identity in gone]


def _again(event: Event, now: str) -> Event:
    return event.model_copy(update={"count": event.count + 1, "last_timestamp": now})


def _event(one: EventDetails, now: str) -> Event:
    metadata = one.resource.metadata
    begin = metadata.name[:_NAME_LENGTH_MAX].rstrip("-.")
    return Event(
        metadata=NamedMetadata(
            name=f"{begin}.{new_uid().replace('-', '')[:16]}", namespace=metadata.namespace
        ),
        involved_object=ObjectReference(
            api_version=one.resource.api_version,
            kind=one.resource.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        ),
        type="Warning" if one.is_warning else "Normal",
        reason=one.reason,
        message=one.message,
        source=EventSource(component=COMPONENT),
        first_timestamp=now,
        last_timestamp=now,
        reporting_component=COMPONENT,
    )
