"""HTTP server of the process: our own socket and signal handling, uvicorn's protocol."""

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from enmasse.api.http.http1 import BoundedConfig
from enmasse.api.http.peer_limits import Bounds
from enmasse.auth.certificates import TlsFiles
from enmasse.base.errors import Code, Unavailable

BACKLOG = 128

WEB_SOCKET_BYTES_MAX = 2 << 20
"""Maximum bytes of a message of a WebSocket: AMQP frames have at most 1 MiB."""

GRACE_S = 1
"""Time-out for running requests at shutdown; watches are ended after it."""


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket on `port` of `host`; 0 means any free port.

    Raises: Unavailable if that fails; the message has the address and the remedy.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sets TCP_NODELAY only on sockets with an explicit protocol
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
    """An HTTP server that runs as one task and leaves signals to the process."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        bounds: Bounds | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        """Serve `app` on `listener`, over TLS if there are certificate files."""
        super().__init__(
            BoundedConfig(
                app,
                bounds or Bounds(),
                tls,
                lifespan="off",
                ws_max_size=WEB_SOCKET_BYTES_MAX,
                ws_per_message_deflate=False,
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
        """Keep the signal handlers of the process."""
        yield

    async def run_until_stopped(self) -> None:
        """Serve until `stop`."""
        await self.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Stop accepting requests; `run_until_stopped` returns once running ones end."""
        self.should_exit = True
