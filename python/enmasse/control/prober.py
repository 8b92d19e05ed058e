"""Asks authentication services elsewhere whether they answer, again and again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict
from enmasse.control.manager import Manager
from enmasse.control.status import Answer
from enmasse.resources import AddressSpace, AuthenticationService, Key
from enmasse.store import Store

LOOK_S = 1.0
"""How often it is looked whether there is somebody to ask."""

ASK_S = 30.0
"""How often one is asked that answers."""

ASK_AGAIN_S = 5.0
"""How often one is asked that does not."""

AT_ONCE = 64
"""Services that are asked at a time; the others wait. One that hangs takes its place until whoever
asks gives up, so there are more places than services that are likely to hang together."""

Problem = Callable[[AuthenticationService], Awaitable[str | None]]

_Identity = tuple[str | None, int | None]
"""uid and generation: what changes with who is asked."""


class _Asking(NamedTuple):
    """A question that is under way."""

    identity: _Identity
    task: asyncio.Task[None]


class Prober:
    """Asks for a manager, each service by itself: one that hangs holds up no other."""

    def __init__(self, store: Store, manager: Manager, problem: Problem, clock: Clock) -> None:
        """`problem` asks one service, in bounded time, and says why it does not answer."""
        self._store = store
        self._manager = manager
        self._problem = problem
        self._clock = clock
        self._taken_in: int | None = None
        """Version of the store up to which changes are in the services and spaces here."""

        self._services: dict[Key, AuthenticationService] = {}
        """Those that ask others."""

        self._spaces: dict[Key, tuple[str | None, str | None]] = {}
        """uid of each space, and the service that it names."""

        self._behind: set[Key] = set()
        """Services that keep realms, where spaces have come, gone or chosen another service since
        they were asked."""

        self._asking: dict[Key, _Asking] = {}
        self._answers: dict[Key, Answer] = {}
        self._asked_at: dict[Key, float] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self.ask(tasks)
                await self._clock.sleep(LOOK_S)

    def ask(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to ask those whose turn it is; the manager is told of each as it answers.

        A service is asked once at a time. Who is asked for one that is another by now, or has
        gone, is not waited for.
        """
        self._take_in()
        for key, asking in list(self._asking.items()):
            if key not in self._services or asking.identity != _identity(self._services[key]):
                asking.task.cancel()
                del self._asking[key]
        for key, service in self._services.items():
            if key not in self._asking and self._is_due(service):
                self._behind.discard(key)
                task = tasks.create_task(self._ask(service))
                self._asking[key] = _Asking(_identity(service), task)

    def _take_in(self) -> None:
        """Take in what is new in the store."""
        moved = False
        for key in self._changed():
            found = self._store.get(key)
            if key.kind == "AddressSpace":
                before = self._spaces.pop(key, None)
                if isinstance(found, AddressSpace):
                    self._spaces[key] = found.metadata.uid, found.service_name
                moved |= before != self._spaces.get(key)
            elif isinstance(found, AuthenticationService) and found.asks_others:
                self._services[key] = found
            elif self._services.pop(key, None) is not None:
                self._behind.discard(key)
                self._asked_at.pop(key, None)
                if self._answers.pop(key, None) is not None:
                    self._manager.note_answers(dict(self._answers))
        if moved:
            self._behind |= {key for key, one in self._services.items() if one.keeps_realms}

    def _changed(self) -> Iterable[Key]:
        """Return the keys of services and spaces that may not be as they were."""
        since, self._taken_in = self._taken_in, self._store.version
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
        self._manager.note_answers(dict(self._answers))


def _identity(service: AuthenticationService) -> _Identity:
    return service.metadata.uid, service.metadata.generation
