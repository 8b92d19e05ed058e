"""The tasks of the leader: the node with its listeners, and the control loop."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import structlog

from enmasse.api.trail.creations import CreationTrail
from enmasse.api.trail.logins import LoginTrail
from enmasse.auth.certificates import TlsFiles, ensure_certificates
from enmasse.auth.logins import Logins
from enmasse.auth.token import ensure_token
from enmasse.base.clock import Clock
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import EnMasseError, Unavailable
from enmasse.base.settings import Settings, receive_bytes
from enmasse.base.threads import completed
from enmasse.cli.connect.network import (
    DEFAULT_PORTS,
    names_of,
    origins_of,
    platform_names,
    reachable_name,
)
from enmasse.cli.serve.store_binding import Belonging
from enmasse.control import Admission, Manager, Recorder, UsageFile
from enmasse.control.auto_create import AutoCreation, Expiry
from enmasse.control.certificate_choice import NodeIdentity
from enmasse.control.endpoints import PlatformListeners
from enmasse.control.reconcilers import NodeObserver, Prober
from enmasse.engines import Proof
from enmasse.engines.native import NativeEngine
from enmasse.native import ListenerKind, Node, NodeLimits
from enmasse.store import Store
from enmasse.store.leading import replaced
from enmasse.store.protocol import Leadership

_Result = TypeVar("_Result")

log = structlog.get_logger(__name__)

RENEWAL_CHECK_S = 24 * 3600.0
"""Interval of checking the certificate for renewal."""

STOP_TIMEOUT_S = 2.0
"""Time-out for closing connections in order. The HTTP server's second runs concurrently; the rest
of the guaranteed 5 s is a reserve for a busy machine.
"""

LISTENERS: tuple[tuple[ListenerKind, bool], ...] = (
    ("amqp", False),
    ("amqps", True),
    ("ws", False),
    ("wss", True),
    ("mqtt", False),
    ("mqtts", True),
)
"""The node's listeners, and whether they use TLS."""


class Endpoint(NamedTuple):
    """The address of one listener."""

    host: str
    port: int


@dataclass(slots=True)
class Certificates:
    """The certificate files of the data folder, renewed while the process runs.

    The node's certificate contains the machine name; spaces have certificates of their own.
    Listeners re-read the files by themselves.
    """

    folder: Path
    names: Sequence[str]
    clock: Clock
    renewed: Callable[[NodeIdentity], None] | None = None
    """Called with the node's certificate after every check."""

    def ensure(self) -> TlsFiles:
        """Return valid files, creating or renewing them as needed."""
        return ensure_certificates(self.folder, self.names, self.clock)

    def identity(self) -> NodeIdentity:
        """Return the node's certificate, and the CA that vouches for spaces."""
        tls = self.ensure()
        key = (self.folder / "ca.key").read_text()
        return NodeIdentity(tls.certificate.read_text(), tls.ca.read_text(), key, tls.is_own)

    async def keep_valid(self) -> None:
        """Renew certificates until cancelled."""
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
    """The node of this process and its controllers; idle before `start`."""

    def __init__(
        self,
        settings: Settings,
        data: DataDir,
        stores: tuple[Store, Store],
        certificates: Certificates,
        trails: tuple[CreationTrail, LoginTrail],
        admission: Admission,
    ) -> None:
        """Lead with the declared and generated resources in `stores`.

        Created addresses and logins go to `trails`; `admission` completes resources that bypassed
        it.
        """
        self._settings = settings
        self._data = data
        self._store, self._computed = stores
        self._certificates = certificates
        self._leadership = self._store.leadership
        self._creation_trail, self._login_trail = trails
        self._admission = admission
        self._node: Node | None = None
        self._manager: Manager | None = None
        self._is_cordoned = False
        self._pages: list[str] = []
        """Origins of the API's own pages."""

        self._loss: Unavailable | None = None
        """Why this process lost leadership."""

        self._run: list[Callable[[], Coroutine[Any, Any, None]]] = []

    async def start(self) -> tuple[NativeEngine, dict[str, Endpoint]]:
        """Serve the declared resources; return the engine and the listeners.

        Raises: EnMasseError if that fails, or if another process takes over.
        """
        if self._leadership is None:
            return await self._start()
        try:
            started = await beside(self._keep(self._leadership), self._start())
        except EnMasseError as error:
            # Using closed parts after losing leadership is an error as well.
            raise self._loss or error from None
        if self._loss is not None:
            # The links are already closing when the start completes.
            raise self._loss
        return started

    async def run(self) -> None:
        """Run until cancelled.

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

    @property
    def leads(self) -> bool:
        """Whether this process runs a node."""
        return self._node is not None

    @property
    def proof(self) -> Proof | None:
        """What the node proved last; None: it proved nothing."""
        return self._manager.plan.proof if self._manager is not None else None

    def cordon(self, cordoned: bool) -> None:
        """Refuse new connections, or admit them; a node that starts later does so too."""
        self._is_cordoned = cordoned
        if self._node is not None:
            self._node.cordon(cordoned=cordoned)

    def serves_pages_at(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Allow the API's own pages, at these endpoints, to use WebSockets."""
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
        """Close all links, in order if possible within `timeout_s`, and stop the node."""
        if self._node is not None:
            self._node.stop(timeout_s)

    async def close(self) -> None:
        """Close all links, in order if possible within STOP_TIMEOUT_S, and stop the node."""
        # In a thread of its own: the shared ones may be blocked by slow name resolution.
        own = ThreadPoolExecutor(1)
        try:
            await asyncio.get_running_loop().run_in_executor(own, self.stop, STOP_TIMEOUT_S)
        finally:
            own.shutdown(wait=False)

    def _reason(self, several: BaseExceptionGroup[EnMasseError]) -> EnMasseError:
        # Using closed parts after losing leadership is an error as well.
        return self._loss or next(_leaves(several))

    async def _keep(self, leadership: Leadership) -> None:
        try:
            await leadership.keep(self._settings.leader_grace_s)
        except Unavailable as error:
            # First of all: the new leader serves the same addresses, or is about to.
            self._loss = error
            await self.close()
            raise

    def _recovered(self) -> Node:
        """Return the node of the data folder, which is then ours to stop. It reads the whole
        journal, so it runs in a thread: lease and heartbeats go on.
        """
        self._node = Node(
            workers=self._settings.workers,
            insecure=self._settings.insecure,
            decoy_secret=ensure_token(self._data.decoy),
            journal=self._data.journal,
            discard_unnamed=self._settings.discard_unnamed,
            limits=NodeLimits(
                self._settings.max_frame_size,
                self._settings.link_credit,
                self._settings.idle_timeout_s,
                receive_bytes(self._settings.receive_memory),
            ),
            multicast_settle_timeout_ms=self._settings.multicast_settle_timeout_ms,
            mqtt_hold_ms=self._settings.mqtt_hold_ms,
            proxies=[one for one in self._settings.proxy_protocol.split(",") if one],
        )
        return self._node

    async def _start(self) -> tuple[NativeEngine, dict[str, Endpoint]]:
        clock = self._certificates.clock
        await self._store.refresh()
        belonging = Belonging(self._data, self._store, clock)
        belonging.check()
        node = await completed(self._recovered)
        self._allow_web(node)
        node.cordon(cordoned=self._is_cordoned)
        engine = NativeEngine(node, clock)
        manager = self._manager = Manager(
            self._store,
            engine,
            clock,
            self._computed,
            declared=self._admission.declared,
            exposed=self._admission.exposed,
            hosts=platform_names(self._settings.host, self._settings.host_names),
            link_credit=self._settings.link_credit,
        )
        interim = UsageFile(self._data.usage)
        await self._store.refresh()
        manager.usage.recover(interim.read())
        manager.services.note({})
        observer = NodeObserver(self._store, manager.nodes, clock)
        await observer.observe()
        # The first client of a space already gets the space's certificate.
        manager.certificates.set_node(self._certificates.identity())
        self._certificates.renewed = manager.certificates.set_node
        await manager.catch_up()
        # The steps so far may have taken longer than the lease.
        if self._leadership is not None and not await self._leadership.take():
            raise replaced()
        endpoints = listen(self._settings, node, self._certificates.ensure())
        ports = {kind: one.port for kind, one in endpoints.items()}
        manager.exports.set_listeners(PlatformListeners(reachable_name(self._settings.host), ports))
        logins = Logins(self._store, clock)
        answering = partial(engine.answer_logins, logins.answer)
        prober = Prober(self._store, manager.services, logins.problem, clock)
        logging = partial(engine.log_events, self._login_trail.write)
        recorder = Recorder(manager.usage, engine, clock, interim)
        completing = partial(self._store.complete, self._admission.completed)
        watching = partial(engine.watch_journal, manager.plan.request_confirmation)
        self._run = [manager.run, recorder.run, prober.run, belonging.keep_recording]
        record_change = self._creation_trail.write
        wanted = AutoCreation(self._store, self._admission, record_change)
        creating = partial(engine.create_wanted, wanted.create)
        expiry = Expiry(self._store, self._admission, engine, clock, record_change)
        self._run += [completing, logging, watching, answering, engine.run_canary]
        self._run += [creating, expiry.run, observer.run]
        return engine, endpoints


async def beside(
    background: Coroutine[Any, Any, None], work: Coroutine[Any, Any, _Result]
) -> _Result:
    """Return the result of `work`; until then `background` runs, whose error cancels it.

    Raises: EnMasseError of either.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(background)
            result = await work
            running.cancel()
    except* EnMasseError as several:
        raise next(_leaves(several)) from None
    return result


def _leaves(several: BaseExceptionGroup[EnMasseError]) -> Iterator[EnMasseError]:
    for one in several.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def listen(settings: Settings, node: Node, tls: TlsFiles) -> dict[str, Endpoint]:
    """Open the enabled listeners of the node, and return the addresses of those with a port."""
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
    if settings.mqtt_socket is not None:
        node.listen_unix(settings.mqtt_socket)
    return endpoints
