"""A proxy that can be cut: no more bytes pass, and neither side is notified."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from kube.server import KubeServer
from postgres_server import PostgresServer


class Way:
    """Passes bytes on between whoever connects to its port and a server, until it is cut."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._to = port
        self._cut = threading.Event()
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._take_in)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """Swallow all bytes from now on, those of new connections too."""
        self._cut.set()

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _start(self, run: object, *arguments: socket.socket) -> None:
        assert callable(run)
        thread = threading.Thread(target=run, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _take_in(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += [near, far]
                self._start(self._pass_on, near, far)
                self._start(self._pass_on, far, near)

    def _pass_on(self, from_: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while part := from_.recv(1 << 16):
                if not self._cut.is_set():
                    to.sendall(part)
            if not self._cut.is_set():
                to.shutdown(socket.SHUT_WR)


@contextmanager
def way_to(server: PostgresServer | KubeServer, url: str) -> Iterator[tuple[Way, str]]:
    """A way to a server, and the URL of the same store by it."""
    way = Way(server.port)
    try:
        yield way, _by(way, server, url)
    finally:
        way.close()


def _by(way: Way, server: PostgresServer | KubeServer, url: str) -> str:
    if isinstance(server, PostgresServer):
        return url.replace(f":{server.port}/", f":{way.port}/")
    own = Path(url.partition("kubeconfig=")[2])
    document = yaml.safe_load(own.read_text())
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{way.port}"
    other = own.with_name(f"by-{way.port}.yaml")
    other.write_text(yaml.safe_dump(document))
    return url.replace(str(own), str(other))
