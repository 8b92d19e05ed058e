"""Connectors: AMQP servers elsewhere whose addresses a standard space is to show as its own.

The fields and rules are those of the original. No connector is opened here; a condition of the
space says so. Secrets given as values are kept in a Secret, never in the space itself.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from enmasse.base.errors import Fault
from enmasse.resources.model import Model

_NAME = re.compile(r"[a-zA-Z0-9]+")
_PATTERN = re.compile(r"([^/#*]+|\*|#)(/([^/#*]+|\*|#))*")


def _connector_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"invalid connector name {value!r}: use letters and digits only")
    return value


def _pattern(value: str) -> str:
    if not _PATTERN.fullmatch(value):
        raise ValueError(
            f"invalid address rule {value!r}: write tokens separated by `/`,"
            " each a text, `*` (one token) or `#` (any number)"
        )
    return value


class KeyOfSecret(Model):
    """One value of a Secret in the namespace of the space."""

    name: str
    key: str | None = None
    """Left out: ca.crt, tls.crt, tls.key, username or password, by what it is for."""


class Value(Model):
    """A text, or where it is."""

    value: str | None = Field(default=None, repr=False)
    """The text itself. A password or key is write-only: it goes into a Secret."""

    value_from_secret: KeyOfSecret | None = None
    """The Secret that has it."""


class ConnectorHost(Model):
    """Where a server is."""

    host: str
    port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = None
    """Left out: 5671 with TLS, 5672 without."""


class ConnectorTls(Model):
    """How a server is known, and how it knows us."""

    ca_cert: Value | None = None
    """Authority of its certificate."""

    client_cert: Value | None = None
    """Certificate shown to it: SASL EXTERNAL."""

    client_key: Value | None = None
    """Key of that certificate."""


class ConnectorCredentials(Model):
    """A user of the server: SASL PLAIN."""

    username: Value | None = None
    password: Value | None = None


class ConnectorAddress(Model):
    """Which addresses of the server are shown."""

    name: str
    pattern: Annotated[str, AfterValidator(_pattern)]
    """Tokens divided by `/`, shown below the name of the connector: `CONNECTOR/..`."""


class Connector(Model):
    """A server elsewhere."""

    name: Annotated[str, AfterValidator(_connector_name)]
    """Letters and digits; its addresses are shown below it."""

    endpoint_hosts: Annotated[tuple[ConnectorHost, ...], Field(min_length=1)]
    """Where it is; the first one is tried first."""

    idle_timeout: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Seconds of silence after which a connection counts as gone; 0: never."""

    max_frame_size: Annotated[int, Field(strict=True, ge=512)] | None = None
    """Bytes of a frame."""

    role: Literal["normal", "route-container", "edge"] | None = None
    """What the server is to the routers. Left out: route-container."""

    tls: ConnectorTls | None = None
    """Left out: no TLS."""

    credentials: ConnectorCredentials | None = None
    """Left out: ANONYMOUS, or EXTERNAL with a client certificate."""

    addresses: tuple[ConnectorAddress, ...] = ()
    """Which addresses are shown."""


class ConnectorStatus(Model):
    """Whether a connector works."""

    name: str
    is_ready: bool = False
    messages: tuple[str, ...] = ()


def faults_of(connectors: Iterable[Connector], space_type: str) -> Iterable[Fault]:
    """Yield what is wrong with the connectors of a space together."""
    names: set[str] = set()
    for place, connector in enumerate(connectors):
        path = f"spec.connectors[{place}]"
        if space_type != "standard":
            yield Fault(path, "is supported by address spaces of type standard only; remove it")
        if connector.name in names:
            yield Fault(f"{path}.name", f"{connector.name!r} is already used by another connector")
        names.add(connector.name)
        tls = connector.tls or ConnectorTls()
        if (tls.client_cert is None) != (tls.client_key is None):
            yield Fault(
                f"{path}.tls", "has only one of clientCert and clientKey; set both or neither"
            )
