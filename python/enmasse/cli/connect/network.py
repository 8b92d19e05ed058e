"""Listeners of a platform: reachability, host names, and discovery by commands."""

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from enmasse.base.data_dir import DataDir, default_data_dir
from enmasse.base.errors import Code, Missing, Unavailable
from enmasse.base.hosts import is_loopback

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
WILDCARDS = ("0.0.0.0", "::")
DEFAULT_PORTS = {"http": 80, "https": 443}
"""Default ports, omitted in an origin."""


def check_host(host: str) -> None:
    """Check that `host` can be listened on, before any port is tried.

    Raises: Unavailable if it is not an address of this machine.
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
            f"cannot listen on {host}: {error.strerror}; set --host to an address of this machine",
        ) from None


def names_of(host: str, configured: str = "") -> list[str]:
    """Return the host names of a server on `host`, for certificates and Host checks.

    `configured`: additional ones, comma-separated.
    """
    names = [*LOOPBACK_NAMES, *filter(None, configured.split(","))]
    if not is_loopback(host):
        names.append(socket.gethostname())
        if host not in WILDCARDS:
            names.append(host)
    return sorted(set(names))


def platform_names(host: str, configured: str = "") -> list[str]:
    """Return the host names that select no address space.

    The machine name is one even if only this machine can connect.
    """
    return sorted({*names_of(host, configured), socket.gethostname()})


def origins_of(names: Iterable[str], ports: Mapping[str, int]) -> list[str]:
    """Return the origins (RFC 6454) of pages served under these names."""
    return [
        url(scheme, name, port).removesuffix(f":{DEFAULT_PORTS[scheme]}")
        for scheme, port in ports.items()
        for name in names
    ]


def reachable(host: str) -> str:
    """Return an address for local clients: a wildcard includes loopback."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def reachable_name(host: str) -> str:
    """Return the host name or IP address for clients on any machine."""
    return socket.gethostname() if host in WILDCARDS else host


def url(scheme: str, host: str, port: int) -> str:
    """Return the URL of an endpoint for local clients."""
    name = reachable(host)
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def listener_url(data: Path | None, schemes: Sequence[str]) -> str:
    """Return the URL of the first of these listeners of a data folder's platform, without a login.

    Raises: Unavailable if no platform runs; Missing if it has none of them.
    """
    endpoints = running(data)["endpoints"]
    for scheme in schemes:
        if (place := endpoints.get(scheme)) is not None:
            return url(scheme, place["host"], place["port"])
    options = " and ".join(f"--{scheme}-port off" for scheme in schemes)
    raise Missing(Code.SERVER_MISSING, f"the platform was started with {options}; pass --url")


def running(data: Path | None) -> dict[str, Any]:
    """Return the readiness report of a data folder's platform: pid and endpoints.

    Raises: Unavailable if no running platform uses the folder.
    """
    folder = DataDir(data or default_data_dir())
    try:
        found: dict[str, Any] = json.loads(folder.endpoint.read_text())
    except (OSError, ValueError):
        raise Unavailable(
            Code.SERVER_UNREACHABLE,
            f"no platform runs on data folder {folder.path}; start one with"
            " `enmasse up`, or set --data",
        ) from None
    return found
