"""Pipeline: what becomes tables, live state and alerts of the messages of streams.

The document says all that `enmasse pipeline run` does but for functions in a file beside it. The
platform keeps a Pipeline like any resource and does nothing with it: who runs it reads the file.
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from enmasse.base.errors import Fault
from enmasse.resources.core import NamedMetadata
from enmasse.resources.model import AGE, Column, Label, Model, Resource
from enmasse.resources.quantities import Count, Delay, Duration, Size

DAY_MS = 86_400_000
SOURCES_MAX, DETECTORS_MAX, METRICS_MAX, WINDOWS_MAX, SINKS_MAX = 32, 64, 256, 8, 32
NAME_LENGTH_MAX = 255
"""Characters of a field, a metric or a unit."""

_URL = re.compile(r"(amqp|amqps|ws|wss)://[^/@\s]+(/\S*)?")
_OFFSETS = re.compile(r'\{\s*"\d+"\s*:\s*\d+\s*(,\s*"\d+"\s*:\s*\d+\s*)*\}')
_TABLES_URI = re.compile(r"(s3a?://[a-z0-9][a-z0-9.-]*|file://)(/[\w.=-]+)*/?", re.ASCII)
_LIVE_URL = re.compile(r"(sqlite:///|postgresql(\+psycopg)?://)\S+")

Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(allow_inf_nan=False, gt=0)]


def _server(value: str) -> str:
    for one in value.split(","):
        if "@" in one:
            raise ValueError(
                "must carry no login: write `user` in options, and the password in a file that"
                " `passwordFile` names"
            )
        if not _URL.fullmatch(one.strip()):
            raise ValueError(
                f"{one.strip()!r} names no server: write amqp|amqps|ws|wss://host[:port],"
                " several by commas"
            )
    return value


def _live_url(value: str) -> str:
    if not _LIVE_URL.fullmatch(value):
        raise ValueError(
            "names no database: write sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        )
    authority = value.partition("://")[2].partition("/")[0]
    if ":" in authority.rpartition("@")[0] or re.search(r"[?&]password=", value):
        raise ValueError("must carry no password: name its file in `passwordFile`")
    return value


def _folder(value: str) -> str:
    if "://" in value and not _TABLES_URI.fullmatch(value):
        raise ValueError(
            "is no place for tables: write a folder, or s3://BUCKET/FOLDER (letters, digits and"
            " ._=- between slashes; keys are in the environment)"
        )
    return value


def _spool(value: str) -> str:
    if "://" in value:
        raise ValueError(f"{value!r} is no folder: a spool lies on a disk that all share")
    return value


def _options(value: dict[str, str]) -> dict[str, str]:
    own = {"url", "address", "password", "columns", "decode", "start", "failondataloss"}
    own |= {
        "spool",
        "maxrowspertrigger",
        "maxbytespertrigger",
        "timeunit",
        "csvheader",
        "csvdelimiter",
    }
    for name in value:
        if name.lower() == "password":
            raise ValueError("password is not kept in documents: name its file in `passwordFile`")
        if name.lower() == "token":
            raise ValueError("token is not kept in documents: name its file in `tokenFile`")
        if name.lower() in own:
            raise ValueError(f"{name} is a field of the source itself: set it outside of options")
    return value


def _name(value: str) -> str:
    if not 0 < len(value) <= NAME_LENGTH_MAX:
        raise ValueError(f"must have 1 to {NAME_LENGTH_MAX} characters")
    if "`" in value or any(ord(letter) < 32 for letter in value):
        raise ValueError(f"{value!r} must have neither backticks nor control characters")
    return value


def _start(value: str) -> str:
    if value not in ("earliest", "latest") and not _OFFSETS.fullmatch(value):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(
                f"{value!r} is no place: write earliest, latest, a time such as"
                ' 2026-01-31T08:00:00Z, or offsets by partition such as {"0": 17}'
            ) from None
    return value


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _metric(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


Name = Annotated[str, AfterValidator(_name)]
_Names = Annotated[tuple[Name, ...], Field(max_length=8)]
Fields = Annotated[_Names, BeforeValidator(_listed, json_schema_input_type=str | _Names)]
"""Where something stands in a message: a field of the body or a column of the envelope; of several
the first that is there."""


class Metric(Model):
    """One field of a body that is a reading of its own."""

    name: Name
    """What the metric is called in the tables."""

    field: Name | None = None
    """The field of the body; by default the one of that name."""

    unit: Name | None = None
    """The unit of its values, such as Cel or %RH."""


class Sink(Model):
    """Rows of a table that go to an address, each as a message with a body of JSON."""

    name: Label
    """What it is called; its messages are numbered under this name."""

    address: Annotated[str, Field(min_length=1)]
    """A queue or a stream."""

    table: Literal["silver", "quarantine"] = "silver"
    """Whose new rows it gets."""

    source: Label | None = None
    """Only rows of this source; by default of all."""

    where: Annotated[str, Field(min_length=1)] | None = None
    """Only rows for which this condition holds, in the SQL of Spark."""

    url: Annotated[str, AfterValidator(_server)] | None = None
    """The server; by default that of the source, and its login."""

    password_file: str | None = None
    """A file that holds the password of `options.user`."""

    options: Annotated[dict[str, str], AfterValidator(_options)] = Field(default_factory=dict)
    """How the server is reached: space, user, tlsCa and the like."""


class Source(Model):
    """A stream or a queue, and where readings stand in its messages."""

    name: Label
    """What the source is called in tables, figures and checkpoints."""

    url: Annotated[str, AfterValidator(_server)]
    """The server: amqp[s]|ws[s]://host[:port]; of several by commas the first that answers."""

    address: Annotated[str, Field(min_length=1)]
    """The stream (a topic with retention), or, with `spool`, the queue or subscription."""

    spool: Annotated[str, Field(min_length=1), AfterValidator(_spool)] | None = None
    """The address is a queue or a subscription, read through this folder, which all who run Spark
    share; one that does not begin with `/` is beside the document."""

    password_file: str | None = None
    """A file that holds the password of `options.user`."""

    options: Annotated[dict[str, str], AfterValidator(_options)] = Field(default_factory=dict)
    """Further options of the format `enmasse`: space, user, tlsCa, selector and the like."""

    format: Literal["json", "cbor", "senml-json", "senml-cbor", "csv"] = "json"
    """How bodies are read."""

    device: Fields = ("device",)
    """Who measured. Of SenML records it is their name up to its last `:` or `/`."""

    time: Fields = ()
    """When it was measured. None: when the server took the message."""

    metric: Fields = ()
    """What was measured in `value`; without it the metric is called as the field of the value."""

    value: Fields = ()
    """What was measured, as a number."""

    text: Fields = ()
    """What was measured, as text."""

    unit: Fields = ()
    """The unit of `value`."""

    metrics: Annotated[
        tuple[
            Annotated[Metric, BeforeValidator(_metric, json_schema_input_type=Name | Metric)], ...
        ],
        Field(max_length=METRICS_MAX),
    ] = ()
    """Fields that are a reading each."""

    time_unit: Literal["s", "ms", "us", "ns"] = "s"
    """What times that are numbers count since 1970."""

    csv_header: bool = False
    """The first line of each body has the names of its fields."""

    csv_delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """What stands between the fields of a line."""

    ahead: Delay = 60_000
    """How far a device's clock may be ahead of the server's; a later time is set back to this."""

    late: Duration = 7 * DAY_MS
    """How old a reading may be when it comes; an older one goes to quarantine."""

    start: Annotated[str, AfterValidator(_start)] = "earliest"
    """Where the first run begins to read a stream: earliest, latest, a time (RFC 3339), or offsets
    by partition: `{"0": 17}`."""

    max_rows: Count = 100_000
    """The most messages of one batch."""

    max_bytes: Size = 16 << 20
    """The same in bytes, by the size of messages at 16 places spread over the batch."""

    fail_on_data_loss: bool = True
    """Messages no longer kept, or a stream made anew, end the source; else they are counted."""


class Tables(Model):
    """Where tables, checkpoints and live state are kept."""

    path: Annotated[str, Field(min_length=1), AfterValidator(_folder)] = "tables"
    """The folder; one that does not begin with `/` is beside the document. Or a folder in a bucket:
    s3://BUCKET/FOLDER."""

    format: Literal["delta", "parquet"] = "delta"
    """Delta: Parquet files with a log. Plain Parquet is no longer written."""

    compact_every: Count = 64
    """Batches after which small files become large ones."""

    keep: Duration = 7 * DAY_MS
    """How long files that are no longer part of a table stay for readers and time travel."""


class Live(Model):
    """The database of what is so now."""

    url: Annotated[str, AfterValidator(_live_url)] | None = Field(default=None, repr=False)
    """sqlite:///FILE or postgresql://..; by default `live.db` beside the tables."""

    password_file: str | None = None
    """A file that holds the password of the user that `url` names."""

    connections: Annotated[int, Field(strict=True, ge=1, le=1000)] = 16
    """With PostgreSQL: the most connections by which executors write at a time."""

    offline_after: Duration = 300_000
    """A device is offline, and its session over, when nothing has come from it for so long."""

    keep: Duration = 90 * DAY_MS
    """How long devices that are silent, last values, sessions and incidents that ended with their
    alerts, and days of usage stay; not shorter than `offlineAfter`."""


class Threshold(Model):
    """A value beyond a limit, until it is back behind another."""

    above: Number | None = None
    """The incident begins with a value above this."""

    below: Number | None = None
    """The incident begins with a value below this."""

    clear: Number | None = None
    """The incident ends at this value or on its good side; by default at the limit."""


class Rate(Model):
    """A value that changes too fast, up or down."""

    above: Positive
    """The largest change that is right."""

    per: Duration = 60_000
    """The time in which it may change so much."""


class Ewma(Model):
    """A value far from its exponentially weighted mean, in deviations."""

    deviations: Positive = 4.0
    """How many standard deviations away it begins."""

    alpha: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Weight of the newest reading."""

    warmup: Annotated[int, Field(strict=True, ge=2, le=100_000)] = 30
    """Readings of a device before the first judgement."""


class Heartbeat(Model):
    """A device from which nothing comes."""

    timeout: Duration
    """How long it may be silent."""


class Command(Model):
    """A message for the device of an incident."""

    address: Annotated[str, Field(min_length=1)]
    """A queue or a stream at the server of the source; `{device}` stands for the device."""

    subject: Annotated[str, Field(min_length=1)] | None = None
    """Its subject; by default the name of the detector."""

    body: dict[str, Any] | None = None
    """Its body, as JSON; by default what an alert says."""


class Detector(Model):
    """One thing to look for in readings, by device: exactly one of the four ways."""

    name: Label
    """What it is called in anomalies and alerts."""

    source: Label | None = None
    """Only readings of this source; by default of all."""

    metric: Name | None = None
    """The metric that is watched; a heartbeat watches the device."""

    threshold: Threshold | None = None
    """A limit with hysteresis."""

    rate: Rate | None = None
    """A rate of change."""

    ewma: Ewma | None = None
    """A distance from the mean."""

    heartbeat: Heartbeat | None = None
    """Silence."""

    cooldown: Delay = 600_000
    """For so long after an incident began no other one of the device begins."""

    alert_address: Annotated[str, Field(min_length=1)] | None = None
    """A queue or a stream at the server of the source: a message goes there for each incident."""

    command: Command | None = None
    """What the device is sent for each incident."""

    def faults(self, path: str, sources: Iterable[str]) -> list[Fault]:
        """Return what is wrong with fields that are each right by themselves."""
        ways = [name for name in ("threshold", "rate", "ewma", "heartbeat") if getattr(self, name)]
        found = []
        if len(ways) != 1:
            found.append(
                Fault(path, f"has {len(ways)} of threshold, rate, ewma, heartbeat; give one")
            )
        if self.metric is None and ways != ["heartbeat"]:
            found.append(Fault(f"{path}.metric", "is required: the metric that is watched"))
        if self.source is not None and self.source not in sources:
            found.append(
                Fault(f"{path}.source", f"no source is called {self.source!r}; name one of them")
            )
        if self.command is not None and "{" in self.command.address.replace("{device}", ""):
            found.append(
                Fault(f"{path}.command.address", "may have {device} in it, and no other brace")
            )
        limit = self.threshold
        if limit and (limit.above is None) == (limit.below is None):
            found.append(Fault(f"{path}.threshold", "give one of above and below"))
        elif limit and limit.clear is not None:
            if limit.above is not None and limit.clear > limit.above:
                found.append(Fault(f"{path}.threshold.clear", "must not lie above `above`"))
            if limit.below is not None and limit.clear < limit.below:
                found.append(Fault(f"{path}.threshold.clear", "must not lie below `below`"))
        return found


class PipelineSpec(Model):
    """What is read, and what becomes of it."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=SOURCES_MAX)]
    """The streams and queues."""

    tables: Tables = Tables()
    """Where tables are kept, and how."""

    windows: Annotated[tuple[Duration, ...], Field(min_length=1, max_length=WINDOWS_MAX)] = (
        60_000,
        3_600_000,
    )
    """The lengths of the windows of gold; each divides a day."""

    live: Live = Live()
    """The database of live state."""

    detectors: Annotated[tuple[Detector, ...], Field(max_length=DETECTORS_MAX)] = ()
    """What is looked for."""

    sinks: Annotated[tuple[Sink, ...], Field(max_length=SINKS_MAX)] = ()
    """What goes on to addresses."""

    functions: str | None = None
    """A Python file beside the document, with functions from DataFrame to DataFrame."""

    trigger: Duration = 5_000
    """A batch begins so often, if there is something to read."""

    gold_trigger: Duration = 30_000
    """Gold takes the new readings of silver so often."""

    memory: Size = 1 << 30
    """Bytes of the heap of an embedded Spark."""


class Pipeline(Resource):
    """A declared pipeline: sources, tables, windows, detectors."""

    categories: ClassVar[tuple[str, ...]] = ("enmasse",)
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Tables", "spec.tables.path"),
        Column("Format", "spec.tables.format"),
        AGE,
    )

    kind: Literal["Pipeline"] = Field(default="Pipeline")
    metadata: NamedMetadata
    spec: PipelineSpec

    def faults(self) -> list[Fault]:
        """Return what is wrong with fields that are each right by themselves."""
        spec = self.spec
        sources = [source.name for source in spec.sources]
        found = _repeated("spec.sources", sources)
        found += _repeated("spec.sources.spool", [one.spool for one in spec.sources if one.spool])
        if spec.tables.format == "parquet":
            found.append(
                Fault(
                    "spec.tables.format",
                    "plain Parquet is no longer written: set it to `delta`, whose tables are"
                    " Parquet files with a log, and name another `path`; sources are read again",
                )
            )
        found += _repeated("spec.detectors", [detector.name for detector in spec.detectors])
        for index, source in enumerate(spec.sources):
            path = f"spec.sources[{index}]"
            if not source.format.startswith("senml"):
                found += _placeless(path, source)
            found += _repeated(f"{path}.metrics", [metric.name for metric in source.metrics])
            if source.spool is not None and source.start != "earliest":
                found.append(Fault(f"{path}.start", "a queue has no offsets: omit it"))
        for index, window in enumerate(spec.windows):
            if DAY_MS % window:
                found.append(Fault(f"spec.windows[{index}]", "must divide a day, as 1m or 1h do"))
        if len(set(spec.windows)) < len(spec.windows):
            found.append(Fault("spec.windows", "names a length twice; keep one"))
        # A device must be found offline before its state is deleted.
        if spec.live.keep < spec.live.offline_after:
            found.append(Fault("spec.live.keep", "must not be shorter than `offlineAfter`"))
        if spec.live.connections < len(sources):
            found.append(Fault("spec.live.connections", "must be one for each source, or more"))
        found += _repeated("spec.sinks", [sink.name for sink in spec.sinks])
        for index, sink in enumerate(spec.sinks):
            path = f"spec.sinks[{index}]"
            if sink.source is not None and sink.source not in sources:
                found.append(Fault(f"{path}.source", f"no source is called {sink.source!r}"))
            if sink.url is None and (sink.options or sink.password_file):
                found.append(Fault(path, "has a login and no server: give `url` as well"))
        for index, detector in enumerate(spec.detectors):
            found += detector.faults(f"spec.detectors[{index}]", sources)
        return found


def _placeless(path: str, source: Source) -> list[Fault]:
    found = []
    if not source.device:
        found.append(Fault(f"{path}.device", "must name a field: who measured"))
    if not (source.value or source.text or source.metrics):
        found.append(Fault(path, "names no reading: give `value`, `text` or `metrics`"))
    return found


def _repeated(path: str, names: list[str]) -> list[Fault]:
    return [
        Fault(path, f"{name!r} is there {count} times; names differ")
        for name, count in Counter[Any](names).items()
        if count > 1
    ]
