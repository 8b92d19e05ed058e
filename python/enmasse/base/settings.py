"""What an operator chooses at start: one frozen tree, loaded once.

A value comes from the first of: a command-line option, an `ENMASSE_*` variable, the TOML file that
`--config` or `ENMASSE_CONFIG` names, the default. An unknown key is refused. What a tenant chooses
is a resource's field and is not here; nothing else is configurable.
"""

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
from enmasse.base.wording import worded

ENV_PREFIX = "ENMASSE_"
CONFIG_VARIABLE = "ENMASSE_CONFIG"


def _port(value: object) -> int | None:
    """Turn `off` into None and digits into a number."""
    if value is None or value == "off":
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,5}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= PORT_MAX:
        raise ValueError(f"must be a port (1 to {PORT_MAX}), 0 for a free one, or `off`")
    return value


PORT_MAX = 65535

Port = Annotated[int | None, BeforeValidator(_port)]
"""A listener's port: 0 takes a free one, None (`off`) has no listener."""


SQLITE = "sqlite"
DATABASES = ("postgresql", "postgres")
"""Schemes of the URL of a database."""

KUBERNETES = "kubernetes"
"""Scheme of the URL of a cluster."""


def _store(value: str) -> str:
    try:
        scheme = urlsplit(value).scheme
    except ValueError:  # of an address in brackets
        scheme = ""
    if value != SQLITE and scheme not in (*DATABASES, KUBERNETES):
        raise ValueError(
            "must be `sqlite`, the file in the data folder, or, for several processes,"
            " postgresql://USER@HOST:PORT/DATABASE or kubernetes://CONTEXT"
        )
    return value


def without_password(url: str) -> str:
    """Return a URL as it may be shown: what stands for a password is `***`."""
    parts = urlsplit(url)
    query = "&".join(
        "password=***" if one.startswith("password=") else one for one in parts.query.split("&")
    )
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    netloc = f"{name}{colon and ':***'}{at}{host}"
    # Put together by hand: `geturl` would leave out the two slashes before no host.
    begin = f"{parts.scheme}://{netloc}" if "://" in url else ""
    return f"{begin}{parts.path}{query and '?' + query}"


def _origins(value: str) -> str:
    """Check origins by commas, and write them as browsers do."""
    origins = [one.strip() for one in value.split(",") if one.strip()]
    for origin in origins:
        if origin in ("*", "null"):
            continue
        try:
            parts = urlsplit(origin)
            named = bool(parts.hostname) and parts.port != 0
        except ValueError:  # of a port, or of an address in brackets
            named = False
        bare = origin == f"{parts.scheme}://{parts.netloc}" if named else False
        if not bare or parts.scheme not in ("http", "https") or "@" in parts.netloc:
            raise ValueError(
                f"must be origins by commas, such as https://console.example.com, or `*`;"
                f" {origin!r} is none"
            )
    return ",".join(origin.lower() for origin in origins)


NAMESPACE_RESOURCES_MAX = 200_000
NAMESPACE_DATA_BYTES_MAX = 64 << 20


def _grace(value: object) -> float | None:
    """Turn `off` into None and digits into a number."""
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

_HOST_NAME = re.compile(r"(?!-)[a-zA-Z0-9_-]{1,63}(?<!-)(\.(?!-)[a-zA-Z0-9_-]{1,63}(?<!-))*")


def _host_names(value: str) -> str:
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise ValueError(f"must be host names divided by commas; {name!r} is none")
    return ",".join(names)


def _idle(value: object) -> float | None:
    """Turn `off` into None and digits into a number of seconds that a client can be told."""
    seconds = _grace(value)
    if seconds is not None and not 1 <= seconds <= IDLE_MAX_S:
        raise ValueError(f"must be 1 to {IDLE_MAX_S} seconds, or `off`")
    return seconds


IDLE_MAX_S = 86_400


class Settings(BaseModel):
    """Everything `enmasse up` can be told."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    data: Path = Field(default_factory=default_data_dir)
    """Folder of everything that outlives the process. One process at a time may use it."""

    store: Annotated[str, AfterValidator(_store)] = SQLITE
    """Where resources are: `sqlite`, or the URL of a PostgreSQL database or of a Kubernetes
    cluster, which others may use."""

    host: str = "127.0.0.1"
    """Address every listener binds. Loopback, because the first space has no authentication."""

    host_names: Annotated[str, AfterValidator(_host_names)] = ""
    """Host names, by commas, under which clients reach the platform, beside `host` and the name of
    the machine: those of a load balancer, for example. To name one of them is to name no address
    space; certificates are made for them, and the HTTP API answers to them."""

    insecure: bool = False
    """Allow spaces without authentication, and PLAIN and the API without TLS, beyond loopback."""

    amqp_port: Port = 5672
    """AMQP 1.0 over TCP. The port registered for AMQP."""

    amqps_port: Port = 5671
    """AMQP 1.0 over TLS. The port registered for AMQP over TLS."""

    ws_port: Port = 8081
    """AMQP 1.0 over WebSocket."""

    wss_port: Port = 8443
    """AMQP 1.0 over WebSocket over TLS."""

    ws_origins: Annotated[str, AfterValidator(_origins)] = ""
    """Origins of web pages that may use AMQP over WebSocket, by commas, besides the platform's own
    and those of route hosts; `*` is any."""

    http_port: Port = 8080
    """The HTTP API, `/metrics` and the health pages."""

    https_port: Port = 6443
    """The HTTP API over TLS: kubectl sends its token over nothing else."""

    workers: int = Field(default=0, ge=0, le=256)
    """Threads that carry messages. 0 is one for each core the process may use."""

    max_frame_size: int = Field(default=131_072, ge=512, le=1 << 20)
    """Largest AMQP frame that is taken, in bytes; clients are told at open."""

    link_credit: int = Field(default=1000, ge=1, le=100_000)
    """Messages that a sender may have on the way, where no infra config says (`linkCapacity`)."""

    idle_timeout_s: Annotated[float | None, BeforeValidator(_idle)] = 60.0
    """Seconds of silence after which a client counts as gone; clients are told at open. None
    (`off`) is never."""

    multicast_settle_timeout_ms: int = Field(
        default=MULTICAST_SETTLE_TIMEOUT_MS, ge=100, le=3_600_000
    )
    """Milliseconds that the sender of an unsettled multicast message waits for one consumer's
    outcome while another has answered; then that consumer counts as having released its copy."""

    namespace_resources_max: int = Field(default=NAMESPACE_RESOURCES_MAX, ge=1)
    """Resources of each kind that a namespace may hold; one more is refused."""

    namespace_data_bytes_max: int = Field(default=NAMESPACE_DATA_BYTES_MAX, ge=1)
    """Bytes that all Secrets of a namespace may hold, and all its ConfigMaps."""

    namespace_plans: str = "*"
    """Plans, by commas, that a namespace may choose where its annotation `enmasse.io/plans` does
    not say; `*` is any."""

    leader_grace_s: Annotated[float | None, BeforeValidator(_grace)] = GRACE_S
    """Seconds that a leader which hears nothing from the store that it shares with others goes on
    serving after its lease is over; None (`off`) is for as long as it hears nothing."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe log record that is written."""


Origin = Literal["option", "environment", "file", "default"]


def load(
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    config: Path | None = None,
) -> tuple[Settings, dict[str, Origin]]:
    """Return the settings, and for each one where its value came from.

    `options` are command-line values by field name; None means not given. `config` is the TOML
    file; without it the file that `ENMASSE_CONFIG` names, if any.

    Raises: Invalid naming every setting that is unknown or has a value that is not allowed.
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
    """Refuse a password among the arguments, where everybody on the machine can read it."""
    try:
        parts = urlsplit(store)
        has_password = parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        return
    if has_password and origin == "option":
        raise Invalid(
            Code.SETTING_INVALID,
            "setting store: a command line can be read by others, so it takes no password; put the"
            " URL into ENMASSE_STORE or the settings file, or the password into PGPASSWORD or"
            " ~/.pgpass",
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
            message = f"unknown; known are {known}"
        else:
            message = f"{worded(detail)} (from {origins[name]})"
        faults.append(Fault(name.replace("_", "-"), message))
    summary = "; ".join(f"setting {fault}" for fault in faults)
    return Invalid(Code.SETTING_INVALID, summary, faults=faults)
