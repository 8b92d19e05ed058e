"""`enmasse up`: takes the parts in order, runs them, gives them back.

Everything that can refuse to start does so before the first task runs: the data folder, the
documents, what the node says to the Plan, the listeners. Then the process is ready, and runs until
it is told to stop.
"""

import asyncio
import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import structlog
import yaml

from enmasse.api import Platform, Server, bind, create_app
from enmasse.api.statistics import Statistics
from enmasse.auth.certificates import TlsFiles, ensure_certificates
from enmasse.auth.token import ensure_token
from enmasse.base.clock import Clock, SystemClock
from enmasse.base.data_dir import DataDir, write_private
from enmasse.base.errors import EnMasseError
from enmasse.base.settings import Settings
from enmasse.cli.files import load_files
from enmasse.cli.hints import Meeting, meeting
from enmasse.cli.network import check_host, is_loopback, names_of, url
from enmasse.control import Admission, Manager
from enmasse.control.defaults import default_resources, with_default_space
from enmasse.control.shipped import shipped
from enmasse.engines.native import NativeEngine
from enmasse.native import ListenerKind, Node
from enmasse.plan import Plan
from enmasse.store import MemoryStore, Store
from enmasse.store.sqlite import SqliteStore

log = structlog.get_logger(__name__)

STOP_TIMEOUT_S = 2.0
"""Time for connections to be closed in order. The HTTP server's second runs beside it; what is left
of the promised 5 s is for a machine that is busy with other things."""

RENEWAL_CHECK_S = 24 * 3600.0
"""How often a running process looks whether its certificate must be renewed."""

SPACES_NAMED_MAX = 200
"""Address spaces that the node's own certificate names. Every handshake carries it, and clients
take no certificate of any size; the others are for a certificate of the owner's."""

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


@dataclass(frozen=True, slots=True)
class Ready:
    """What a process says when everything listens."""

    pid: int
    endpoints: dict[str, Endpoint]
    meeting: Meeting | None = None
    """Where a first message can pass."""

    def document(self) -> dict[str, object]:
        """Return it as plain data."""
        endpoints = {name: place._asdict() for name, place in self.endpoints.items()}
        return {"ready": True, "pid": self.pid, "endpoints": endpoints}


async def serve(
    settings: Settings, files: Sequence[str], announce: Callable[[Ready], None]
) -> None:
    """Run the platform until SIGTERM or SIGINT; call `announce` once everything listens.

    Raises: EnMasseError with one line that names what and the mend, if it cannot start.
    """
    stopping = _stop_on_signals()
    clock = SystemClock()
    raise_open_files_limit()
    check_host(settings.host)
    async with AsyncExitStack() as stack:
        data = stack.enter_context(DataDir(settings.data))
        store = await SqliteStore.open(data.resources_db, clock)
        stack.push_async_callback(store.close)
        exposed = not is_loopback(settings.host) and not settings.insecure
        admission = Admission(store, exposed=exposed)
        await admission.ship(shipped())
        await declare(admission, store, files)
        await admission.check()
        await admission.ensure_namespaces()
        node = Node(
            workers=settings.workers,
            insecure=settings.insecure,
            decoy_secret=ensure_token(data.decoy),
            journal=data.journal,
        )
        stack.callback(node.stop, 0.0)
        certificates = Certificates(data.tls, names_of(settings.host), clock)
        engine = NativeEngine(node, certificates.name_spaces, clock)
        computed = MemoryStore(clock)
        manager = Manager(store, engine, clock, computed)
        await manager.catch_up()
        tls = certificates.ensure()
        endpoints = listen(settings, node, tls)
        process = _Process(node, engine, manager, certificates, stopping)
        platform = Platform(
            store, computed, admission, engine, Statistics(engine, clock), clock, process.is_ready
        )
        app = create_app(platform, token=ensure_token(data.token), hosts=names_of(settings.host))
        for kind, port in (("http", settings.http_port), ("https", settings.https_port)):
            if port is not None:
                listener = stack.enter_context(bind(settings.host, port))
                endpoints[kind] = Endpoint(settings.host, listener.getsockname()[1])
                secured = tls if kind == "https" else None
                process.servers.append(Server(app, listener, tls=secured))
        write_kubeconfig(data, endpoints.get("https"), tls)
        ready = Ready(os.getpid(), endpoints, meeting(store.list()))
        data.write_endpoint(ready.document())
        await process.run(lambda: announce(ready))


async def declare(admission: Admission, store: Store, files: Sequence[str]) -> None:
    """Add and change what files declare; with none and an empty store, the defaults.

    All files are one request: if one document is bad, nothing is changed.
    """
    if not files and not store.list("AddressSpace"):
        await admission.apply(default_resources())
    declared = with_default_space(load_files(files), store)
    try:
        await admission.apply(declared)
    except EnMasseError as error:
        error.message = f"{', '.join(files)}: {error.message}" if files else error.message
        raise


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


def write_kubeconfig(data: DataDir, https: Endpoint | None, tls: TlsFiles) -> None:
    """Say how kubectl finds this process: the server, and the files of its CA and of the token."""
    if https is None:
        data.kubeconfig.unlink(missing_ok=True)
        return
    name = "enmasse"
    cluster = {
        "server": url("https", *https),
        "certificate-authority": str(tls.ca.resolve()),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"tokenFile": str(data.token.resolve())}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    write_private(data.kubeconfig, yaml.safe_dump(document, sort_keys=False))


def raise_open_files_limit() -> None:
    """Let the process open as many files and sockets as it may without asking."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@dataclass(slots=True)
class Certificates:
    """The certificate files of the data folder, kept valid while the process runs.

    The node's own certificate names the machine and every address space, so that a client may name
    its space as the TLS server. Listeners look at the files again by themselves.
    """

    folder: Path
    names: Sequence[str]
    clock: Clock
    spaces: Sequence[str] = ()

    def ensure(self) -> TlsFiles:
        """Return valid files, making or renewing what must be."""
        return ensure_certificates(self.folder, [*self.names, *self.spaces], self.clock)

    async def name_spaces(self, plan: Plan) -> None:
        """Name the spaces of a Plan, before it is served."""
        named = plan.spaces[:SPACES_NAMED_MAX]
        spaces = sorted({name for space in named for name in space.names} - set(self.names))
        if spaces != self.spaces:
            self.spaces = spaces
            await self._renew()

    async def keep_valid(self) -> None:
        """Renew in time until cancelled."""
        while True:
            await self.clock.sleep(RENEWAL_CHECK_S)
            await self._renew()

    async def _renew(self) -> None:
        try:
            await asyncio.to_thread(self.ensure)
        except (EnMasseError, OSError) as error:
            log.error("certificates cannot be renewed", reason=str(error))


class _Process:
    """The tasks of a running platform."""

    def __init__(
        self,
        node: Node,
        engine: NativeEngine,
        manager: Manager,
        certificates: Certificates,
        stopping: asyncio.Event,
    ) -> None:
        self.servers: list[Server] = []
        self._node = node
        self._engine = engine
        self._manager = manager
        self._certificates = certificates
        self._stopping = stopping

    def is_ready(self) -> bool:
        """Whether the process serves and is not about to stop."""
        return not self._stopping.is_set()

    async def run(self, announce: Callable[[], None]) -> None:
        """Run all tasks until told to stop; then close links, settle, and end them."""
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._manager.run(), name="control"),
                tasks.create_task(self._engine.log_events(), name="events"),
                tasks.create_task(self._engine.watch_journal(), name="journal"),
                tasks.create_task(self._certificates.keep_valid(), name="certificates"),
            ]
            for server in self.servers:
                tasks.create_task(server.run_until_stopped(), name="http")
            announce()
            log.info("ready")
            await self._stopping.wait()
            log.info("stopping")
            for server in self.servers:
                server.stop()
            await asyncio.to_thread(self._node.stop, STOP_TIMEOUT_S)
            for task in background:
                task.cancel()
        log.info("stopped")


def _stop_on_signals() -> asyncio.Event:
    """Return an event that the first SIGTERM or SIGINT sets; a second one ends the process."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    return stopping
