"""The documented handshake of the original with an `external` service: SASL over AMQP.

We log in there with what the client has shown, the realm as the host name, and ask for the
capability `ADDRESS-AUTHZ`. The service's open says who it is (`authenticated-identity`), what they
may do (`address-authz`, a map from addresses to lists of operations), and their `groups`.
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
"""What a server that wants a login answers with, to the same (AMQP 1.0, 5.3.1)."""

CAPABILITY = "ADDRESS-AUTHZ"
"""What is asked for: that the service says what a user may do."""

ANSWER_TIMEOUT_S = 8.0
"""Time to connect, log in and hear; a login waits 10 s in all."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a service is, and how it is known. Certificates and keys are PEM texts."""

    host: str
    port: int
    realm: str
    """What it is told of the space, as the host name."""

    secure: bool = True
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


async def ask(server: Server, mechanism: str, user: str | None, secret: str) -> Grant:
    """Return who somebody is by what they have shown: a password (PLAIN) or a token.

    Raises: Refused if the service does not let them in; Unanswered if it does not tell.
    """
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            said = await _open(server, mechanism, user, secret)
    except TimeoutError:
        where = f"{server.host}:{server.port}"
        raise Unanswered(f"{where} does not answer within {ANSWER_TIMEOUT_S:g} s") from None
    except Denied as error:
        raise Refused(f"the external service: {error.message}") from None
    except (EnMasseError, OSError) as error:
        raise Unanswered(f"the external service {server.host}:{server.port}: {error}") from None
    return grant_of(said)


async def reach(server: Server) -> None:
    """See that a service takes connections and speaks SASL, without logging in.

    Raises: Unanswered if it does not.
    """
    where = f"{server.host}:{server.port}"
    try:
        with ExitStack() as stack:
            tls = _context(server, stack) if server.secure else None
            reader, writer = await asyncio.open_connection(server.host, server.port, ssl=tls)
            try:
                writer.write(SASL_HEADER)
                said = await reader.readexactly(len(SASL_HEADER))
            finally:
                writer.close()
                await writer.wait_closed()
    except asyncio.IncompleteReadError:
        raise Unanswered(f"{where} closes the connection before SASL") from None
    except OSError as error:
        raise Unanswered(f"{where} cannot be reached: {error}") from None
    if said != SASL_HEADER:
        raise Unanswered(f"{where} does not speak SASL over AMQP")


def _context(server: Server, stack: ExitStack) -> ssl.SSLContext:
    found, files = context(server.ca), _files(server, stack)
    if "certificate" in files:
        found.load_cert_chain(files["certificate"], files.get("key"))
    return found


def grant_of(said: Mapping[str, Any]) -> Grant:
    """Return what the properties of a service's open come to.

    Raises: Refused if they do not say who it is.
    """
    identity = _plain(said.get("authenticated-identity"))
    if not isinstance(identity, dict):
        raise Refused("the external service does not say who it is (authenticated-identity)")
    name = identity.get("preferred_username") or identity.get("sub")
    groups, addresses = _plain(said.get("groups")), _plain(said.get("address-authz"))
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
    """Write what the client reads from files into a folder that only we can read."""
    texts = {"ca": server.ca, "certificate": server.certificate, "key": server.key}
    given = {name: text for name, text in texts.items() if text is not None}
    if not given:
        return {}
    folder = Path(stack.enter_context(TemporaryDirectory()))
    for name, text in given.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in given}


def _plain(value: Any) -> Any:
    """Return maps and arrays of AMQP as plain ones, with texts for names."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, str) else value
