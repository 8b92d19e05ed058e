"""The servers of `make bench`: the node, the bare forwarder, two brokers; on loopback only."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
CACHE = ROOT / ".cache" / "bench"
START_S = 90
"""How long a broker may take to start."""
WARM_S = 30
"""A Java broker reaches its speed after half a minute."""
QUEUES = 40
"""Queues of each kind; each run uses a fresh one."""
NOISY_LIMIT = 10_000
"""Messages a second that the plan of the noisy neighbour allows."""
STREAMS = ("stream/small", "stream/large")
ARTEMIS = "2.44.0"
PASSWORD = "bench-password"


@dataclass
class Server:
    """A running server: its URL, the processes whose CPU counts, and the options of its clients."""

    name: str
    url: str
    pids: list[int]
    options: dict[str, str] = field(default_factory=dict)
    address: str | None = None
    stored: str | None = None
    """Address of a queue with synced writes, if it differs; a number replaces `{run}`."""
    http: str | None = None
    cold_s: float = 0
    """Seconds of load until the server reaches its speed."""


class Unavailable(Exception):
    """The server is not available here; the text is one line for the user."""


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(process: subprocess.Popen[str]) -> None:
    """Terminate a process; kill it if it does not end."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def await_port(port: int, process: subprocess.Popen[str], what: str) -> None:
    """Return once a process listens on a port; raises Unavailable after `START_S`."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Unavailable(f"{what} ended at start with code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise Unavailable(f"{what} did not listen within {START_S} s")


def _manifest(path: Path, kind: str) -> None:
    base = "apiVersion: enmasse.io/v1beta1\n"
    documents = [
        f"{base}kind: AddressSpace\nmetadata: {{name: default}}\nspec: {{type: standard}}\n"
    ]
    addresses = [("anycast", "anycast"), ("multicast", "multicast")]
    if kind == "many":
        addresses += [(f"many/{number}", "anycast") for number in range(10_000)]
    if kind in ("stored", "depth", "empty", "queues"):
        count = 10_000 if kind == "queues" else QUEUES
        addresses += [(f"queue/{number}", "queue") for number in range(count)]
    if kind == "shared":
        addresses += [(f"queue/{number}", "queue, deadletter: dead") for number in range(4)]
        addresses += [("dead", "deadletter")]
    if kind == "streams":
        addresses += [(name, "topic, retention: {bytes: 100GiB}") for name in STREAMS]
    if kind == "stored":
        memory = "queue, durability: memory"
        addresses += [(f"memory/{number}", memory) for number in range(QUEUES)]
    for name, type_ in addresses:
        metadata = f"metadata: {{name: default.{name.replace('/', '-')}}}"
        spec = f"spec: {{address: {name}, type: {type_}}}"
        documents.append(f"{base}kind: Address\n{metadata}\n{spec}\n")
    if kind == "neighbours":
        documents += _neighbours(base)
    if kind == "tenants":
        documents += _tenants(base)
    if kind == "secure":
        password = base64.b64encode(PASSWORD.encode()).decode()
        documents.append(
            f"{base}kind: MessagingUser\nmetadata: {{name: default.bench}}\n"
            "spec:\n  username: bench\n"
            f"  authentication: {{type: password, password: {password}}}\n"
            "  authorization: [{addresses: ['*'], operations: [send, recv]}]\n"
        )
    path.write_text("---\n".join(documents))


def _tenants(base: str) -> list[str]:
    """A queue in the first space, and a second space with one and a direct address."""
    address = f"{base}kind: Address\nmetadata: {{name: %s.queue}}\n"
    return [
        f"{base}kind: AddressSpace\nmetadata: {{name: noisy}}\nspec: {{type: standard}}\n",
        *(
            address % space + "spec: {address: queue, type: queue}\n"
            for space in ("default", "noisy")
        ),
        f"{base}kind: Address\nmetadata: {{name: noisy.direct}}\n"
        "spec: {address: direct, type: anycast, plan: standard-small-anycast}\n",
    ]


def _neighbours(base: str) -> list[str]:
    """A second space, whose plan bounds what it sends a second."""
    plan = "apiVersion: admin.enmasse.io/v1beta2\nkind: AddressSpacePlan\n"
    return [
        f"{plan}metadata: {{name: bounded}}\n"
        "spec:\n  addressSpaceType: standard\n  infraConfigRef: default\n"
        "  addressPlans: [standard-small-anycast]\n"
        "  resourceLimits: {router: 1, broker: 1, aggregate: 2}\n"
        f"  limits: {{messagesPerSecond: {NOISY_LIMIT}}}\n",
        f"{base}kind: AddressSpace\nmetadata: {{name: noisy}}\n"
        "spec: {type: standard, plan: bounded}\n",
        f"{base}kind: Address\nmetadata: {{name: noisy.anycast}}\n"
        "spec: {address: anycast, type: anycast, plan: standard-small-anycast}\n",
    ]


@contextlib.contextmanager
def node(
    folder: Path, kind: str = "node", checkout: Path = ROOT, workers: int = 0
) -> Iterator[Server]:
    """`enmasse up`; `secure` has users and TLS, `many` 10,000 addresses, `queues` 10,000 queues,
    `shared` four queues with one dead-letter address, `neighbours` a second space, `noisy`, with a
    bound, `tenants` one without, and a queue in each.

    A second node of the same kind in the same folder reuses the data of the first. `workers` as in
    `enmasse up`.
    """
    data = folder / kind
    manifest = folder / f"{kind}.yaml"
    _manifest(manifest, kind)
    command = [
        str(checkout / ".venv/bin/enmasse"),
        "up",
        "--output",
        "json",
        "--data",
        str(data),
        "-f",
        str(manifest),
    ]
    command += ["--workers", str(workers)]
    for name in ("amqp", "amqps", "http"):
        command += [f"--{name}-port", "0"]
    for name in ("ws", "wss", "https", "mqtt", "mqtts"):
        command += [f"--{name}-port", "off"]
    # As installed: without its bytecode a start is mostly compilation.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with (folder / f"{kind}.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Unavailable(f"enmasse up ended at start: see {folder / f'{kind}.log'}")
        endpoints = json.loads(line)["endpoints"]
        if kind == "secure":
            url = f"amqps://bench:{PASSWORD}@localhost:{endpoints['amqps']['port']}"
            yield Server("EnMasse", url, [process.pid], {"ca": str(data / "tls" / "ca.crt")})
        else:
            url = f"amqp://127.0.0.1:{endpoints['amqp']['port']}"
            http = f"http://127.0.0.1:{endpoints['http']['port']}"
            yield Server("EnMasse", url, [process.pid], http=http)
    finally:
        stop(process)


@contextlib.contextmanager
def forwarder() -> Iterator[Server]:
    """The bare forwarder: the limit of the machine."""
    program = TARGET / "enmasse-forwarder"
    process = subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        yield Server("forwarder", f"amqp://{address}", [process.pid], {"mechanism": "ANONYMOUS"})
    finally:
        stop(process)


def _artemis_home() -> Path:
    home = CACHE / f"apache-artemis-{ARTEMIS}"
    if home.is_dir():
        return home
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        raise Unavailable("Artemis needs Maven and a JDK: install maven and default-jdk")
    artifact = f"org.apache.activemq:apache-artemis:{ARTEMIS}:zip:bin"
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    got = subprocess.run(
        [maven, "-q", "-B", plugin, f"-Dartifact={artifact}", f"-DoutputDirectory={CACHE}"],
        capture_output=True,
        text=True,
    )
    if got.returncode != 0:
        raise Unavailable("Artemis could not be fetched by Maven")
    with zipfile.ZipFile(CACHE / f"apache-artemis-{ARTEMIS}-bin.zip") as archive:
        archive.extractall(CACHE)
    (home / "bin" / "artemis").chmod(0o755)
    return home


@contextlib.contextmanager
def artemis(folder: Path) -> Iterator[Server]:
    """Apache Artemis with its NIO journal, which is idle while messages are not durable."""
    home, port, instance = _artemis_home(), free_port(), folder / "artemis"
    create = [
        str(home / "bin/artemis"),
        "create",
        str(instance),
        "--silent",
        "--user",
        "admin",
        "--password",
        "admin",
    ]
    create += [
        "--allow-anonymous",
        "--host",
        "127.0.0.1",
        "--default-port",
        str(port),
        "--no-amqp-acceptor",
    ]
    create += [
        "--no-mqtt-acceptor",
        "--no-stomp-acceptor",
        "--no-hornetq-acceptor",
        "--no-web",
        "--nio",
    ]
    create += ["--no-autotune"]
    made = subprocess.run(create, capture_output=True, text=True)
    if made.returncode != 0:
        raise Unavailable("Artemis could not make a broker instance")
    with (folder / "artemis.log").open("w") as log:
        process = subprocess.Popen(
            [str(instance / "bin/artemis"), "run"],
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        await_port(port, process, "Artemis")
        options = {"capability": "queue", "mechanism": "ANONYMOUS"}
        url = f"amqp://127.0.0.1:{port}"
        yield Server("Artemis", url, _children(process.pid), options, "bench", cold_s=WARM_S)
    finally:
        for pid in _children(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 15)
        stop(process)


def resident_kib(pids: list[int]) -> int:
    """Resident memory of processes together."""
    found = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return found


def cpu_s(pids: list[int]) -> float:
    """Seconds of CPU that processes have used so far."""
    # utime and stime follow the name, which may contain blanks.
    fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")


def disk_bytes(pids: list[int]) -> int:
    """Bytes that processes have read from the disk so far, without reads from the page cache."""
    found = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        found += sum(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))
    return found


def _children(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        listing = Path(f"/proc/{parent}/task/{parent}/children")
        with contextlib.suppress(OSError):
            found += [int(child) for child in listing.read_text().split()]
    return found


@contextlib.contextmanager
def rabbitmq(folder: Path) -> Iterator[Server]:
    """The distribution's RabbitMQ with its AMQP 1.0 plugin: classic queues, which attach creates,
    and quorum queues for stored messages, because a classic queue accepts before its fsync.
    """
    programs = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    if not programs:
        raise Unavailable(
            "RabbitMQ is not installed: apt-get install --no-install-recommends rabbitmq-server"
        )
    port, epmd_port, home = free_port(), str(free_port()), folder / "rabbitmq"
    home.mkdir()
    (home / ".erlang.cookie").write_text("bench")
    (home / ".erlang.cookie").chmod(0o400)
    (home / "plugins").write_text("[rabbitmq_amqp1_0].")
    (home / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{port}\namqp1_0.default_user = guest\nloopback_users = none\n"
    )
    environment = {
        **os.environ,
        "HOME": str(home),
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": epmd_port,
    }
    with (folder / "rabbitmq.log").open("w") as log:
        process = subprocess.Popen(
            [str(programs[-1])],
            env=environment,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        await_port(port, process, "RabbitMQ")
        _declare_quorum_queues(programs[-1].parent / "rabbitmqctl", environment)
        url = f"amqp://guest:guest@127.0.0.1:{port}"
        pids, options = _children(process.pid), {"mechanism": "PLAIN"}
        yield Server(
            "RabbitMQ", url, pids, options, "/queue/bench", stored="/amq/queue/quorum-{run}"
        )
    finally:
        for pid in reversed(_children(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 15)
        stop(process)
        # Erlang's name server outlives the node that started it
        subprocess.run(["epmd", "-port", epmd_port, "-kill"], capture_output=True)


def _declare_quorum_queues(control: Path, environment: dict[str, str]) -> None:
    """Create quorum queues: the plugin creates classic ones only."""
    name = '{resource, <<"/">>, queue, iolist_to_binary(["quorum-", integer_to_list(N)])}'
    kind = '[{<<"x-queue-type">>, longstr, <<"quorum">>}]'
    declare = f'rabbit_amqqueue:declare({name}, true, false, {kind}, none, <<"bench">>)'
    every = f"[{declare} || N <- lists:seq(0, {QUEUES - 1})], ok."
    command = [str(control), "-n", environment["RABBITMQ_NODENAME"], "eval", every]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"RabbitMQ made no quorum queues: {done.stderr.strip()}")
