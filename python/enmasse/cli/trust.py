"""How commands trust a messaging server: by the authority of the address space they are about."""

import base64
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HANDSHAKE_TIMEOUT_S = 5.0


class Trust(NamedTuple):
    """Whom to trust, and what the server has to be called."""

    authorities: str
    """PEM."""

    server_name: str

    @contextmanager
    def file(self) -> Iterator[Path]:
        """Have the authorities in a file for as long as the block lasts."""
        with tempfile.NamedTemporaryFile("w", suffix=".crt") as file:
            file.write(self.authorities)
            file.flush()
            yield Path(file.name)


def of_space(space: Mapping[str, Any]) -> Trust | None:
    """Return how the server of a space is trusted; None if its status names no authority."""
    encoded = space.get("status", {}).get("caCert")
    if not encoded:
        return None
    metadata = space["metadata"]
    name = f"{metadata['name']}.{metadata.get('namespace', 'default')}"
    return Trust(base64.b64decode(encoded).decode(), name)


def handshake_problem(space: Mapping[str, Any]) -> str | None:
    """Return why a client that trusts the authority of a space, and no other, cannot begin TLS with
    it; None if it can, if nobody is reached, or if its status says not where or whom to trust."""
    trust = of_space(space)
    places = [
        (one["serviceHost"], port["port"])
        for one in space["status"].get("endpointStatuses") or ()
        for port in one.get("servicePorts") or ()
        if port["name"] == "amqps" and one.get("serviceHost")
    ]
    if trust is None or not places:
        return None
    try:
        context = ssl.create_default_context(cadata=trust.authorities)
        with (
            socket.create_connection(places[0], timeout=HANDSHAKE_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=trust.server_name),
        ):
            return None
    except ssl.SSLError as error:
        host, port = places[0]
        return f"TLS with {host}:{port} as {trust.server_name} fails: {error}"
    except OSError:
        return None  # It cannot be reached from here, which need not be meant.
