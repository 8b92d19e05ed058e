"""The original's handshake with an `external` service: SASL over AMQP.

We log in with the client's credentials and the realm as host name, and request the capability
`ADDRESS-AUTHZ`. The properties of the service's open identify the user (`authenticated-identity`)
and contain rights (`address-authz`, a map from addresses to lists of operations) and `groups`.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from enmasse.auth.fetching import context
from enmasse.auth.grants import (
    Grant,
    Refused,
    Unanswered,
    bounded,
    rights_of_groups,
    rights_of_map,
    user_name,
)
from enmasse.base.errors import Denied, EnMasseError
from enmasse.client import connect

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
"""Header of a server that requires SASL, in response to the same header (AMQP 1.0, 5.3.1)."""

CAPABILITY = "ADDRESS-AUTHZ"
"""Requested capability: the service returns the rights of the user."""

ANSWER_TIMEOUT_S = 8.0
"""Time-out for connecting and logging in; a login has 10 s in total."""


@dataclass(frozen=True, slots=True)
class Server:
    """Location and trust of a service. Certificates and keys are PEM texts."""

    host: str
    port: int
    realm: str
    """Host name that we send: the realm of the space."""

    secure: bool = True
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


async def ask(server: Server, mechanism: str, user: str | None, secret: str) -> Grant:
    """Return the identity for credentials: a password (PLAIN) or a token.

    Raises: Refused if the service refuses them; Unanswered if it does not respond.
    """
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            open_properties = await _open(server, mechanism, user, secret)
    except TimeoutError:
        where = f"{server.host}:{server.port}"
        raise Unanswered(f"{where} does not answer within {ANSWER_TIMEOUT_S:g} s") from None
    except Denied as error:
        raise Refused(f"the external service: {error.message}") from None
    except (EnMasseError, OSError) as error:
        raise Unanswered(f"the external service {server.host}:{server.port}: {error}") from None
    return grant_of(open_properties)


async def reach(server: Server) -> None:
    """Check that a service accepts connections and speaks SASL, without logging in.

    Raises: Unanswered if it does not.
    """
    where = f"{server.host}:{server.port}"
    try:
        with ExitStack() as stack:
            tls = _context(server, stack) if server.secure else None
            reader, writer = await asyncio.open_connection(server.host, server.port, ssl=tls)
            try:
                writer.write(SASL_HEADER)
                open_properties = await reader.readexactly(len(SASL_HEADER))
            finally:
                writer.close()
                await writer.wait_closed()
    except asyncio.IncompleteReadError:
        raise Unanswered(f"{where} closes the connection before SASL") from None
    except OSError as error:
        raise Unanswered(f"{where} cannot be reached: {error}") from None
    if open_properties != SASL_HEADER:
        raise Unanswered(f"{where} does not speak SASL over AMQP")


def _context(server: Server, stack: ExitStack) -> ssl.SSLContext:
    found, files = context(server.ca), _files(server, stack)
    if "certificate" in files:
        found.load_cert_chain(files["certificate"], files.get("key"))
    return found


def grant_of(open_properties: Mapping[str, Any]) -> Grant:
    """Return the grant in the properties of a service's open.

    Raises: Refused if they do not identify the user.
    """
    identity = _plain(open_properties.get("authenticated-identity"))
    if not isinstance(identity, dict):
        raise Refused("the external service does not identify the user (authenticated-identity)")
    name = identity.get("preferred_username") or identity.get("sub")
    groups, addresses = (
        _plain(open_properties.get("groups")),
        _plain(open_properties.get("address-authz")),
    )
    rights = rights_of_map(addresses) if isinstance(addresses, dict) else ()
    rights += rights_of_groups(groups) if isinstance(groups, list) else ()
    return Grant(user_name(name, "authenticated-identity"), bounded(rights))


async def _open(server: Server, mechanism: str, user: str | None, secret: str) -> Mapping[str, Any]:
    is_password = mechanism == "PLAIN"
    login = quote(user, safe="") if user else ""
    if is_password:
        login += ":" + quote(secret, safe="")
    host = f"[{server.host}]" if ":" in server.host else server.host
    scheme = "amqps" if server.secure else "amqp"
    url = (
        f"{scheme}://{login}@{host}:{server.port}" if login else f"{scheme}://{host}:{server.port}"
    )
    with ExitStack() as stack:
        files = _files(server, stack)
        session = connect(
            url,
            ca=files.get("ca"),
            certificate=files.get("certificate"),
            key=files.get("key"),
            mechanisms=[mechanism],
            hostname=server.realm,
            token=None if is_password else secret,
            capabilities=[CAPABILITY],
        )
        async with session:
            return session.properties


def _files(server: Server, stack: ExitStack) -> dict[str, str]:
    """Write the files that the AMQP client reads into a folder readable by us only."""
    texts = {"ca": server.ca, "certificate": server.certificate, "key": server.key}
    given = {name: text for name, text in texts.items() if text is not None}
    if not given:
        return {}
    folder = Path(stack.enter_context(TemporaryDirectory()))
    for name, text in given.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in given}


def _plain(value: Any) -> Any:
    """Convert AMQP maps and arrays to plain ones, with strings as keys."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, str) else value
