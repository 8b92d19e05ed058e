"""What one process of a store runs and no other: the node with its listeners, and its control."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from enmasse.api.login_trail import LoginTrail
from enmasse.auth.certificates import TlsFiles, ensure_certificates
from enmasse.auth.logins import Logins
from enmasse.auth.token import ensure_token
from enmasse.base.clock import Clock
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import EnMasseError, Unavailable
from enmasse.base.settings import Settings
from enmasse.cli.belonging import Belonging
from enmasse.cli.network import (
    DEFAULT_PORTS,
    names_of,
    origins_of,
    platform_names,
    reachable_name,
)
from enmasse.control import Admission, Interim, Manager, Recorder
from enmasse.control.endpoints import Place
from enmasse.control.prober import Prober
from enmasse.control.shown import NodeIdentity
from enmasse.engines.native import NativeEngine
from enmasse.native import ListenerKind, Node, NodeLimits
from enmasse.store import Store
from enmasse.store.leading import replaced
from enmasse.store.protocol import Leadership

log = structlog.get_logger(__name__)

RENEWAL_CHECK_S = 24 * 3600.0
"""How often a running process looks whether its certificate must be renewed."""

STOP_TIMEOUT_S = 2.0
"""Time for connections to be closed in order. The HTTP server's second runs beside it; what is left
of the promised 5 s is for a machine that is busy with other things."""

LISTENERS: tuple[tuple[ListenerKind, bool], ...] = (
    ("amqp", False),
    ("amqps", True),
    ("ws", False),
    ("wss", True),
)
"""The node's listeners, and whether TLS comes first."""


class Endpoint(NamedTuple):
    """Where one listener listens."""

    host: str
    port: int


@dataclass(slots=True)
class Certificates:
    """The certificate files of the data folder, kept valid while the process runs.

    The node's own certificate names the machine; spaces have certificates of their own. Listeners
    look at the files again by themselves.
    """

    folder: Path
    names: Sequence[str]
    clock: Clock
    renewed: Callable[[NodeIdentity], None] | None = None
    """Is told what the node shows whenever that has been looked at."""

    def ensure(self) -> TlsFiles:
        """Return valid files, making or renewing what must be."""
        return ensure_certificates(self.folder, self.names, self.clock)

    def identity(self) -> NodeIdentity:
        """Return what the node shows, and by whom its spaces are vouched for."""
        tls = self.ensure()
        key = (self.folder / "ca.key").read_text()
        return NodeIdentity(tls.certificate.read_text(), tls.ca.read_text(), key, tls.is_own)

    async def keep_valid(self) -> None:
        """Renew in time until cancelled."""
        while True:
            await self.clock.sleep(RENEWAL_CHECK_S)
            try:
                identity = await asyncio.to_thread(self.identity)
            except (EnMasseError, OSError) as error:
                log.error("certificates cannot be renewed", reason=str(error))
                continue
            if self.renewed is not None:
                self.renewed(identity)


class Leader:
    """The node of this process and what controls it; nothing runs before `start`."""

    def __init__(
        self,
        settings: Settings,
        data: DataDir,
        stores: tuple[Store, Store],
        certificates: Certificates,
        login_trail: LoginTrail,
        admission: Admission,
    ) -> None:
        """Lead by what `stores` have: what is declared, and what the platform makes itself.

        Who comes in is told to `login_trail`; what is written past `admission` is completed by it.
        """
        self._settings = settings
        self._data = data
        self._store, self._computed = stores
        self._certificates = certificates
        self._leadership = self._store.leadership
        self._login_trail = login_trail
        self._admission = admission
        self._node: Node | None = None
        self._pages: list[str] = []
        """Origins of the API's own pages."""

        self._loss: Unavailable | None = None
        """Why this process leads no more."""

        self._run: list[Callable[[], Coroutine[Any, Any, None]]] = []

    async def start(self) -> tuple[NativeEngine, dict[str, Endpoint]]:
        """Serve what is declared; return what serves it, and where it listens.

        Raises: EnMasseError if it cannot, or if another process leads meanwhile.
        """
        if self._leadership is None:
            return await self._start()
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = tasks.create_task(self._keep(self._leadership), name="lease")
                started = await self._start()
                keeping.cancel()
        except* EnMasseError as several:
            raise self._reason(several) from None
        if self._loss is not None:
            # The links are being closed as the start comes to its end.
            raise self._loss
        return started

    async def run(self) -> None:
        """Go on until cancelled.

        Raises: Unavailable (STANDING_BY) once another process leads, or may lead.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for one in self._run:
                    tasks.create_task(one())
                if self._leadership is not None:
                    tasks.create_task(self._keep(self._leadership), name="lease")
        except* EnMasseError as several:
            raise self._reason(several) from None

    def serves_pages_at(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Let pages of the API, which is at these of the endpoints, use the node's WebSockets."""
        ports = {kind: one.port for kind, one in endpoints.items() if kind in DEFAULT_PORTS}
        self._pages = origins_of(self._names(), ports)
        if self._node is not None:
            self._allow_web(self._node)

    def _names(self) -> list[str]:
        return names_of(self._settings.host, self._settings.host_names)

    def _allow_web(self, node: Node) -> None:
        listed = [origin for origin in self._settings.ws_origins.split(",") if origin]
        node.allow_web(origins=[*self._pages, *listed], hosts=self._names())

    def stop(self, timeout_s: float = 0.0) -> None:
        """Close all links, in order if they can be within `timeout_s`, and end the node."""
        if self._node is not None:
            self._node.stop(timeout_s)

    async def close(self) -> None:
        """Close all links, in order if they can be within STOP_TIMEOUT_S, and end the node."""
        # By a thread of its own: all that are shared may wait for names that nobody resolves.
        own = ThreadPoolExecutor(1)
        try:
            await asyncio.get_running_loop().run_in_executor(own, self.stop, STOP_TIMEOUT_S)
        finally:
            own.shutdown(wait=False)

    def _reason(self, several: BaseExceptionGroup[EnMasseError]) -> EnMasseError:
        # To use what was closed since another one leads is an error, too.
        return self._loss or next(_leaves(several))

    async def _keep(self, leadership: Leadership) -> None:
        try:
            await leadership.keep(self._settings.leader_grace_s)
        except Unavailable as error:
            # Before all else: another one serves the same, or is about to.
            self._loss = error
            await self.close()
            raise

    async def _start(self) -> tuple[NativeEngine, dict[str, Endpoint]]:
        clock = self._certificates.clock
        await self._store.refresh()
        belonging = Belonging(self._data, self._store, clock)
        belonging.check()
        node = self._node = Node(
            workers=self._settings.workers,
            insecure=self._settings.insecure,
            decoy_secret=ensure_token(self._data.decoy),
            journal=self._data.journal,
            limits=NodeLimits(
                self._settings.max_frame_size,
                self._settings.link_credit,
                self._settings.idle_timeout_s,
            ),
            multicast_settle_timeout_ms=self._settings.multicast_settle_timeout_ms,
        )
        self._allow_web(node)
        engine = NativeEngine(node, clock)
        manager = Manager(
            self._store,
            engine,
            clock,
            self._computed,
            exposed=self._admission.exposed,
            hosts=platform_names(self._settings.host, self._settings.host_names),
            link_credit=self._settings.link_credit,
        )
        interim = Interim(self._data.usage)
        await self._store.refresh()
        manager.recover_usage(interim.read())
        manager.note_answers({})
        # Who connects first meets each space with its own certificate already.
        manager.shows(self._certificates.identity())
        self._certificates.renewed = manager.shows
        await manager.catch_up()
        # What came before may have held up this process for longer than the lease lasts.
        if self._leadership is not None and not await self._leadership.take():
            raise replaced()
        endpoints = listen(self._settings, node, self._certificates.ensure())
        ports = {kind: one.port for kind, one in endpoints.items()}
        manager.listens(Place(reachable_name(self._settings.host), ports))
        logins = Logins(self._store, clock)
        answering = partial(engine.answer_logins, logins.answer)
        prober = Prober(self._store, manager, logins.problem, clock)
        logging = partial(engine.log_events, self._login_trail.tell)
        recorder = Recorder(manager, engine, clock, interim)
        completing = partial(self._store.complete, self._admission.completed)
        watching = partial(engine.watch_journal, manager.prove_again)
        self._run = [manager.run, recorder.run, prober.run, belonging.keep_noting]
        self._run += [completing, logging, watching, answering, engine.fly_canary]
        return engine, endpoints


def _leaves(several: BaseExceptionGroup[EnMasseError]) -> Iterator[EnMasseError]:
    for one in several.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def listen(settings: Settings, node: Node, tls: TlsFiles) -> dict[str, Endpoint]:
    """Open the node's listeners that are on, and return where they listen."""
    files = {
        "certificate": str(tls.certificate),
        "key": str(tls.key),
        "clientCa": str(tls.ca),
    }
    endpoints: dict[str, Endpoint] = {}
    for kind, secure in LISTENERS:
        port = getattr(settings, f"{kind}_port")
        if port is not None:
            bound = node.listen(kind, settings.host, port, files if secure else None)
            endpoints[kind] = Endpoint(settings.host, bound)
    return endpoints
