"""An AMQP 1.0 session to any server by its URL, or to a node of this process."""

from collections.abc import Sequence

from enmasse.client.connection import Connection
from enmasse.native import Client, Node

__all__ = ["Connection", "connect", "connect_within"]


def connect(
    url: str,
    *,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    insecure: bool = False,
    mechanisms: list[str] | None = None,
    hostname: str | None = None,
    server_name: str | None = None,
    token: str | None = None,
    capabilities: Sequence[str] = (),
    container_id: str | None = None,
) -> Connection:
    """Connect to the server at `url`; use the result with `async with`.

    The certificate of an `amqps` or `wss` server is verified against the system's CAs, or those in
    the file `ca`, and must be valid for `server_name`, by default the URL's host. `certificate` and
    `key` are files as well. `hostname` selects the address space if the URL does not. `token` is a
    JWT of the user, which replaces the password. `capabilities` are requested in open.

    Raises Invalid for a URL or file that cannot be used.
    """
    client = Client(
        url=url,
        ca=ca,
        certificate=certificate,
        key=key,
        insecure=insecure,
        saslMechanisms=mechanisms,
        hostname=hostname,
        serverName=server_name,
        token=token,
        desiredCapabilities=list(capabilities),
        containerId=container_id,
    )
    return Connection(client)


def connect_within(node: Node, space: str, user: str | None = None) -> Connection:
    """Return a session with an address space of a node in this process, without a login.

    Raises Missing for a space that does not exist.
    """
    return Connection(Client(fd=node.connect(space, user)))
