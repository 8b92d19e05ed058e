"""Pipeline: processing of stream messages into tables, live state and alerts.

`enmasse pipeline run` executes a document, with the functions of a file beside it. The platform
stores a Pipeline and does not run it; its status says so.
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from enmasse.base.errors import Fault
from enmasse.resources.core import NamedMetadata
from enmasse.resources.model import AGE, Column, Declared, Label, Model, Status
from enmasse.resources.quantities import Count, Size
from enmasse.resources.quantities import UnitDelay as Delay
from enmasse.resources.quantities import UnitDuration as Duration

DAY_MS = 86_400_000
SOURCES_MAX, DETECTORS_MAX, METRICS_MAX, WINDOWS_MAX, SINKS_MAX = 32, 64, 256, 8, 32
NAME_LENGTH_MAX = 255
"""Maximum characters of the name of a field, a metric or a unit."""

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
                "must contain no login: set `user` in options, and the password in a file with"
                " `passwordFile`"
            )
        if not _URL.fullmatch(one.strip()):
            raise ValueError(
                f"{one.strip()!r} names no server: write amqp|amqps|ws|wss://host[:port],"
                " several separated by commas"
            )
    return value


def _live_url(value: str) -> str:
    if not _LIVE_URL.fullmatch(value):
        raise ValueError(
            "names no database: write sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        )
    authority = value.partition("://")[2].partition("/")[0]
    if ":" in authority.rpartition("@")[0] or re.search(r"[?&]password=", value):
        raise ValueError("must contain no password: name its file in `passwordFile`")
    return value


def _folder(value: str) -> str:
    if "://" in value and not _TABLES_URI.fullmatch(value):
        raise ValueError(
            "is not a location of tables: write a folder, or s3://BUCKET/FOLDER (letters, digits"
            " and ._=- between slashes; keys are in the environment)"
        )
    return value


def _spool(value: str) -> str:
    if "://" in value:
        raise ValueError(f"{value!r} is not a folder: a spool needs a shared disk")
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
            raise ValueError("password is not allowed here: name its file in `passwordFile`")
        if name.lower() == "token":
            raise ValueError("token is not allowed here: name its file in `tokenFile`")
        if name.lower() in own:
            raise ValueError(f"{name} is a field of the source: set it there")
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
                f"{value!r} is not a position: write earliest, latest, a time such as"
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
"""Location of a value in a message: a field of the body or a column of the envelope; of several the
first that exists."""


class Metric(Model):
    """A field of the body that is a reading."""

    name: Name
    """Name of the metric in the tables."""

    field: Name | None = None
    """The field of the body. Default: the name."""

    unit: Name | None = None
    """The unit of its values, such as Cel or %RH."""


class Sink(Model):
    """Sends rows of a table to an address, each as a message with a JSON body."""

    name: Label
    """Name of the sink; its messages are numbered under this name."""

    address: Annotated[str, Field(min_length=1)]
    """A queue or a stream."""

    table: Literal["silver", "quarantine"] = "silver"
    """The table whose new rows are sent."""

    source: Label | None = None
    """Only rows of this source. Default: all."""

    where: Annotated[str, Field(min_length=1)] | None = None
    """Only rows that match this condition, in Spark SQL."""

    url: Annotated[str, AfterValidator(_server)] | None = None
    """The server. Default: that of the source, with its login."""

    password_file: str | None = None
    """File with the password of `options.user`."""

    options: Annotated[dict[str, str], AfterValidator(_options)] = Field(default_factory=dict)
    """Connection options: space, user, tlsCa and the like."""


class Source(Model):
    """A stream or a queue, and the location of readings in its messages."""

    name: Label
    """Name of the source in tables, metrics and checkpoints."""

    url: Annotated[str, AfterValidator(_server)]
    """The server: amqp[s]|ws[s]://host[:port]; of several, separated by commas, the first that
    responds."""

    address: Annotated[str, Field(min_length=1)]
    """The stream (a topic with retention), or, with `spool`, the queue or subscription."""

    spool: Annotated[str, Field(min_length=1), AfterValidator(_spool)] | None = None
    """Folder for messages of a queue or subscription, shared by all processes of Spark. A relative
    path starts at the document."""

    password_file: str | None = None
    """File with the password of `options.user`."""

    options: Annotated[dict[str, str], AfterValidator(_options)] = Field(default_factory=dict)
    """Further options of the format `enmasse`: space, user, tlsCa, selector and the like."""

    format: Literal["json", "cbor", "senml-json", "senml-cbor", "csv"] = "json"
    """Format of bodies."""

    device: Fields = ("device",)
    """The device. For SenML the name of the record up to its last `:` or `/`."""

    time: Fields = ()
    """Time of measurement. Default: the time at which the server received the message."""

    metric: Fields = ()
    """Metric of `value`. Default: the name of the value's field."""

    value: Fields = ()
    """The measured value as a number."""

    text: Fields = ()
    """The measured value as text."""

    unit: Fields = ()
    """The unit of `value`."""

    metrics: Annotated[
        tuple[
            Annotated[Metric, BeforeValidator(_metric, json_schema_input_type=Name | Metric)], ...
        ],
        Field(max_length=METRICS_MAX),
    ] = ()
    """Fields that are readings of their own."""

    time_unit: Literal["s", "ms", "us", "ns"] = "s"
    """Unit of numeric times, which count from 1970."""

    csv_header: bool = False
    """Whether the first line of each body has the names of its fields."""

    csv_delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Separator of the fields of a line."""

    ahead: Delay = 60_000
    """How far a device's clock may be ahead of the server's; a later time is reduced to this."""

    late: Duration = 7 * DAY_MS
    """Maximum age of a reading on arrival; an older one goes to quarantine."""

    start: Annotated[str, AfterValidator(_start)] = "earliest"
    """Start position of the first run on a stream: earliest, latest, a time (RFC 3339), or offsets
    by partition: `{"0": 17}`."""

    max_rows: Count = 100_000
    """Maximum messages of one batch."""

    max_bytes: Size = 16 << 20
    """Maximum bytes of one batch, estimated from 16 messages spread over the batch."""

    fail_on_data_loss: bool = True
    """Whether messages lost to retention, or a recreated stream, stop the source; otherwise they
    are counted."""


class Tables(Model):
    """Location of tables, checkpoints and live state."""

    path: Annotated[str, Field(min_length=1), AfterValidator(_folder)] = "tables"
    """The folder; a relative path starts at the document. Or a folder in a bucket:
    s3://BUCKET/FOLDER."""

    format: Literal["delta", "parquet"] = "delta"
    """Delta: Parquet files with a log. Plain Parquet is no longer supported."""

    compact_every: Count = 64
    """Number of batches after which small files are compacted."""

    keep: Duration = 7 * DAY_MS
    """Retention of files that are no longer part of a table, for readers and time travel."""


class Live(Model):
    """The database of live state."""

    url: Annotated[str, AfterValidator(_live_url)] | None = Field(default=None, repr=False)
    """sqlite:///FILE or postgresql://... Default: `live.db` next to the tables."""

    password_file: str | None = None
    """File with the password of the user in `url`."""

    connections: Annotated[int, Field(strict=True, ge=1, le=1000)] = 16
    """With PostgreSQL: maximum concurrent write connections of executors."""

    offline_after: Duration = 300_000
    """Time without readings after which a device is offline and its session ends."""

    keep: Duration = 90 * DAY_MS
    """Retention of silent devices, last values, sessions, ended incidents with their alerts, and
    days of usage; at least `offlineAfter`."""


class Threshold(Model):
    """A value beyond a limit, with hysteresis."""

    above: Number | None = None
    """An incident begins at a value above this."""

    below: Number | None = None
    """An incident begins at a value below this."""

    clear: Number | None = None
    """An incident ends at this value or on its good side. Default: the limit."""


class Rate(Model):
    """A value that changes too fast, in either direction."""

    above: Positive
    """Maximum normal change."""

    per: Duration = 60_000
    """The time for that change."""


class Ewma(Model):
    """A value far from its exponentially weighted mean, in deviations."""

    deviations: Positive = 4.0
    """Number of standard deviations at which an incident begins."""

    alpha: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Weight of the newest reading."""

    warmup: Annotated[int, Field(strict=True, ge=2, le=100_000)] = 30
    """Readings of a device before the first decision."""


class Heartbeat(Model):
    """A device that sends nothing."""

    timeout: Duration
    """Maximum time without readings."""


class Command(Model):
    """A message for the device of an incident."""

    address: Annotated[str, Field(min_length=1)]
    """A queue or a stream at the server of the source; the device replaces `{device}`."""

    subject: Annotated[str, Field(min_length=1)] | None = None
    """Subject of the message. Default: the name of the detector."""

    body: dict[str, Any] | None = None
    """Body of the message, as JSON. Default: the content of an alert."""


class Detector(Model):
    """A detector of incidents by device, with exactly one of the four methods."""

    name: Label
    """Name of the detector in incidents and alerts."""

    source: Label | None = None
    """Only readings of this source. Default: all."""

    metric: Name | None = None
    """The observed metric; a heartbeat observes the device."""

    threshold: Threshold | None = None
    """A limit with hysteresis."""

    rate: Rate | None = None
    """A rate of change."""

    ewma: Ewma | None = None
    """A distance from the mean."""

    heartbeat: Heartbeat | None = None
    """Silence."""

    cooldown: Delay = 600_000
    """Minimum time between the starts of two incidents of a device."""

    alert_address: Annotated[str, Field(min_length=1)] | None = None
    """A queue or a stream at the server of the source that receives a message for each incident."""

    command: Command | None = None
    """Message to the device for each incident."""

    def faults(self, path: str, sources: Iterable[str]) -> list[Fault]:
        """Return errors of combinations of valid fields."""
        ways = [name for name in ("threshold", "rate", "ewma", "heartbeat") if getattr(self, name)]
        found = []
        if len(ways) != 1:
            found.append(
                Fault(path, f"has {len(ways)} of threshold, rate, ewma, heartbeat; set one")
            )
        if self.metric is None and ways != ["heartbeat"]:
            found.append(Fault(f"{path}.metric", "is required: the observed metric"))
        if self.source is not None and self.source not in sources:
            found.append(
                Fault(f"{path}.source", f"no source is called {self.source!r}; name one of them")
            )
        if self.command is not None and "{" in self.command.address.replace("{device}", ""):
            found.append(
                Fault(f"{path}.command.address", "may contain {device}, and no other braces")
            )
        limit = self.threshold
        if limit and (limit.above is None) == (limit.below is None):
            found.append(Fault(f"{path}.threshold", "set one of above and below"))
        elif limit and limit.clear is not None:
            if limit.above is not None and limit.clear > limit.above:
                found.append(Fault(f"{path}.threshold.clear", "must not lie above `above`"))
            if limit.below is not None and limit.clear < limit.below:
                found.append(Fault(f"{path}.threshold.clear", "must not lie below `below`"))
        return found


class PipelineSpec(Model):
    """Sources, and the processing of their readings."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=SOURCES_MAX)]
    """The streams and queues."""

    tables: Tables = Tables()
    """Location and format of tables."""

    windows: Annotated[tuple[Duration, ...], Field(min_length=1, max_length=WINDOWS_MAX)] = (
        60_000,
        3_600_000,
    )
    """Lengths of the windows of gold; each divides a day."""

    live: Live = Live()
    """The database of live state."""

    detectors: Annotated[tuple[Detector, ...], Field(max_length=DETECTORS_MAX)] = ()
    """Detectors of incidents."""

    sinks: Annotated[tuple[Sink, ...], Field(max_length=SINKS_MAX)] = ()
    """Addresses that receive rows of tables."""

    functions: str | None = None
    """A Python file next to the document, with functions from DataFrame to DataFrame."""

    trigger: Duration = 5_000
    """Interval of batches, if there is something to read."""

    gold_trigger: Duration = 30_000
    """Interval at which gold processes new readings of silver."""

    memory: Size = 1 << 30
    """Heap of an embedded Spark in bytes."""


class Pipeline(Declared):
    """A declared pipeline: sources, tables, windows, detectors."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Tables", "spec.tables.path"),
        Column("Format", "spec.tables.format"),
        Column("Ready", "status.isReady", "boolean"),
        AGE,
    )

    kind: Literal["Pipeline"] = Field(default="Pipeline")
    metadata: NamedMetadata
    spec: PipelineSpec
    status: Status = Status()

    def faults(self) -> list[Fault]:
        """Return errors of combinations of valid fields."""
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
                found += _missing_fields(path, source)
            found += _repeated(f"{path}.metrics", [metric.name for metric in source.metrics])
            if source.spool is not None and source.start != "earliest":
                found.append(Fault(f"{path}.start", "a queue has no offsets: omit it"))
        for index, window in enumerate(spec.windows):
            if DAY_MS % window:
                found.append(Fault(f"spec.windows[{index}]", "must divide a day, as 1m or 1h do"))
        if len(set(spec.windows)) < len(spec.windows):
            found.append(Fault("spec.windows", "names a length twice; keep one"))
        # The state of a device is kept at least until the device is detected as offline.
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
                found.append(Fault(path, "has a login without a server: set `url` too"))
        for index, detector in enumerate(spec.detectors):
            found += detector.faults(f"spec.detectors[{index}]", sources)
        return found


def _missing_fields(path: str, source: Source) -> list[Fault]:
    found = []
    if not source.device:
        found.append(Fault(f"{path}.device", "must name the field of the device"))
    if not (source.value or source.text or source.metrics):
        found.append(Fault(path, "declares no reading: set `value`, `text` or `metrics`"))
    return found


def _repeated(path: str, names: list[str]) -> list[Fault]:
    return [
        Fault(path, f"{name!r} is used {count} times; it must be unique")
        for name, count in Counter[Any](names).items()
        if count > 1
    ]
