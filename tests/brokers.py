"""Brokers of others for tests: got from packages, kept in the user's cache, started on loopback."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CACHE = Path.home() / ".cache" / "enmasse"
START_S = 120.0
POLL_S = 0.2
ARTEMIS = "2.44.0"
DEBIAN = "trixie"
"""The release whose RabbitMQ speaks AMQP 1.0 by itself: 4.0."""


@dataclass(frozen=True)
class Broker:
    """A broker that listens."""

    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End all its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    """Return when a process listens; fail if it ends or takes too long."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"{process.args} ended with {process.wait(POLL_S)}")
    raise AssertionError(f"{process.args} did not listen within {START_S} s")


@contextmanager
def started(command: list[str], log: Path, port: int, **environment: str) -> Iterator[Broker]:
    """Run a broker until the end of the test."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | environment,
        )
    broker = Broker(f"127.0.0.1:{port}", process)
    try:
        until_listening(process, port)
        yield broker
    finally:
        broker.kill()


def artemis_home() -> Path:
    """Apache Artemis, from Maven the first time."""
    home = CACHE / f"apache-artemis-{ARTEMIS}"
    if not home.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        artifact = f"org.apache.activemq:apache-artemis:{ARTEMIS}:tar.gz:bin"
        command = ["mvn", "-q", "-B", plugin, f"-Dartifact={artifact}"]
        subprocess.run([*command, f"-DoutputDirectory={CACHE}"], check=True)
        draft = CACHE / f"artemis-{os.getpid()}"
        with tarfile.open(CACHE / f"apache-artemis-{ARTEMIS}-bin.tar.gz") as archive:
            archive.extractall(draft, filter="data")
        (draft / home.name).rename(home)
        draft.rmdir()
    return home


@contextmanager
def artemis(folder: Path, queue: str) -> Iterator[Broker]:
    """Artemis with one queue, its journal in `folder`; again in the same one it is as it was."""
    instance, port = folder / "artemis", free_port()
    if instance.exists():
        shutil.rmtree(instance / "etc")
    options = f"create {instance} --silent --force --user admin --password admin --allow-anonymous"
    options += f" --host 127.0.0.1 --default-port {port} --queues {queue}:anycast --nio --no-web"
    options += " --no-amqp-acceptor --no-mqtt-acceptor --no-stomp-acceptor --no-hornetq-acceptor"
    options += " --no-autotune --java-memory 512M"
    log = folder / "artemis.log"
    with log.open("ab") as output:
        command = [str(artemis_home() / "bin/artemis"), *options.split()]
        subprocess.run(command, check=True, stdout=output, stderr=output)
    # it would take no messages on a disk that is nearly full
    settings = instance / "etc/broker.xml"
    settings.write_text(re.sub("(?<=<max-disk-usage>)[0-9]+", "100", settings.read_text()))
    with started([str(instance / "bin/artemis"), "run"], log, port) as broker:
        yield Broker(f"amqp://admin:admin@{broker.url}", broker.process)


def rabbitmq_root() -> Path:
    """A small Debian with RabbitMQ 4, made the first time (minutes); needs root and debootstrap."""
    root = CACHE / f"rabbitmq-{DEBIAN}"
    if not root.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        if shutil.which("debootstrap") is None:
            subprocess.run(
                ["apt-get", "install", "-y", "--no-install-recommends", "debootstrap"], check=True
            )
        draft = CACHE / f"rabbitmq-{os.getpid()}"
        subprocess.run(["debootstrap", "--variant=minbase", DEBIAN, str(draft)], check=True)
        # nothing is started while it is installed
        policy = draft / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        shutil.copy("/etc/resolv.conf", draft / "etc/resolv.conf")
        install = "apt-get install -y --no-install-recommends rabbitmq-server"
        subprocess.run(within(draft, draft / "mnt", install), check=True)
        draft.rename(root)
    return root


def within(root: Path, folder: Path, command: str) -> list[str]:
    """A shell command inside another root, where `folder` is `/mnt`; its mounts end with it."""
    mounts = f"mount --bind /proc {root}/proc && mount --rbind /dev {root}/dev"
    mounts += f" && mount --bind {folder} {root}/mnt"
    script = f"{mounts} && DEBIAN_FRONTEND=noninteractive exec chroot {root} sh -c '{command}'"
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]


@contextmanager
def rabbitmq(folder: Path, **queues: str) -> Iterator[Broker]:
    """RabbitMQ 4 with queues of these types (`classic`, `quorum`, `stream`)."""
    root, port, epmd, distribution = rabbitmq_root(), free_port(), free_port(), free_port()
    home = folder / "rabbitmq"
    home.mkdir(exist_ok=True)
    if not (home / ".erlang.cookie").exists():
        (home / ".erlang.cookie").write_text("tests")
        (home / ".erlang.cookie").chmod(0o400)
    (home / "plugins").write_text("[].")
    (home / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
    environment = {
        "HOME": "/mnt",
        "RABBITMQ_NODENAME": "tests@localhost",
        "RABBITMQ_CONFIG_FILE": "/mnt/rabbitmq.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": "/mnt/plugins",
        "RABBITMQ_MNESIA_BASE": "/mnt/data",
        "RABBITMQ_LOG_BASE": "/mnt/log",
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd),
        # its end may come before it knows of that of the node
        "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",
    }
    programs = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
    server = f"/{programs.relative_to(root)}"
    command = within(root, home, f"exec {server}/rabbitmq-server")
    try:
        with started(command, folder / "rabbitmq.log", port, **environment) as broker:
            declare(
                within(root, home, f'{server}/rabbitmqctl eval "$DECLARE"'), environment, queues
            )
            yield Broker(f"amqp://guest:guest@{broker.url}", broker.process)
    finally:
        # Erlang's name server outlives the node that started it
        gone = within(root, home, f"epmd -port {epmd} -kill")
        subprocess.run(gone, env=os.environ | environment, capture_output=True)


def declare(command: list[str], environment: dict[str, str], queues: dict[str, str]) -> None:
    """Declare queues of RabbitMQ that are not there yet."""
    calls = []
    for name, kind in queues.items():
        place = f'{{resource, <<"/">>, queue, <<"{name}">>}}'
        arguments = f'[{{<<"x-queue-type">>, longstr, <<"{kind}">>}}]'
        calls.append(
            f'rabbit_amqqueue:declare({place}, true, false, {arguments}, none, <<"tests">>)'
        )
    script = ", ".join([*calls, "ok."])
    done = subprocess.run(
        command, env=os.environ | environment | {"DECLARE": script}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
