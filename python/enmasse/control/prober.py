"""Asks authentication services elsewhere whether they answer, again and again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from enmasse.base.clock import Clock
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

AT_ONCE = 8
"""Services that are asked at a time; the others wait."""

Problem = Callable[[AuthenticationService], Awaitable[str | None]]


class Prober:
    """Asks for a manager."""

    def __init__(self, store: Store, manager: Manager, problem: Problem, clock: Clock) -> None:
        """`problem` asks one service, in bounded time, and says why it does not answer."""
        self._store = store
        self._manager = manager
        self._problem = problem
        self._clock = clock
        self._answers: dict[Key, Answer] = {}
        self._asked_at: dict[Key, float] = {}
        self._spaces: frozenset[tuple[str | None, str | None]] = frozenset()
        """Uids of the spaces that there were at the last look, where somebody keeps realms, and the
        services that they named."""

        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.ask()
            await self._clock.sleep(LOOK_S)

    async def ask(self) -> None:
        """Ask those whose turn it is, and tell the manager what became of it."""
        found = [one for one in self._store.list("AuthenticationService")]
        services = {
            one.key: one
            for one in found
            if isinstance(one, AuthenticationService) and one.asks_others
        }
        self._answers = {key: one for key, one in self._answers.items() if key in services}
        anew = self._are_spaces_new(services.values())
        due = [one for one in services.values() if self._is_due(one) or (anew and one.keeps_realms)]
        await asyncio.gather(*map(self._ask, due))
        self._manager.note_answers(dict(self._answers))

    def _are_spaces_new(self, services: Iterable[AuthenticationService]) -> bool:
        """Whether spaces have come, gone or chosen another service since the last look, if that
        matters to anybody."""
        if not any(one.keeps_realms for one in services):
            return False
        before = self._spaces
        self._spaces = frozenset(
            (one.metadata.uid, one.service_name)
            for one in self._store.list("AddressSpace")
            if isinstance(one, AddressSpace)
        )
        return self._spaces != before

    def _is_due(self, service: AuthenticationService) -> bool:
        answer = self._answers.get(service.key)
        if answer is None or answer.identity != _identity(service):
            return True
        pause_s = ASK_S if answer.problem is None else ASK_AGAIN_S
        return self._clock.monotonic() - self._asked_at[service.key] >= pause_s

    async def _ask(self, service: AuthenticationService) -> None:
        async with self._slots:
            problem = await self._problem(service)
        self._answers[service.key] = Answer(_identity(service), problem)
        self._asked_at[service.key] = self._clock.monotonic()


def _identity(service: AuthenticationService) -> tuple[str | None, int | None]:
    return service.metadata.uid, service.metadata.generation
