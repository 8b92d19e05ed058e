"""The session that speaks AMQP 1.0: to any server by its URL, or to a node of this process."""

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
    """Connect to the server at `url`; enter the result as `async with`.

    The certificate of an `amqps` or `wss` server is verified against the system's authorities, or
    those in the file `ca`, and has to be for `server_name`, by default the URL's host.
    `certificate` and `key` are files, too. `hostname` names the address
    space where the URL does not. With `token`, a JWT that somebody has issued to the user, no
    password is needed. `capabilities` are asked for in open.

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
    """A session with an address space of a node of this process, without a login.

    Raises Missing for a space that does not exist.
    """
    return Connection(Client(fd=node.connect(space, user)))
