"""The options of the format `enmasse`: names, defaults, units, and their validation."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
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


def _options(table: str) -> list[Option]:
    """The options of a table: `NAME (UNIT) = DEFAULT`, and their meaning in indented lines."""
    entries = re.findall(r"^(\w+) \((.*)\)(?: = (.+))?\n((?: +.+\n)+)", table, re.MULTILINE)
    return [
        Option(name, default or None, unit, " ".join(meaning.split()))
        for name, unit, default, meaning in entries
    ]


CONNECTION = _options("""
url (URLs, by commas)
    `amqp[s]|ws[s]://[user:password@]host[:port]`; the first that answers is used
space (name)
    the address space, if URL and user do not determine it; the column `space` has it
user (text)
    instead of in `url`
password (text)
    instead of in `url`
token (text)
    a bearer token, instead of a password
tokenFile (file)
    its text is the token; read for each connection, on executors too
saslMechanisms (names, by commas)
    the only mechanisms to use; by default the strongest available
tlsCa (PEM file)
    authorities to trust instead of those of the system
tlsServerName (name)
    the expected name of the server, NAME.NAMESPACE of a space; by default the URL's host
tlsCertificate (PEM file)
    the client's certificate
tlsKey (PEM file)
    the key of that certificate
tlsInsecure (boolean) = false
    accept any certificate: for tests only
timeout (seconds) = 60
    how long a server may be silent or unavailable before the query fails
""")
"""How a server is reached, the same for reading and writing."""

READING = _options("""
address (name)
    the stream to read, or with `spool` the queue or subscription
selector (SQL)
    only messages that it selects, if the server supports selectors
columns (names with types)
    such as `offset, device string, value double`; by default the whole envelope
decode (format)
    the format of bodies: json, senml-json, cbor, senml-cbor, csv; auto: by content-type
timeUnit (s, ms, us or ns) = s
    the unit of numbers in columns of type timestamp, since 1970
csvHeader (boolean) = false
    the first line of each body has the column names
csvDelimiter (character) = ,
    the separator of fields
start (place) = earliest
    the start of a new query: earliest, latest, a time (RFC 3339) or `{"0": 17}`; other
    partitions start at the first message
end (place) = latest
    batch only: the end (exclusive), as `start`; other partitions are read to their end
maxRowsPerTrigger (messages) = 1000000
    the maximum of one batch of a streaming query
maxBytesPerTrigger (bytes)
    the same in bytes, estimated by 16 samples of the batch
rowsPerTask (messages) = 100000
    messages per task; more if a batch would have over 64 tasks
failOnDataLoss (boolean) = true
    expired messages, or a stream that was created again, fail the query; else they are counted
spool (folder)
    the address is a queue, read through this folder, which driver and executors share
spoolBytes (bytes) = 1073741824
    the maximum in `spool` in addition to the last batch
idWindow (messages) = 100000
    identities that are kept to recognize redelivered messages
""")
"""What is read, and how much at a time."""

WRITING = _options("""
address (name)
    the target of rows; by default their column `address`
numbered (boolean) = true
    a repeated batch is stored once; false for topics and direct addresses, without numbers
producer (name)
    the permanent name under which rows are numbered: by default the id of the streaming query
batch (number)
    with `producer` and `df.write`: the number of the batch
order (content or input) = content
    rows of a task are sent sorted by their bytes, or in their order: only if that is always the
    same
deadLetter (folder or URI)
    a Delta table of rejected rows, with the cause; without it a rejected row fails the query
""")
"""What is written, and how."""

TASKS_MAX = 64
"""Tasks of one batch."""
KNOWN_READING = {option.name.lower(): option for option in CONNECTION + READING}
KNOWN_WRITING = {option.name.lower(): option for option in CONNECTION + WRITING}
Known = Mapping[str, Option]
Values = Mapping[str, Any]


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
    max_rows_per_trigger: int
    max_bytes_per_trigger: int | None
    rows_per_task: int
    fail_on_data_loss: bool
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
    order: Literal["content", "input"]
    dead_letter: str | None

    def outbox(self, producer: str | None) -> dict[str, Any]:
        """Return the arguments of `enmasse.native.Outbox`; raises as `arguments`."""
        return self.arguments(address=self.address, producer=producer)


def read(given: Mapping[str, str]) -> Options:
    """Validate the options of a query; names are case-insensitive.

    Raises Invalid that names the option and the remedy.
    """
    values = _values(given, KNOWN_READING, ("url", "address"))
    if (spool := values["spool"]) is not None:
        if not spool.startswith("/"):
            raise _wrong("spool", spool, "an absolute path")
        if values["start"] != "earliest":
            raise Invalid("E1003", "option start: a queue has no offsets; omit it")
    return Options(**_server(values), **_own(Options, values) | {"columns": _columns(values)})


SPARK_OPTIONS = {"checkpointlocation", "queryname"}
"""Options of Spark, which it passes to the sink of a streaming write too."""


def write(given: Mapping[str, str]) -> Writing:
    """Validate the options of a write, as `read`."""
    own = {name: value for name, value in given.items() if name.lower() not in SPARK_OPTIONS}
    values = _values(own, KNOWN_WRITING, ("url",))
    return Writing(**_server(values), **_own(Writing, values))


def _own(of: type[Server], values: Values) -> dict[str, Any]:
    """The fields that a class adds to those of `Server`: options of the same names."""
    names = {re.sub("[A-Z]", lambda upper: f"_{upper[0].lower()}", name): name for name in values}
    return {field: values[names.get(field, field)] for field in of.__annotations__}


def _server(values: Values) -> dict[str, Any]:
    """The fields of `Server`."""
    return {
        "space": values["space"],
        "urls": [_with_login(url.strip(), values) for url in values["url"].split(",")],
        "client": _client(values),
        "token_file": values["tokenFile"],
        "timeout_s": values["timeout"],
    }


def _values(given: Mapping[str, str], known: Known, required: tuple[str, ...]) -> Values:
    """The values of all known options, converted; None without a value and a default."""
    texts = {option.name: option.default for option in known.values()}
    for name, value in given.items():
        option = known.get(name.lower())
        if option is None:
            raise Invalid(
                "E1003", f"option {name} is not known: did you mean {nearest(name, known)}?"
            )
        texts[option.name] = value
    for name in required:
        if not texts[name]:
            raise Invalid("E1003", f"option {name} is missing: {known[name].meaning}")
    return {
        name: None if text is None else _converted(known[name.lower()], text)
        for name, text in texts.items()
    }


def nearest(name: str, known: Known = KNOWN_READING) -> str:
    """Return the known option with the most similar name."""
    return known[_nearest(name, known)].name


def _nearest(word: str, words: Iterable[str]) -> str:
    return difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.0)[0]


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
    lacking = [name for name in ("tlsCertificate", "tlsKey") if values[name] is None]
    if len(lacking) == 1:
        raise Invalid("E1003", f"option {lacking[0]} is missing: a certificate needs its key")
    mechanisms = values["saslMechanisms"]
    client = {
        "ca": values["tlsCa"],
        "serverName": values["tlsServerName"],
        "certificate": values["tlsCertificate"],
        "key": values["tlsKey"],
        "insecure": values["tlsInsecure"],
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
    names = ("columns", "decode", "timeUnit", "csvHeader", "csvDelimiter")
    columns = {name: values[name] for name in names}
    if columns["decode"] and columns["columns"] and not _names_error(columns["columns"]):
        # decoding errors are always reported
        columns["columns"] += ", _error"
    return columns


def _names_error(columns: str) -> bool:
    """Whether `_error` is one of the column names, quoted or not."""
    plain = re.sub(r"`((?:[^`]|``)*)`", lambda quoted: re.sub(r"\W", "-", quoted[1]), columns)
    return re.search(r"(?:^|,)\s*_error\s*(?:\s|,|$)", plain) is not None


CHOICES = {
    "decode": ("json", "senml-json", "cbor", "senml-cbor", "csv", "auto"),
    "timeUnit": ("s", "ms", "us", "ns"),
    "order": ("content", "input"),
}
"""The words of options that have only these."""


def _converted(option: Option, text: str) -> Any:
    """Convert the text of an option by its unit."""
    if option.name in CHOICES:
        return _choice(option.name, text)
    plain = text.strip()
    match option.unit:
        case "boolean":
            if plain.lower() not in ("true", "false"):
                raise _wrong(option.name, text, "true or false")
            return plain.lower() == "true"
        case "seconds" | "messages" | "bytes":
            if not plain.isdecimal() or int(plain) == 0:
                raise _wrong(option.name, text, f"a number of {option.unit} from 1")
            return int(plain)
        case "number":
            if not plain.isdecimal():
                raise _wrong(option.name, text, "a number from 0")
            return int(plain)
        case "character" if len(text) != 1:
            raise _wrong(option.name, text, "one character")
        case "place":
            return _position(option.name, plain)
    return text


def _wrong(name: str, text: str, wanted: str) -> Invalid:
    return Invalid("E1003", f"option {name} is {text!r}: it must be {wanted}")


def _choice(name: str, text: str) -> str:
    words = CHOICES[name]
    if text not in words:
        hint = f"did you mean {_nearest(text, words)}? It is one of {', '.join(words)}"
        raise Invalid("E1003", f"option {name} is {text!r}: {hint}")
    return text


def _position(name: str, text: str) -> Position:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    with suppress(ValueError, TypeError, AttributeError):
        return _offsets(text)
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise _wrong(
        name,
        text,
        "earliest, latest, a time such as 2026-01-31T08:00:00Z, or offsets by partition such as"
        ' {"0": 17}',
    )


def _offsets(text: str) -> dict[int, int]:
    offsets = {int(partition): offset for partition, offset in json.loads(text).items()}
    if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
        raise ValueError(text)
    return offsets
