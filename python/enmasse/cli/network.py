"""Where a platform listens: who can reach it, by which names, and how a command finds it."""

import json
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from enmasse.base.data_dir import DataDir, default_data_dir
from enmasse.base.errors import Code, Unavailable
from enmasse.base.hosts import is_loopback

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
WILDCARDS = ("0.0.0.0", "::")
DEFAULT_PORTS = {"http": 80, "https": 443}
"""Ports that an origin leaves out."""


def check_host(host: str) -> None:
    """See that listeners can be on `host`, before any port is tried.

    Raises: Unavailable if it is no address of this machine.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError as error:
        raise Unavailable(
            Code.PORT_TAKEN,
            f"cannot listen on {host}: {error.strerror}; name an address of this machine with"
            " --host",
        ) from None


def names_of(host: str, configured: str = "") -> list[str]:
    """Return the names by which clients may call a server on `host`, for certificates and Host.

    `configured`: others, by commas.
    """
    names = [*LOOPBACK_NAMES, *filter(None, configured.split(","))]
    if not is_loopback(host):
        names.append(socket.gethostname())
        if host not in WILDCARDS:
            names.append(host)
    return sorted(set(names))


def platform_names(host: str, configured: str = "") -> list[str]:
    """Return the names that messaging clients may use without naming an address space.

    The name of the machine is one even where only the machine itself can connect.
    """
    return sorted({*names_of(host, configured), socket.gethostname()})


def origins_of(names: Iterable[str], ports: Mapping[str, int]) -> list[str]:
    """Return the origins (RFC 6454) of pages that servers of these names give out."""
    return [
        url(scheme, name, port).removesuffix(f":{DEFAULT_PORTS[scheme]}")
        for scheme, port in ports.items()
        for name in names
    ]


def reachable(host: str) -> str:
    """Return an address for clients on this machine: a wildcard listens on loopback too."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def reachable_name(host: str) -> str:
    """Return the name or address by which clients, of other machines too, call a server."""
    return socket.gethostname() if host in WILDCARDS else host


def url(scheme: str, host: str, port: int) -> str:
    """Return the URL of an endpoint, for a client on this machine."""
    name = reachable(host)
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def running(data: Path | None) -> dict[str, Any]:
    """Return what the platform of a data folder said when it was ready: pid and endpoints.

    Raises: Unavailable if no running platform uses the folder.
    """
    folder = DataDir(data or default_data_dir())
    try:
        found: dict[str, Any] = json.loads(folder.endpoint.read_text())
    except (OSError, ValueError):
        raise Unavailable(
            Code.SERVER_UNREACHABLE,
            f"no platform runs on data folder {folder.path}; start one with `enmasse up`,"
            " or name its folder with --data",
        ) from None
    return found
