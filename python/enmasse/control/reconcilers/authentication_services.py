"""Probes authentication services periodically, and reports which of them respond.

The prober works between passes, because a probe takes as long as its server. A pass reads the
available answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict
from enmasse.control.inventory import Inventory
from enmasse.control.status import Answer
from enmasse.control.work_queue import WorkQueue
from enmasse.resources import AddressSpace, AuthenticationService, Key
from enmasse.store import Store

LOOK_S = 1.0
"""Interval of looking for due probes."""

ASK_S = 30.0
"""Probe interval of a responding service."""

ASK_AGAIN_S = 5.0
"""Probe interval of a failing service."""

AT_ONCE = 64
"""Maximum concurrent probes. A hanging probe keeps its slot until its time-out, so there are more
slots than services likely to hang together.
"""

Problem = Callable[[AuthenticationService], Awaitable[str | None]]

_Identity = tuple[str | None, int | None]
"""uid and generation: they change with the probed server."""


class _Asking(NamedTuple):
    """A running probe."""

    identity: _Identity
    task: asyncio.Task[None]


class AuthenticationServices:
    """The answers of authentication services, for their statuses."""

    def __init__(self, inventory: Inventory, queue: WorkQueue) -> None:
        self._inventory = inventory
        self._queue = queue
        self.answers: Mapping[Key, Answer] | None = None
        """The answer of each service; None: services are not probed and are ready without one."""

    def note(self, answers: Mapping[Key, Answer]) -> None:
        """Record all answers; from the first call on a service without one is not ready."""
        before = self.answers or {}
        changed = {
            key for key in answers.keys() | before.keys() if answers.get(key) != before.get(key)
        }
        if self.answers is None:
            changed |= self._inventory.keys("AuthenticationService")
        self.answers = answers
        self._queue.add(changed)


class Prober:
    """Probes services independently: a hanging one does not delay others."""

    def __init__(
        self, store: Store, services: AuthenticationServices, problem: Problem, clock: Clock
    ) -> None:
        """`problem` probes one service in bounded time and returns the error, or None."""
        self._store = store
        self._reconciler = services
        self._problem = problem
        self._clock = clock
        self._applied_version: int | None = None
        """Version of the store that the sets below reflect."""

        self._services: dict[Key, AuthenticationService] = {}
        """Services with a remote server."""

        self._spaces: dict[Key, tuple[str | None, str | None]] = {}
        """uid of each space, and the name of its service."""

        self._behind: set[Key] = set()
        """Services with managed realms whose spaces have changed since the last probe."""

        self._asking: dict[Key, _Asking] = {}
        self._answers: dict[Key, Answer] = {}
        self._asked_at: dict[Key, float] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Probe until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self.ask(tasks)
                await self._clock.sleep(LOOK_S)

    def ask(self, tasks: asyncio.TaskGroup) -> None:
        """Start due probes; the reconciler receives each result as it arrives.

        A service has one probe at a time. A probe of a changed or deleted service is abandoned.
        """
        self._apply_changes()
        for key, asking in list(self._asking.items()):
            if key not in self._services or asking.identity != _identity(self._services[key]):
                asking.task.cancel()
                del self._asking[key]
        for key, service in self._services.items():
            if key not in self._asking and self._is_due(service):
                self._behind.discard(key)
                task = tasks.create_task(self._ask(service))
                self._asking[key] = _Asking(_identity(service), task)

    def _apply_changes(self) -> None:
        """Apply changes of the store."""
        moved = False
        for key in self._changed():
            found = self._store.get(key)
            if key.kind == "AddressSpace":
                before = self._spaces.pop(key, None)
                if isinstance(found, AddressSpace):
                    self._spaces[key] = found.metadata.uid, found.service_name
                moved |= before != self._spaces.get(key)
            elif isinstance(found, AuthenticationService) and found.uses_remote_server:
                self._services[key] = found
            elif self._services.pop(key, None) is not None:
                self._behind.discard(key)
                self._asked_at.pop(key, None)
                if self._answers.pop(key, None) is not None:
                    self._reconciler.note(dict(self._answers))
        if moved:
            self._behind |= {key for key, one in self._services.items() if one.keeps_realms}

    def _changed(self) -> Iterable[Key]:
        """Return the keys of services and spaces that may have changed."""
        since, self._applied_version = self._applied_version, self._store.version
        kinds = "AuthenticationService", "AddressSpace"
        try:
            if since is not None:
                keys = {event.resource.key for event in self._store.changes(since)}
                return sorted(key for key in keys if key.kind in kinds)
        except Conflict as error:
            if error.code != Code.VERSION_EXPIRED:
                raise
        there = (one.key for kind in kinds for one in self._store.list(kind))
        return sorted({*self._services, *self._spaces, *there})

    def _is_due(self, service: AuthenticationService) -> bool:
        answer = self._answers.get(service.key)
        if answer is None or answer.identity != _identity(service) or service.key in self._behind:
            return True
        pause_s = ASK_S if answer.problem is None else ASK_AGAIN_S
        return self._clock.monotonic() - self._asked_at[service.key] >= pause_s

    async def _ask(self, service: AuthenticationService) -> None:
        async with self._slots:
            problem = await self._problem(service)
        del self._asking[service.key]
        self._answers[service.key] = Answer(_identity(service), problem)
        self._asked_at[service.key] = self._clock.monotonic()
        self._reconciler.note(dict(self._answers))


def _identity(service: AuthenticationService) -> _Identity:
    return service.metadata.uid, service.metadata.generation
