"""`enmasse up`: constructs the parts in order, runs them, shuts them down.

Every step that can refuse a start happens before the first task runs: the data folder, the
documents, the node's reply to the Plan, the listeners. Then the process is ready and runs until it
is stopped.
"""

import asyncio
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import structlog
import yaml
from starlette.types import ASGIApp

from enmasse.api import Platform, Server, bind, create_app
from enmasse.api.history.history import History
from enmasse.api.monitoring.statistics import Statistics
from enmasse.api.trail.audit import FILE_BYTES_MAX, FILES
from enmasse.api.trail.creations import CreationTrail
from enmasse.api.trail.logins import LoginTrail
from enmasse.auth.certificates import TlsFiles
from enmasse.auth.token import ensure_token
from enmasse.base.clock import Clock, SystemClock
from enmasse.base.data_dir import DataDir, write_private
from enmasse.base.errors import Code, EnMasseError, Invalid
from enmasse.base.hosts import is_loopback
from enmasse.base.rotated import RotatedFile
from enmasse.base.service_manager import ServiceManager
from enmasse.base.settings import KUBERNETES, SQLITE, Settings
from enmasse.cli.connect.network import check_host, names_of, platform_names, url
from enmasse.cli.resources.files import load_files
from enmasse.cli.serve.console import console_options
from enmasse.cli.serve.hints import SuggestedAddress, suggested_address
from enmasse.cli.serve.leader import Certificates, Endpoint, Leader, beside
from enmasse.cli.serve.store_binding import Belonging
from enmasse.control import Admission
from enmasse.control.admission_checks import NamespaceBounds
from enmasse.control.default_plans import platform_resources
from enmasse.control.defaults import default_resources, with_default_space
from enmasse.control.heartbeats import Facts, Heartbeats, Member
from enmasse.control.node_start import start_node
from enmasse.control.schema_sync import sync_schemas
from enmasse.engines.standby import Standby
from enmasse.store import MemoryStore, Store
from enmasse.store.nodes import Identity
from enmasse.store.protocol import Leadership
from enmasse.store.sqlite import SqliteStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ready:
    """The readiness report of a process."""

    pid: int
    endpoints: dict[str, Endpoint]
    suggested_address: SuggestedAddress | None = None
    """An address for a first message."""

    has_users: bool = True
    """Whether any user can log in."""

    sockets: Mapping[str, Path] = field(default_factory=dict)
    """Paths of Unix sockets by protocol."""

    def document(self) -> dict[str, object]:
        """Return it as plain data."""
        report: dict[str, object] = {"ready": True, "pid": self.pid, "endpoints": self.places()}
        if self.sockets:
            report["sockets"] = {protocol: str(path) for protocol, path in self.sockets.items()}
        return report

    def places(self) -> dict[str, object]:
        """Return the host and port of every listener as plain data."""
        return {name: place._asdict() for name, place in self.endpoints.items()}


async def serve(
    settings: Settings,
    files: Sequence[str],
    announce: Callable[[Ready], None],
    *,
    upgrade_data: bool = False,
) -> None:
    """Run the platform until SIGTERM or SIGINT; call `announce` once everything listens.

    `upgrade_data` converts a data folder of an older format.

    Raises: EnMasseError with cause and remedy in one line if it cannot start.
    """
    stopping = _stop_on_signals()
    service_manager = ServiceManager.of(os.environ)
    clock = SystemClock()
    raise_open_files_limit()
    check_host(settings.host)
    # The lock comes first and the listeners last: clients find a complete platform.
    async with AsyncExitStack() as stack:
        data = stack.enter_context(DataDir(settings.data, upgrade=upgrade_data))
        store, identity = await join(stack, settings, data, clock)
        admission = await prepare(store, settings, files)
        certificates = Certificates(data.tls, names_of(settings.host, settings.host_names), clock)
        engine, computed = Standby(), await open_computed(store, clock)
        stack.push_async_callback(computed.close)
        trail, logins = open_trails(stack, data)
        trails = CreationTrail(trail, clock), LoginTrail(logins, clock)
        leader = Leader(settings, data, (store, computed), certificates, trails, admission)
        stack.callback(leader.stop)
        endpoints: dict[str, Endpoint] = {}
        member = Member(store, identity, settings.zone)
        heartbeats = heartbeats_of(member, engine, leader, endpoints, clock)
        stack.push_async_callback(heartbeats.stop)
        heartbeats.follow_cordon()
        leads = await takes_lead(store.leadership, heartbeats)
        if leads:
            # Another process of the name would take a long start without them for a stop.
            started, places = await beside(heartbeats.run(), leader.start())
            engine.activate(started)
            endpoints.update(places)
        process = _Process(
            (store, computed), leader, heartbeats, certificates, stopping, service_manager
        )
        platform = Platform(
            store,
            computed,
            admission,
            engine,
            Statistics(engine, clock),
            clock,
            process.is_ready,
            history=lambda: process.history if engine.leads else None,
            endpoints=lambda: Ready(0, endpoints).places(),
            data=lambda: data if engine.leads else None,
            is_cordoned=lambda: heartbeats.is_cordoned,
        )
        tls, token = certificates.ensure(), ensure_token(data.token)
        app = api_of(platform, settings, token, trail, logins)
        endpoints |= process.listen(app, listening(stack, settings), settings.host, tls)
        leader.serves_pages_at(endpoints)
        write_kubeconfig(data, endpoints.get("https"), tls, token)
        ready = ready_of(endpoints, store, settings, leads=leads)
        data.write_endpoint(ready.document())

        async def take_over() -> None:
            started, places = await leader.start()
            engine.activate(started)
            endpoints.update(places)
            now = Ready(os.getpid(), endpoints, sockets=sockets_of(settings))
            tell_leadership(now, data, service_manager)

        process.history = History(data.history, platform.statistics.shared, clock)
        stack.push_async_callback(process.history.close)
        told = partial(tell_ready, announce, ready, service_manager, leads=leads)
        await process.run(told, None if leads else take_over)


async def takes_lead(leadership: Leadership | None, heartbeats: Heartbeats) -> bool:
    """Whether a process leads from its start.

    Raises: Unavailable if that is unknown.
    """
    if leadership is None:
        return True
    return await heartbeats.may_lead() and await leadership.take()


def heartbeats_of(
    member: Member, engine: Standby, leader: Leader, endpoints: dict[str, Endpoint], clock: Clock
) -> Heartbeats:
    """Return the heartbeats of this process; `endpoints` changes when it leads."""

    def facts() -> Facts:
        places = {name: place._asdict() for name, place in endpoints.items()}
        return Facts(engine.leads, places, leader.proof)

    return Heartbeats(member, engine, clock, facts, leader.cordon)


def api_of(
    platform: Platform, settings: Settings, token: str, trail: RotatedFile, logins: RotatedFile
) -> ASGIApp:
    """Return the API of a platform; `token` is the owner's."""
    return create_app(
        platform,
        token=token,
        hosts=names_of(settings.host, settings.host_names),
        trail=trail,
        logins=logins,
        exposed=is_exposed(settings),
        console=console_options(settings),
    )


def tell_ready(
    announce: Callable[[Ready], None], ready: Ready, manager: ServiceManager, *, leads: bool
) -> None:
    """Report readiness to the user and to the service manager."""
    announce(ready)
    manager.ready(status_of(ready, leads=leads))


def tell_leadership(ready: Ready, data: DataDir, manager: ServiceManager) -> None:
    """Report the listeners of a process that has become leader."""
    data.write_endpoint(ready.document())
    manager.status(status_of(ready, leads=True))


def open_trails(stack: AsyncExitStack, data: DataDir) -> tuple[RotatedFile, RotatedFile]:
    """Open the audit trails of requests and logins; `stack` closes them."""
    requests, logins = (
        stack.enter_context(closing(RotatedFile(file, file_bytes_max=FILE_BYTES_MAX, files=FILES)))
        for file in (data.audit, data.logins)
    )
    return requests, logins


def listening(stack: AsyncExitStack, settings: Settings) -> Iterator[tuple[str, socket.socket]]:
    """Open the enabled listeners of the API; `stack` closes them."""
    for kind, port in (("http", settings.http_port), ("https", settings.https_port)):
        if port is not None:
            yield kind, stack.enter_context(bind(settings.host, port))


def ready_of(
    endpoints: dict[str, Endpoint], store: Store, settings: Settings, *, leads: bool
) -> Ready:
    """Return the readiness report for `endpoints`."""
    place = suggested_address(store.list(), exposed=is_exposed(settings))
    sockets = sockets_of(settings) if leads else {}
    return Ready(os.getpid(), endpoints, place, bool(store.list("MessagingUser")), sockets)


def sockets_of(settings: Settings) -> dict[str, Path]:
    """Return the paths of the Unix sockets of a leader, by protocol."""
    return {} if settings.mqtt_socket is None else {"mqtt": settings.mqtt_socket}


def status_of(ready: Ready, *, leads: bool) -> str:
    """Return the role of a process and its listeners, in one line."""
    role = "leader" if leads else "stand-by: another process of this store leads"
    return f"{role}; {', '.join(f'{name} {at.port}' for name, at in ready.endpoints.items())}"


async def join(
    stack: AsyncExitStack, settings: Settings, data: DataDir, clock: Clock
) -> tuple[Store, Identity]:
    """Open the configured store, which `stack` closes, and become one of its nodes.

    Raises: Conflict if another process or folder is the node, or the folder has messages of another
        store.
    """
    store = await open_store(settings, data, clock)
    stack.push_async_callback(store.close)
    Belonging(data, store, clock).verify()
    return store, await start_node(data, settings.node_name or None, store, clock)


async def open_store(settings: Settings, data: DataDir, clock: Clock) -> Store:
    """Open the configured store."""
    if settings.store == SQLITE:
        return await SqliteStore.open(data.resources_db, clock)
    if urlsplit(settings.store).scheme == KUBERNETES:
        # Imported on demand: other stores do not need its modules, such as an HTTP client.
        from enmasse.store.kubernetes import KubernetesStore

        return await KubernetesStore.open(settings.store, clock)
    try:
        # The driver is needed for a database only.
        from enmasse.store.postgres import PostgresStore
    except ImportError as error:
        raise Invalid(
            Code.SETTING_INVALID,
            f"setting store: the PostgreSQL driver is not installed ({error});"
            " run pip install 'enmasse[postgresql]'",
        ) from None
    return await PostgresStore.open(settings.store, clock)


async def prepare(store: Store, settings: Settings, files: Sequence[str]) -> Admission:
    """Create the default resources and those of `files`; return the admission of the store."""
    admission = guard(store, settings)
    await admission.create_defaults(platform_resources())
    await declare(admission, store, files)
    await admission.check()
    await admission.ensure_namespaces()
    return admission


def guard(store: Store, settings: Settings) -> Admission:
    """Return the admission of a store with the configured limits."""
    bounds = NamespaceBounds(
        settings.namespace_resources_max,
        settings.namespace_data_bytes_max,
        settings.namespace_plans,
    )
    return Admission(
        store,
        exposed=is_exposed(settings),
        hosts=platform_names(settings.host, settings.host_names),
        bounds=bounds,
    )


def is_exposed(settings: Settings) -> bool:
    """Whether other machines can reach the listeners without --insecure."""
    return not is_loopback(settings.host) and not settings.insecure


async def open_computed(store: Store, clock: Clock) -> Store:
    """Open the store of generated resources: in the database if several processes share one, else
    in memory.
    """
    if store.leadership is None or not store.writes_together:
        return MemoryStore(clock)
    from enmasse.store.postgres import COMPUTED_TABLES, PostgresStore

    assert isinstance(store, PostgresStore)
    return await store.open_beside(COMPUTED_TABLES)


async def declare(admission: Admission, store: Store, files: Sequence[str]) -> None:
    """Apply the resources of files; without files and with an empty store, the defaults.

    All files are one request: if one document is invalid, nothing changes.
    """
    if not files and not store.list("AddressSpace"):
        await admission.apply(default_resources())
    declared = with_default_space(load_files(files), store)
    try:
        await admission.apply(declared)
    except EnMasseError as error:
        error.message = f"{', '.join(files)}: {error.message}" if files else error.message
        raise


def write_kubeconfig(data: DataDir, https: Endpoint | None, tls: TlsFiles, token: str) -> None:
    """Return the kubeconfig of this process: server, CA file, and the owner's token.

    The token itself, not its file, because kubectl would prefer the file to `--token`.
    """
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
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    write_private(data.kubeconfig, yaml.safe_dump(document, sort_keys=False))


def raise_open_files_limit() -> None:
    """Raise the soft limit of open files to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Process:
    """The tasks of a running platform."""

    def __init__(
        self,
        stores: tuple[Store, Store],
        leader: Leader,
        heartbeats: Heartbeats,
        certificates: Certificates,
        stopping: asyncio.Event,
        service_manager: ServiceManager,
    ) -> None:
        self.servers: list[Server] = []
        self.history: History | None = None
        self._store, self._computed = stores
        self._leader = leader
        self._heartbeats = heartbeats
        self._certificates = certificates
        self._stopping = stopping
        self._service_manager = service_manager
        self._failure: EnMasseError | None = None

    def listen(
        self,
        app: ASGIApp,
        listeners: Iterator[tuple[str, socket.socket]],
        host: str,
        tls: TlsFiles,
    ) -> dict[str, Endpoint]:
        """Add a server for each listener; return their endpoints."""
        endpoints = {}
        for kind, listener in listeners:
            endpoints[kind] = Endpoint(host, listener.getsockname()[1])
            self.servers.append(Server(app, listener, tls=tls if kind == "https" else None))
        return endpoints

    def is_ready(self) -> bool:
        """Whether the process serves and is not stopping."""
        return not self._stopping.is_set()

    async def run(
        self, announce: Callable[[], None], take_over: Callable[[], Awaitable[None]] | None
    ) -> None:
        """Run all tasks until stopped; then close links, settle, and end the tasks.

        `take_over` waits for leadership of another process.

        Raises: EnMasseError if this process loses leadership or cannot take it.
        """
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._store.follow(), name="store"),
                tasks.create_task(self._computed.follow(), name="computed"),
                tasks.create_task(self._lead(take_over), name="control"),
                tasks.create_task(self._until_replaced(), name="heartbeats"),
                tasks.create_task(self._certificates.keep_valid(), name="certificates"),
                tasks.create_task(self._service_manager.keep_alive(SystemClock()), name="watchdog"),
                tasks.create_task(self._keep_history(), name="history"),
            ]
            for server in self.servers:
                tasks.create_task(server.run_until_stopped(), name="http")
            announce()
            log.info("ready")
            await self._stopping.wait()
            log.info("stopping")
            self._service_manager.stopping()
            for server in self.servers:
                server.stop()
            await self._leader.close()
            for task in background:
                task.cancel()
        log.info("stopped")
        if self._failure is not None:
            raise self._failure

    async def _until_replaced(self) -> None:
        try:
            await self._heartbeats.run()
        except EnMasseError as error:
            # Two processes must not be one node.
            self._failure = error
            self._stopping.set()

    async def _keep_history(self) -> None:
        if self.history is not None:
            await self.history.run(lambda: self._leader.leads)

    async def _stand_by(self, leadership: Leadership) -> None:
        """Return once this process leads. Until then show the leader's generated resources if they
        are shared; otherwise generate schemas here.
        """
        if self._computed.leadership is not None:
            await leadership.gain(self._heartbeats.may_lead)
            return
        async with asyncio.TaskGroup() as tasks:
            showing = tasks.create_task(sync_schemas(self._store, self._computed), name="schemas")
            await leadership.gain(self._heartbeats.may_lead)
            showing.cancel()

    async def _lead(self, take_over: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if take_over is not None and self._store.leadership is not None:
                log.info("standing by")
                await self._stand_by(self._store.leadership)
                await take_over()
            await self._leader.run()
        except EnMasseError as error:
            # A restart makes it a stand-by again: its clients must find the new leader anyway.
            self._failure = error
            self._stopping.set()


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
