"""The options of the format `enmasse`: names, defaults, units, and their validation."""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from enmasse.base.errors import Invalid

Position = Literal["earliest", "latest"] | datetime | dict[int, int]
"""Start or end of reading: of the stream, at a time, or at offsets by partition."""


@dataclass(frozen=True)
class Option:
    """One option as users see it."""

    name: str
    default: str | None
    unit: str
    meaning: str


CONNECTION = [
    Option(
        "url",
        None,
        "URLs, by commas",
        "`amqp[s]|ws[s]://[user:password@]host[:port]`; the first that answers is used",
    ),
    Option(
        "space",
        None,
        "name",
        "the address space, if URL and user do not determine it; it fills the column `space`",
    ),
    Option("user", None, "text", "instead of in `url`"),
    Option("password", None, "text", "instead of in `url`"),
    Option("token", None, "text", "a bearer token, instead of a password"),
    Option(
        "tokenFile",
        None,
        "file",
        "its text is the token; read for each connection, on executors too",
    ),
    Option(
        "saslMechanisms",
        None,
        "names, by commas",
        "the only mechanisms to use; by default the strongest available",
    ),
    Option("tlsCa", None, "PEM file", "authorities to trust instead of those of the system"),
    Option(
        "tlsServerName",
        None,
        "name",
        "the expected name of the server, NAME.NAMESPACE of a space; by default the URL's host",
    ),
    Option("tlsCertificate", None, "PEM file", "the client's certificate"),
    Option("tlsKey", None, "PEM file", "the key of that certificate"),
    Option("tlsInsecure", "false", "boolean", "accept any certificate: for tests only"),
    Option(
        "timeout",
        "60",
        "seconds",
        "how long a server may be silent or unavailable before the query fails",
    ),
]
"""How a server is reached, the same for reading and writing."""

READING = [
    Option(
        "address", None, "name", "the stream to read, or with `spool` the queue or subscription"
    ),
    Option(
        "selector", None, "SQL", "only messages that it selects, if the server supports selectors"
    ),
    Option(
        "columns",
        None,
        "names with types",
        "such as `offset, device string, value double`; by default the whole envelope",
    ),
    Option(
        "decode",
        None,
        "format",
        "the format of bodies: json, senml-json, cbor, senml-cbor, csv; auto: by content-type",
    ),
    Option(
        "timeUnit",
        "s",
        "s, ms, us or ns",
        "the unit of numbers in columns of type timestamp, since 1970",
    ),
    Option("csvHeader", "false", "boolean", "the first line of each body has the column names"),
    Option("csvDelimiter", ",", "character", "the separator of fields"),
    Option(
        "start",
        "earliest",
        "place",
        'the start of a new query: earliest, latest, a time (RFC 3339) or `{"0": 17}`; other'
        " partitions start at the first message",
    ),
    Option(
        "end",
        "latest",
        "place",
        "batch only: the end (exclusive), as `start`; other partitions are read to their end",
    ),
    Option(
        "maxRowsPerTrigger", "1000000", "messages", "the maximum of one batch of a streaming query"
    ),
    Option(
        "maxBytesPerTrigger",
        None,
        "bytes",
        "the same in bytes, estimated by 16 samples of the batch",
    ),
    Option(
        "rowsPerTask",
        "100000",
        "messages",
        "messages per task; more if a batch would have over 64 tasks",
    ),
    Option(
        "failOnDataLoss",
        "true",
        "boolean",
        "expired messages, or a stream that was created again, fail the query; else they are"
        " counted",
    ),
    Option(
        "spool",
        None,
        "folder",
        "the address is a queue, read through this folder, which driver and executors share",
    ),
    Option(
        "spoolBytes", "1073741824", "bytes", "the maximum in `spool` in addition to the last batch"
    ),
    Option(
        "idWindow",
        "100000",
        "messages",
        "identities that are kept to recognize redelivered messages",
    ),
]
"""What is read, and how much at a time."""

WRITING = [
    Option("address", None, "name", "the target of rows; by default their column `address`"),
    Option(
        "numbered",
        "true",
        "boolean",
        "a repeated batch is stored once; false for topics and direct addresses, without numbers",
    ),
    Option(
        "producer",
        None,
        "name",
        "the permanent name under which rows are numbered: by default the id of the streaming"
        " query",
    ),
    Option("batch", None, "number", "with `producer` and `df.write`: the number of the batch"),
    Option(
        "order",
        "content",
        "content or input",
        "rows of a task are sent sorted by their bytes, or in their order: only if that is always"
        " the same",
    ),
    Option(
        "deadLetter",
        None,
        "folder or URI",
        "a Delta table of rejected rows, with the cause; without it a rejected row fails the query",
    ),
]
"""What is written, and how."""

TASKS_MAX = 64
"""Tasks of one batch."""
KNOWN_READING = {option.name.lower(): option for option in CONNECTION + READING}
KNOWN_WRITING = {option.name.lower(): option for option in CONNECTION + WRITING}
Known = Mapping[str, Option]
Values = Mapping[str, str | None]


@dataclass(frozen=True)
class Server:
    """Validated options of a connection. They are sent to executors, and their text shows no
    password.
    """

    space: str | None
    urls: list[str] = field(repr=False)
    client: dict[str, Any] = field(repr=False)
    token_file: str | None
    timeout_s: int

    @property
    def servers(self) -> list[str]:
        """The servers of the URLs, without logins."""
        return [urlsplit(url).netloc.rpartition("@")[2] for url in self.urls]

    def arguments(self, **own: Any) -> dict[str, Any]:
        """Return the arguments of a native connection, with the current token.

        Raises Invalid if `tokenFile` cannot be read.
        """
        client = _with_token(self.client, self.token_file)
        shared = {"urls": self.urls, "client": client, "space": self.space}
        return shared | {"silenceMs": self.timeout_s * 1000} | own


@dataclass(frozen=True)
class Options(Server):
    """Validated options of a query."""

    address: str
    selector: str | None
    columns: dict[str, Any]
    start: Position
    end: Position
    rows_max: int
    bytes_max: int | None
    task_rows: int
    fails_on_loss: bool
    spool: str | None
    spool_bytes: int
    id_window: int

    def stream(self) -> dict[str, Any]:
        """Return the arguments of `enmasse.native.Stream` and `Intake`; raises as `arguments`."""
        return self.arguments(address=self.address, selector=self.selector)


@dataclass(frozen=True)
class Writing(Server):
    """Validated options of a write."""

    address: str | None
    numbered: bool
    producer: str | None
    batch: int | None
    by_content: bool
    dead_letter: str | None

    def outbox(self, producer: str | None) -> dict[str, Any]:
        """Return the arguments of `enmasse.native.Outbox`; raises as `arguments`."""
        return self.arguments(address=self.address, producer=producer)


DECODED = ("json", "senml-json", "cbor", "senml-cbor", "csv", "auto")
"""The formats of bodies; `auto` uses the content-type of each message."""


def read(given: Mapping[str, str]) -> Options:
    """Validate the options of a query; names are case-insensitive.

    Raises Invalid that names the option and the remedy.
    """
    values = _values(given, KNOWN_READING, ("url", "address"))
    return Options(
        **_server(values),
        address=str(values["address"]),
        selector=values["selector"],
        columns=_columns(values),
        start=_position("start", values),
        end=_position("end", values),
        rows_max=_positive("maxRowsPerTrigger", values),
        bytes_max=_positive("maxBytesPerTrigger", values) if values["maxBytesPerTrigger"] else None,
        task_rows=_positive("rowsPerTask", values),
        fails_on_loss=_boolean("failOnDataLoss", values),
        spool=_spool(values),
        spool_bytes=_positive("spoolBytes", values),
        id_window=_positive("idWindow", values),
    )


SPARK_OPTIONS = {"checkpointlocation", "queryname"}
"""Options of Spark, which it passes to the sink of a streaming write too."""


def write(given: Mapping[str, str]) -> Writing:
    """Validate the options of a write, as `read`."""
    own = {name: value for name, value in given.items() if name.lower() not in SPARK_OPTIONS}
    values = _values(own, KNOWN_WRITING, ("url",))
    batch = values["batch"]
    if batch is not None and not batch.isdecimal():
        raise Invalid("E1003", f"option batch is {batch!r}: it must be a number from 0")
    return Writing(
        **_server(values),
        address=values["address"],
        numbered=_boolean("numbered", values),
        producer=values["producer"],
        batch=None if batch is None else int(batch),
        by_content=_choice("order", values, ("content", "input")) == "content",
        dead_letter=values["deadLetter"],
    )


def _server(values: Values) -> dict[str, Any]:
    """The fields of `Server`."""
    return {
        "space": values["space"],
        "urls": [_with_login(url.strip(), values) for url in str(values["url"]).split(",")],
        "client": _client(values),
        "token_file": values["tokenFile"],
        "timeout_s": _positive("timeout", values),
    }


def _values(given: Mapping[str, str], known: Known, required: tuple[str, ...]) -> Values:
    values = {option.name: option.default for option in known.values()}
    for name, value in given.items():
        option = known.get(name.lower())
        if option is None:
            raise Invalid(
                "E1003", f"option {name} is not known: did you mean {nearest(name, known)}?"
            )
        values[option.name] = value
    for name in required:
        if not values[name]:
            raise Invalid("E1003", f"option {name} is missing: {known[name].meaning}")
    return values


def nearest(name: str, known: Known = KNOWN_READING) -> str:
    """Return the known option with the most similar name."""
    return known[difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.0)[0]].name


def _with_login(url: str, values: Values) -> str:
    """Add user and password to a URL."""
    user, password = values["user"], values["password"]
    if user is None:
        return url
    scheme, split, rest = url.rpartition("://")
    if "@" in rest.split("/")[0]:
        raise Invalid("E1003", "option user: the URL names a user as well; omit one of them")
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password is not None else "")
    return f"{scheme}{split}{login}@{rest}"


def _client(values: Values) -> dict[str, Any]:
    logins = [name for name in ("password", "token", "tokenFile") if values[name] is not None]
    if len(logins) > 1:
        raise Invalid("E1003", f"options {' and '.join(logins)}: they exclude each other; keep one")
    given = [name for name in ("tlsCertificate", "tlsKey") if values[name] is not None]
    if len(given) == 1:
        other = "tlsKey" if given == ["tlsCertificate"] else "tlsCertificate"
        raise Invalid("E1003", f"option {other} is missing: a certificate needs its key")
    mechanisms = values["saslMechanisms"]
    client = {
        "ca": values["tlsCa"],
        "serverName": values["tlsServerName"],
        "certificate": values["tlsCertificate"],
        "key": values["tlsKey"],
        "insecure": _boolean("tlsInsecure", values),
        "saslMechanisms": [name.strip() for name in mechanisms.split(",")] if mechanisms else None,
        "hostname": values["space"],
        "token": values["token"],
    }
    return {name: value for name, value in client.items() if value is not None}


def _with_token(client: dict[str, Any], file: str | None) -> dict[str, Any]:
    if file is None:
        return client
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid("E1003", f"option tokenFile: cannot read {file}: {error}") from None
    return client | {"token": token}


def _columns(values: Values) -> dict[str, Any]:
    if len(delimiter := str(values["csvDelimiter"])) != 1:
        raise Invalid("E1003", f"option csvDelimiter is {delimiter!r}: it must be one character")
    columns: dict[str, Any] = {
        "columns": values["columns"],
        "decode": _choice("decode", values, DECODED),
        "timeUnit": _choice("timeUnit", values, ("s", "ms", "us", "ns")),
        "csvHeader": _boolean("csvHeader", values),
        "csvDelimiter": delimiter,
    }
    if columns["decode"] and columns["columns"] and not _names_error(columns["columns"]):
        # decoding errors are always reported
        columns["columns"] += ", _error"
    return columns


def _names_error(columns: str) -> bool:
    """Whether `_error` is one of the column names, quoted or not."""
    plain = re.sub(r"`((?:[^`]|``)*)`", lambda quoted: re.sub(r"\W", "-", quoted[1]), columns)
    return re.search(r"(?:^|,)\s*_error\s*(?:\s|,|$)", plain) is not None


def _choice(name: str, values: Values, words: tuple[str, ...]) -> str | None:
    text = values[name]
    if text is not None and text not in words:
        (near,) = difflib.get_close_matches(text.lower(), words, n=1, cutoff=0.0)
        raise Invalid(
            "E1003",
            f"option {name} is {text!r}: did you mean {near}? It is one of {', '.join(words)}",
        )
    return text


def _boolean(name: str, values: Values) -> bool:
    text = str(values[name]).strip().lower()
    if text not in ("true", "false"):
        raise Invalid("E1003", f"option {name} is {values[name]!r}: it must be true or false")
    return text == "true"


def _positive(name: str, values: Values) -> int:
    text = str(values[name]).strip()
    if not text.isdecimal() or int(text) == 0:
        unit = KNOWN_READING[name.lower()].unit
        raise Invalid(
            "E1003", f"option {name} is {values[name]!r}: it must be a number of {unit} from 1"
        )
    return int(text)


def _spool(values: Values) -> str | None:
    folder = values["spool"]
    if folder is None:
        return None
    if not folder.startswith("/"):
        raise Invalid("E1003", f"option spool is {folder!r}: it must be an absolute path")
    if str(values["start"]).strip() != "earliest":
        raise Invalid("E1003", "option start: a queue has no offsets; omit it")
    return folder


def _position(name: str, values: Values) -> Position:
    text = str(values[name]).strip()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    readers: list[Callable[[str], Position]] = [_offsets, _time]
    for reader in readers:
        try:
            return reader(text)
        except (ValueError, TypeError, AttributeError):
            continue
    raise Invalid(
        "E1003",
        f"option {name} is {text!r}: it must be earliest, latest, a time such as"
        ' 2026-01-31T08:00:00Z, or offsets by partition such as {"0": 17}',
    )


def _offsets(text: str) -> dict[int, int]:
    offsets = {int(partition): offset for partition, offset in json.loads(text).items()}
    if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
        raise ValueError(text)
    return offsets


def _time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
