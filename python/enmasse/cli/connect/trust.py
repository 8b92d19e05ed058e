"""Trust of messaging servers: by the CA of the command's address space."""

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
    """The CA to trust, and the TLS server name."""

    authorities: str
    """PEM."""

    server_name: str

    @contextmanager
    def file(self) -> Iterator[Path]:
        """Write the CAs to a file for the duration of the block."""
        with tempfile.NamedTemporaryFile("w", suffix=".crt") as file:
            file.write(self.authorities)
            file.flush()
            yield Path(file.name)


def of_space(space: Mapping[str, Any]) -> Trust | None:
    """Return the trust settings for a space's server; None if its status has no CA."""
    encoded = space.get("status", {}).get("caCert")
    if not encoded:
        return None
    metadata = space["metadata"]
    name = f"{metadata['name']}.{metadata.get('namespace', 'default')}"
    return Trust(base64.b64decode(encoded).decode(), name)


def handshake_problem(space: Mapping[str, Any]) -> str | None:
    """Return why TLS fails for a client that trusts the space's CA only; None if it works, if the
    server is unreachable, or if the status has no address or CA.
    """
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
        return None  # Unreachable from here, which may be intended.
