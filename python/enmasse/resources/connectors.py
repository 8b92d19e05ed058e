"""Connectors: remote AMQP servers whose addresses a standard space includes.

The fields and rules are those of the original. Connectors are not implemented, which a condition of
the space reports. Secrets given as values are stored in a Secret, never in the space itself.
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
    """Default, by its purpose: ca.crt, tls.crt, tls.key, username or password."""


class Value(Model):
    """A text, or a reference to it."""

    value: str | None = Field(default=None, repr=False)
    """The text. Passwords and keys are write-only and moved into a Secret."""

    value_from_secret: KeyOfSecret | None = None
    """The Secret with the text."""


class ConnectorHost(Model):
    """Address of a server."""

    host: str
    port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = None
    """Default: 5671 with TLS, 5672 without."""


class ConnectorTls(Model):
    """Trust and client certificate of a server."""

    ca_cert: Value | None = None
    """CA of its certificate."""

    client_cert: Value | None = None
    """Client certificate: SASL EXTERNAL."""

    client_key: Value | None = None
    """Key of that certificate."""


class ConnectorCredentials(Model):
    """A user of the server: SASL PLAIN."""

    username: Value | None = None
    password: Value | None = None


class ConnectorAddress(Model):
    """Addresses of the server that are included."""

    name: str
    pattern: Annotated[str, AfterValidator(_pattern)]
    """Tokens separated by `/`; the addresses appear under `CONNECTOR/`."""


class Connector(Model):
    """A remote server."""

    name: Annotated[str, AfterValidator(_connector_name)]
    """Letters and digits; its addresses appear under this name."""

    endpoint_hosts: Annotated[tuple[ConnectorHost, ...], Field(min_length=1)]
    """Hosts of the server, tried in order."""

    idle_timeout: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Idle time-out of the connection in seconds; 0: none."""

    max_frame_size: Annotated[int, Field(strict=True, ge=512)] | None = None
    """Maximum frame size in bytes."""

    role: Literal["normal", "route-container", "edge"] | None = None
    """Role of the server for routers. Default: route-container."""

    tls: ConnectorTls | None = None
    """TLS settings. Absent: no TLS."""

    credentials: ConnectorCredentials | None = None
    """Credentials. Absent: ANONYMOUS, or EXTERNAL with a client certificate."""

    addresses: tuple[ConnectorAddress, ...] = ()
    """Included addresses."""


class ConnectorStatus(Model):
    """Readiness of a connector."""

    name: str
    is_ready: bool = False
    messages: tuple[str, ...] = ()


def faults_of(connectors: Iterable[Connector], space_type: str) -> Iterable[Fault]:
    """Yield errors of combinations of connectors of a space."""
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
