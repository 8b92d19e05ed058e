"""HTTP inside the process: our own socket and signals, uvicorn's protocol."""

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from enmasse.api.peers import BoundedConfig
from enmasse.api.waiting import Bounds
from enmasse.auth.certificates import TlsFiles
from enmasse.base.errors import Code, Unavailable

BACKLOG = 128

GRACE_S = 1
"""Time for running requests when the process stops; watches are ended after it."""


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket on `port` of `host`; 0 is a free port.

    Raises: Unavailable if that cannot be; the message names the address and the mend.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sends what it has at once (TCP_NODELAY) only where a socket says that it is TCP
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise Unavailable(
            Code.PORT_TAKEN,
            f"cannot listen on {host}:{port}: {error.strerror};"
            " free it, or choose another port (0 is a free one)",
        ) from None
    listener.setblocking(False)
    return listener


class Server(uvicorn.Server):
    """An HTTP server that runs as one task of the process and leaves signals to it."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        bounds: Bounds | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        """Serve `app` on `listener`, over TLS with these files if there are any."""
        super().__init__(
            BoundedConfig(
                app,
                bounds or Bounds(),
                tls,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._listener = listener

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signal handlers alone."""
        yield

    async def run_until_stopped(self) -> None:
        """Serve until `stop`."""
        await self.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Take no more requests, and end `run_until_stopped` when the running ones are done."""
        self.should_exit = True
