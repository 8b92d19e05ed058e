"""The options of the format `enmasse`: names, defaults, units, and what a wrong one is told."""

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

from enmasse.base.errors import Invalid

Start = Literal["earliest", "latest"] | datetime | dict[int, int]
"""Where reading begins or ends: everywhere, at a time, or at offsets by partition."""


@dataclass(frozen=True)
class Option:
    """One option as users see it."""

    name: str
    default: str | None
    unit: str
    meaning: str


OPTIONS = [
    Option(
        "url",
        None,
        "URLs, by commas",
        "`amqp[s]|ws[s]://[user:password@]host[:port]`; the first that answers is used",
    ),
    Option("address", None, "name", "the stream to read"),
    Option(
        "space",
        None,
        "name",
        "the address space, where URL and user do not tell it; it fills the column `space`",
    ),
    Option("user", None, "text", "instead of in `url`"),
    Option("password", None, "text", "instead of in `url`"),
    Option(
        "saslMechanisms",
        None,
        "names, by commas",
        "the only mechanisms to be used; by default the strongest that fits",
    ),
    Option("tlsCa", None, "PEM file", "authorities trusted instead of those of the system"),
    Option("tlsCertificate", None, "PEM file", "the client's certificate"),
    Option("tlsKey", None, "PEM file", "the key of that certificate"),
    Option("tlsInsecure", "false", "boolean", "take any certificate: for tests only"),
    Option(
        "selector", None, "SQL", "only messages that it selects, where the server applies selectors"
    ),
    Option(
        "columns",
        None,
        "names with types",
        "such as `offset, device string, value double`; by default all of the envelope",
    ),
    Option(
        "decode",
        None,
        "format",
        "how bodies become columns: json, senml-json, cbor, senml-cbor, csv; auto: by content-type",
    ),
    Option(
        "timeUnit",
        "s",
        "s, ms, us or ns",
        "what numbers in columns of type timestamp count since 1970",
    ),
    Option("csvHeader", "false", "boolean", "the first line of each body has the names"),
    Option("csvDelimiter", ",", "character", "what stands between fields"),
    Option(
        "start",
        "earliest",
        "place",
        'where a new query begins: earliest, latest, a time (RFC 3339) or `{"0": 17}`',
    ),
    Option(
        "end",
        "latest",
        "place",
        "batch only: where reading ends, as `start`; what is named is not read any more",
    ),
    Option(
        "maxRowsPerTrigger", "1000000", "messages", "the most of one batch of a streaming query"
    ),
    Option(
        "maxBytesPerTrigger",
        None,
        "bytes",
        "the same in bytes, by the size of the messages where the batch begins",
    ),
    Option(
        "rowsPerTask",
        "100000",
        "messages",
        "a task reads so many, or more where a batch would have over 64 tasks",
    ),
    Option(
        "failOnDataLoss",
        "true",
        "boolean",
        "messages no longer kept, or a stream made anew, end the query; else they are counted",
    ),
    Option(
        "timeout", "60", "seconds", "how long a server may be silent or away before the query fails"
    ),
]
"""All of them, in the order in which the guide shows them."""

REQUIRED = ("url", "address")
TASKS_MAX = 64
"""Tasks of one batch."""
KNOWN = {option.name.lower(): option for option in OPTIONS}


@dataclass(frozen=True)
class Options:
    """Options that are checked. They travel to executors, and show no password as text."""

    address: str
    space: str | None
    urls: list[str] = field(repr=False)
    client: dict[str, Any] = field(repr=False)
    selector: str | None
    columns: dict[str, Any]
    start: Start
    end: Start
    rows_max: int
    bytes_max: int | None
    task_rows: int
    fails_on_loss: bool
    timeout_s: int

    def stream(self) -> dict[str, Any]:
        """What `enmasse.native.Stream` is made from."""
        return {
            "urls": self.urls,
            "client": self.client,
            "address": self.address,
            "space": self.space,
            "selector": self.selector,
            "silenceMs": self.timeout_s * 1000,
        }


def read(given: Mapping[str, str]) -> Options:
    """Check the options of a query; names count whatever their case.

    Raises Invalid that names the option and the mend.
    """
    values = {option.name: option.default for option in OPTIONS}
    for name, value in given.items():
        option = KNOWN.get(name.lower())
        if option is None:
            raise Invalid("E1003", f"option {name} is not known: did you mean {nearest(name)}?")
        values[option.name] = value
    for name in REQUIRED:
        if not values[name]:
            raise Invalid("E1003", f"option {name} is missing: {KNOWN[name].meaning}")
    return Options(
        address=str(values["address"]),
        space=values["space"],
        urls=[_with_login(url.strip(), values) for url in str(values["url"]).split(",")],
        client=_client(values),
        selector=values["selector"],
        columns=_columns(values),
        start=_place("start", values),
        end=_place("end", values),
        rows_max=_whole("maxRowsPerTrigger", values),
        bytes_max=_whole("maxBytesPerTrigger", values) if values["maxBytesPerTrigger"] else None,
        task_rows=_whole("rowsPerTask", values),
        fails_on_loss=_flag("failOnDataLoss", values),
        timeout_s=_whole("timeout", values),
    )


def nearest(name: str) -> str:
    """Return the known option whose name is most like another."""
    return KNOWN[difflib.get_close_matches(name.lower(), KNOWN, n=1, cutoff=0.0)[0]].name


Values = Mapping[str, str | None]


def _with_login(url: str, values: Values) -> str:
    """Put user and password into a URL that has none."""
    user, password = values["user"], values["password"]
    if user is None:
        return url
    scheme, split, rest = url.rpartition("://")
    if "@" in rest.split("/")[0]:
        raise Invalid("E1003", "option user: the URL names a user as well; leave one of them out")
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password is not None else "")
    return f"{scheme}{split}{login}@{rest}"


def _client(values: Values) -> dict[str, Any]:
    mechanisms = values["saslMechanisms"]
    client = {
        "ca": values["tlsCa"],
        "certificate": values["tlsCertificate"],
        "key": values["tlsKey"],
        "insecure": _flag("tlsInsecure", values),
        "saslMechanisms": [name.strip() for name in mechanisms.split(",")] if mechanisms else None,
        "hostname": values["space"],
    }
    return {name: value for name, value in client.items() if value is not None}


def _columns(values: Values) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "columns": values["columns"],
        "decode": values["decode"],
        "timeUnit": values["timeUnit"],
        "csvHeader": _flag("csvHeader", values),
        "csvDelimiter": values["csvDelimiter"],
    }
    if columns["decode"] and columns["columns"] and "_error" not in columns["columns"]:
        # what cannot be decoded always shows
        columns["columns"] += ", _error"
    return columns


def _flag(name: str, values: Values) -> bool:
    text = str(values[name]).strip().lower()
    if text not in ("true", "false"):
        raise Invalid("E1003", f"option {name} is {values[name]!r}: it is true or false")
    return text == "true"


def _whole(name: str, values: Values) -> int:
    text = str(values[name]).strip()
    if not text.isdecimal() or int(text) == 0:
        unit = KNOWN[name.lower()].unit
        raise Invalid(
            "E1003", f"option {name} is {values[name]!r}: it is a number of {unit} from 1 on"
        )
    return int(text)


def _place(name: str, values: Values) -> Start:
    text = str(values[name]).strip()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    readers: list[Callable[[str], Start]] = [_offsets, _time]
    for reader in readers:
        try:
            return reader(text)
        except (ValueError, TypeError, AttributeError):
            continue
    raise Invalid(
        "E1003",
        f"option {name} is {text!r}: it is earliest, latest, a time such as 2026-01-31T08:00:00Z, "
        'or offsets by partition such as {"0": 17}',
    )


def _offsets(text: str) -> dict[int, int]:
    offsets = {int(partition): offset for partition, offset in json.loads(text).items()}
    if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
        raise ValueError(text)
    return offsets


def _time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
