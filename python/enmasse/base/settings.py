"""Operator settings: one frozen object, loaded once at start.

Precedence: command-line option, `ENMASSE_*` variable, TOML file of `--config` or `ENMASSE_CONFIG`,
default. Unknown keys are refused. Everything that tenants configure is a resource field; nothing
else is configurable.
"""

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from enmasse.base.data_dir import default_data_dir
from enmasse.base.errors import Code, Fault, Invalid
from enmasse.base.hosts import is_loopback
from enmasse.base.memory import memory_bytes, share_bytes
from enmasse.base.node_file import NODE_NAME
from enmasse.base.wording import worded

ENV_PREFIX = "ENMASSE_"
CONFIG_VARIABLE = "ENMASSE_CONFIG"


def _port(value: object) -> int | None:
    """Convert `off` to None and digits to an integer."""
    if value is None or value == "off":
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,5}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= PORT_MAX:
        raise ValueError(f"must be a port (1 to {PORT_MAX}), 0 for a free one, or `off`")
    return value


PORT_MAX = 65535

Port = Annotated[int | None, BeforeValidator(_port)]
"""A listener port: 0 takes any free port, None (`off`) disables the listener."""


SQLITE = "sqlite"
DATABASES = ("postgresql", "postgres")
"""URL schemes of a database."""

KUBERNETES = "kubernetes"
"""URL scheme of a cluster."""


def _store(value: str) -> str:
    try:
        scheme = urlsplit(value).scheme
    except ValueError:  # brackets of an IPv6 address
        scheme = ""
    if value != SQLITE and scheme not in (*DATABASES, KUBERNETES):
        raise ValueError(
            "must be `sqlite`, the file in the data folder, or, for several processes,"
            " postgresql://USER@HOST:PORT/DATABASE or kubernetes://CONTEXT"
        )
    return value


def without_password(url: str) -> str:
    """Return a URL for display, with passwords replaced by `***`."""
    parts = urlsplit(url)
    query = "&".join(
        "password=***" if one.startswith("password=") else one for one in parts.query.split("&")
    )
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    netloc = f"{name}{colon and ':***'}{at}{host}"
    # Assembled by hand: `geturl` would drop the two slashes of an empty host.
    begin = f"{parts.scheme}://{netloc}" if "://" in url else ""
    return f"{begin}{parts.path}{query and '?' + query}"


def _origins(value: str) -> str:
    """Validate comma-separated origins and normalise them as browsers do."""
    origins = [one.strip() for one in value.split(",") if one.strip()]
    for origin in origins:
        if origin in ("*", "null"):
            continue
        try:
            parts = urlsplit(origin)
            named = bool(parts.hostname) and parts.port != 0
        except ValueError:  # of a port, or of an IPv6 address in brackets
            named = False
        bare = origin == f"{parts.scheme}://{parts.netloc}" if named else False
        if not bare or parts.scheme not in ("http", "https") or "@" in parts.netloc:
            raise ValueError(
                "must be comma-separated origins, such as"
                f" https://console.example.com, or `*`; {origin!r} is not an"
                " origin"
            )
    return ",".join(origin.lower() for origin in origins)


def _networks(value: str) -> str:
    """Validate comma-separated networks or addresses and normalise them."""
    networks = []
    for one in (part.strip() for part in value.split(",") if part.strip()):
        try:
            networks.append(str(ipaddress.ip_network(one)))
        except ValueError as error:  # also bits beyond the prefix: 10.0.0.1/8
            raise ValueError(
                f"must be comma-separated networks, such as 10.0.0.0/8 or 192.0.2.7: {error}"
            ) from None
    return ",".join(networks)


def _label(value: str | None) -> str | None:
    """Validate the name of a node or a zone; empty or absent: none."""
    if value and not NODE_NAME.fullmatch(value):
        raise ValueError(
            "must be 1 to 63 lower-case letters, digits and hyphens, beginning and ending with a"
            f" letter or digit; {value!r} is not"
        )
    return value


SOCKET_PATH_BYTES_MAX = 107
"""Longest path of a Unix socket (`sun_path` of Linux without its final null)."""


def _socket_path(value: object) -> object:
    """Convert `off` to None; refuse paths that no socket can have."""
    if value is None or value == "off":
        return None
    path = Path(value).absolute() if isinstance(value, str | Path) and str(value) else None
    if path is None or len(str(path).encode()) > SOCKET_PATH_BYTES_MAX:
        raise ValueError(f"must be a path of at most {SOCKET_PATH_BYTES_MAX} bytes, or `off`")
    return path


NAMESPACE_RESOURCES_MAX = 200_000
NAMESPACE_DATA_BYTES_MAX = 64 << 20


def _grace(value: object) -> float | None:
    """Convert `off` to None and digits to a number."""
    if value is None or value == "off":
        return None
    try:
        seconds = float(value) if isinstance(value, str | int | float) else -1
    except (ValueError, OverflowError):
        seconds = -1
    if isinstance(value, bool) or not 0 <= seconds < inf:
        raise ValueError("must be seconds (0 or more), or `off`")
    return seconds


GRACE_S = 300.0

MULTICAST_SETTLE_TIMEOUT_MS = 1_000
MQTT_HOLD_MS = 10_000

_HOST_NAME = re.compile(r"(?!-)[a-zA-Z0-9_-]{1,63}(?<!-)(\.(?!-)[a-zA-Z0-9_-]{1,63}(?<!-))*")


def _host_names(value: str) -> str:
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise ValueError(f"must be comma-separated host names; {name!r} is not one")
    return ",".join(names)


def _idle(value: object) -> float | None:
    """Convert `off` to None and digits to seconds within the range of an AMQP idle time-out."""
    seconds = _grace(value)
    if seconds is not None and not 1 <= seconds <= IDLE_MAX_S:
        raise ValueError(f"must be 1 to {IDLE_MAX_S} seconds, or `off`")
    return seconds


IDLE_MAX_S = 86_400

RECEIVE_MEMORY_BYTES_MIN = 64 << 20


def receive_bytes(value: str) -> int:
    """Return the bytes of the setting `receive_memory` on this machine."""
    return max(share_bytes(value, memory_bytes()), RECEIVE_MEMORY_BYTES_MIN)


def _web_url(value: str) -> str:
    """Validate the URL of a web server: https, or http on this machine."""
    try:
        parts = urlsplit(value)
        host, is_bare = parts.hostname or "", not (parts.query or parts.fragment or parts.username)
    except ValueError:  # brackets of an IPv6 address
        host, is_bare = "", False
    secured = value.startswith("https://") or (value.startswith("http://") and is_loopback(host))
    if value and not (host and is_bare and secured):
        raise ValueError("must be an https URL, such as https://login.example.com")
    return value


def _receive_memory(value: str) -> str:
    share_bytes(value, 0)
    if "%" not in value and share_bytes(value, 0) < RECEIVE_MEMORY_BYTES_MIN:
        raise ValueError("must be at least 64MiB, or a share of the memory, such as 25%")
    return value


class Settings(BaseModel):
    """All settings of `enmasse up`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    data: Path = Field(default_factory=default_data_dir)
    """Data folder; one process at a time."""

    store: Annotated[str, AfterValidator(_store)] = SQLITE
    """Store of resources: `sqlite`, or the URL of a PostgreSQL database or a Kubernetes cluster,
    which several processes can share.
    """

    host: str = "127.0.0.1"
    """Address of every listener. Loopback, because the first space has no authentication."""

    host_names: Annotated[str, AfterValidator(_host_names)] = ""
    """Comma-separated host names of the platform besides `host` and the machine name, such as that
    of a load balancer. They select the default address space; certificates contain them, and the
    HTTP API accepts them.
    """

    insecure: bool = False
    """Allow spaces without authentication, and PLAIN and the API without TLS, beyond loopback."""

    amqp_port: Port = 5672
    """AMQP 1.0 over TCP. The port registered for AMQP."""

    amqps_port: Port = 5671
    """AMQP 1.0 over TLS. The port registered for AMQP over TLS."""

    ws_port: Port = 8081
    """AMQP 1.0 or MQTT over WebSocket."""

    wss_port: Port = 8443
    """AMQP 1.0 or MQTT over WebSocket over TLS."""

    mqtt_port: Port = 1883
    """MQTT 3.1, 3.1.1 and 5.0 over TCP. The port registered for MQTT."""

    mqtts_port: Port = 8883
    """MQTT over TLS. The port registered for MQTT over TLS."""

    mqtt_socket: Annotated[Path | None, BeforeValidator(_socket_path)] = None
    """Path of a Unix socket for MQTT, for the user and the group of the process; None (`off`) for
    none.
    """

    proxy_protocol: Annotated[str, AfterValidator(_networks)] = ""
    """Comma-separated networks of proxies. Their connections to the AMQP, MQTT and WebSocket ports
    must begin with a header of the PROXY protocol, version 2, that states the client's address.
    """

    ws_origins: Annotated[str, AfterValidator(_origins)] = ""
    """Comma-separated origins of web pages that may use WebSocket, besides the platform's
    own and those of route hosts; `*` allows any.
    """

    http_port: Port = 8080
    """The HTTP API, `/metrics` and the health pages."""

    https_port: Port = 6443
    """The HTTP API over TLS; kubectl sends tokens over TLS only."""

    workers: int = Field(default=0, ge=0, le=256)
    """Worker threads. 0 means one per available core."""

    max_frame_size: int = Field(default=131_072, ge=512, le=1 << 20)
    """Largest AMQP frame accepted, in bytes; sent in open."""

    link_credit: int = Field(default=1000, ge=1, le=100_000)
    """Credit of a sender, unless an infra config sets `linkCapacity`."""

    idle_timeout_s: Annotated[float | None, BeforeValidator(_idle)] = 60.0
    """Idle time-out in seconds after which the node closes a silent connection; sent in open. None
    (`off`) disables it.
    """

    receive_memory: Annotated[str, AfterValidator(_receive_memory)] = "25%"
    """Memory for received messages that are not stored yet: a size (`2GiB`) or a share of the
    memory (`25%`), 64 MiB at least. Above it, senders of the spaces that use most of it wait."""

    discard_unnamed: bool = False
    """Deletes stored messages whose address is unknown because its declaration is damaged. They
    cannot be delivered, and otherwise keep their files.
    """

    multicast_settle_timeout_ms: int = Field(
        default=MULTICAST_SETTLE_TIMEOUT_MS, ge=100, le=3_600_000
    )
    """Milliseconds that the sender of an unsettled multicast message waits for one consumer after
    another settled; that consumer then counts as having released its copy.
    """

    mqtt_hold_ms: int = Field(default=MQTT_HOLD_MS, ge=100, le=3_600_000)
    """Milliseconds that the publications of an MQTT client are not read while their address is
    full. After that they are refused, so that the acknowledgements of the client are read.
    """

    namespace_resources_max: int = Field(default=NAMESPACE_RESOURCES_MAX, ge=1)
    """Maximum resources of each kind in a namespace."""

    namespace_data_bytes_max: int = Field(default=NAMESPACE_DATA_BYTES_MAX, ge=1)
    """Maximum bytes of all Secrets of a namespace, and of all its ConfigMaps."""

    namespace_plans: str = "*"
    """Comma-separated plans that a namespace without the annotation `enmasse.io/plans` may use; `*`
    allows any.
    """

    leader_grace_s: Annotated[float | None, BeforeValidator(_grace)] = GRACE_S
    """Seconds that a leader keeps serving after its lease while the store is unreachable; None
    (`off`) means without limit.
    """

    node_name: Annotated[str | None, AfterValidator(_label)] = None
    """Name of this process among those of its store. Default: the name in the data folder, at first
    the host name up to its first dot.
    """

    zone: Annotated[str, AfterValidator(_label)] = ""
    """Zone of this process, such as a data centre or a rack; nodes report it."""

    console_idle_s: int = Field(default=3600, ge=60, le=7 * 86_400)
    """Seconds without a request after which a session of the console ends."""

    console_session_s: int = Field(default=43_200, ge=60, le=30 * 86_400)
    """Seconds after the login at which a session of the console ends."""

    oidc_session_s: int = Field(default=3600, ge=60, le=30 * 86_400)
    """Seconds after a login at the identity provider at which the session ends; changed roles apply
    with the next login. At most `console_session_s`.
    """

    console_url: Annotated[str, AfterValidator(_web_url)] = ""
    """URL of the console for an identity provider, if a proxy serves it at another origin."""

    prometheus: Annotated[str, AfterValidator(_web_url)] = ""
    """URL of a Prometheus that scrapes this platform; the console reads past values from it."""

    prometheus_token_file: Path | None = None
    """File with the bearer token for that server, if it needs one."""

    prometheus_ca_file: Path | None = None
    """PEM file of the CA of that server; without it the CAs of the system."""

    oidc_issuer: Annotated[str, AfterValidator(_web_url)] = ""
    """Identity provider (OpenID Connect) whose users may use the console and the API."""

    oidc_client_id: str = "enmasse"
    """Client of the platform at the identity provider."""

    oidc_client_secret_file: Path | None = None
    """File with the secret of that client; without it the client is public."""

    oidc_audience: str = ""
    """Required audience of access tokens at the API; by default the client."""

    oidc_user_claim: str = "preferred_username"
    """Claim with the name of a user."""

    oidc_roles_claim: str = "groups"
    """Claim with the roles of a user, such as `tenant-edit` or `tenant-edit:NAMESPACE`; a dotted
    path is a nested claim.
    """

    oidc_ca_file: Path | None = None
    """PEM file of the CA of the identity provider; without it the CAs of the system."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum severity of log records."""


Origin = Literal["option", "environment", "file", "default"]


def load(
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    config: Path | None = None,
) -> tuple[Settings, dict[str, Origin]]:
    """Return the settings, and the source of each value.

    `options` are command-line values by field name; None means absent. `config` is the TOML file;
    default: the file in `ENMASSE_CONFIG`.

    Raises: Invalid naming every unknown or invalid setting.
    """
    if config is None and environment.get(CONFIG_VARIABLE):
        config = Path(environment[CONFIG_VARIABLE])
    layers: list[tuple[Origin, dict[str, Any]]] = [
        ("file", _from_file(config) if config else {}),
        ("environment", _from_environment(environment)),
        ("option", {name: value for name, value in options.items() if value is not None}),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = dict.fromkeys(Settings.model_fields, "default")
    for origin, layer in layers:
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    _check_hidden(str(values.get("store", "")), origins["store"])
    try:
        return Settings(**values), origins
    except ValidationError as error:
        raise _invalid(error, origins) from None


def _check_hidden(store: str, origin: Origin) -> None:
    """Refuse a password among the arguments, which every user of the machine can read."""
    try:
        parts = urlsplit(store)
        has_password = parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        return
    if has_password and origin == "option":
        raise Invalid(
            Code.SETTING_INVALID,
            "setting store: a password on the command line is visible to other"
            " users; put the URL into ENMASSE_STORE or the settings file, or"
            " the password into PGPASSWORD or ~/.pgpass",
        )


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        key.removeprefix(ENV_PREFIX).lower(): value
        for key, value in environment.items()
        if key.startswith(ENV_PREFIX)
        and key.removeprefix(ENV_PREFIX).lower() in Settings.model_fields
    }


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Invalid(
            Code.SETTING_INVALID, f"cannot read the settings file {path}: {error.strerror}"
        ) from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(Code.SETTING_INVALID, f"{path} is not TOML: {error}") from None
    return {key.replace("-", "_"): value for key, value in table.items()}


def _invalid(error: ValidationError, origins: Mapping[str, Origin]) -> Invalid:
    faults = []
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0])
        if detail["type"] == "extra_forbidden":
            known = ", ".join(field.replace("_", "-") for field in Settings.model_fields)
            message = f"unknown; known: {known}"
        else:
            message = f"{worded(detail)} (from {origins[name]})"
        faults.append(Fault(name.replace("_", "-"), message))
    summary = "; ".join(f"setting {fault}" for fault in faults)
    return Invalid(Code.SETTING_INVALID, summary, faults=faults)
