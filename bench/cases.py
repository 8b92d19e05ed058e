"""The cases of `make bench`: the options of the load tool, and the required result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Report = dict[str, Any]
"""What the load tool printed for one run."""

JOURNAL = "the journal alone"
"""Limit of a stored case: the journal alone, with as many records per commit as the node's syncs
had, measured before and after the case."""
STORED = 1_000_000
"""Messages that are stored where memory and restart are measured."""
SMALL, LARGE = 2_000_000, 10_000
"""Messages of 100 B, and of 64 KiB, in the streams that are read."""
READERS = 10
"""Readers of one stream at once."""

FORWARDER_RATE_MIN = 4_000_000
"""Messages a second (100 B, presettled) through the bare forwarder; below it no ratio counts."""


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `figure` extracts the number from a report. `reach` is the minimum (with `lower_is_better` the
    maximum) share of the bare forwarder's number, or with `absolute` of the number itself.
    `server_us_max` is microseconds of server CPU a message. `rivals`: also run on the brokers.
    `against`: the limit is the number of another case, or `JOURNAL`, the rate of the journal alone.
    `step`: the case is one step of a sequence on a server, not a load of its own.
    """

    name: str
    options: dict[str, str]
    figure: Callable[[Report], float]
    unit: str
    reach: float
    absolute: bool = False
    lower_is_better: bool = False
    server_us_max: float | None = None
    address: str = "anycast"
    rivals: bool = False
    runs: int | None = None
    seconds: float | None = None
    server: str = "node"
    against: str | None = None
    step: str | None = None
    extra: dict[str, Callable[[Report], float]] = field(default_factory=dict)


def rate(report: Report) -> float:
    """Messages that arrived a second."""
    return float(report["messages_per_s"])


def latency(quantile: str) -> Callable[[Report], float]:
    """Microseconds from the scheduled time of a message to its arrival."""
    return lambda report: float(report["latency"][quantile])


def dropped_percent(report: Report) -> float:
    """Copies that were sent and did not arrive, in percent."""
    totals = report["totals"]
    wanted = int(totals["sent"]) * int(report["receivers"])
    return 100.0 * max(0, wanted - int(totals["received"])) / max(1, wanted)


def accepted(quantile: str) -> Callable[[Report], float]:
    """Microseconds from the scheduled time of a message to its outcome at the producer."""
    return lambda report: float(report["settlement"][quantile])


def figure(name: str, scale: float = 1) -> Callable[[Report], float]:
    """One number of a report."""
    return lambda report: float(report[name]) / scale


def server_us(report: Report) -> float:
    """Microseconds of server CPU a message."""
    return float(report["cpu"]["server_us_per_message"])


def reader_mib_per_s(report: Report) -> float:
    """MiB of messages a second to each receiver."""
    return float(report["mib_per_s"]) / int(report["receivers"])


def disk_share(report: Report) -> float:
    """Bytes that the server read from the disk for each byte of the stored messages."""
    stored = reader_mib_per_s(report) * float(report["seconds"]) * 2**20
    return float(report["disk_bytes"]) / stored


def connections_per_s(report: Report) -> float:
    """New connections a second."""
    return float(report["connections_per_s"])


def kib_per_connection(report: Report) -> float:
    """Resident KiB of the server a connection."""
    return float(report["kib_per_connection_held"])


def _load(body: int, links: int = 1, presettled: bool = False) -> dict[str, str]:
    return {
        "body": str(body),
        "senders": str(links),
        "receivers": str(links),
        "presettled": str(presettled).lower(),
    }


def _stored(body: int, links: int = 1) -> dict[str, str]:
    return {**_load(body, links), "durable": "true"}


_PER_SYNC = {"messages a sync": figure("messages_per_sync")}

STORED_CASES = (
    Case(
        "stored, 1 KiB, 1x1",
        _stored(1024),
        rate,
        "msg/s",
        0.60,
        server_us_max=4,
        address="queue/{run}",
        rivals=True,
        server="stored",
        against=JOURNAL,
        extra=_PER_SYNC,
    ),
    Case(
        "stored, 1 KiB, 4x4",
        _stored(1024, 4),
        rate,
        "msg/s",
        0.60,
        server_us_max=4,
        address="queue/{run}",
        rivals=True,
        server="stored",
        against=JOURNAL,
        extra=_PER_SYNC,
    ),
    Case(
        "direct beside stored, 100 B, 1x1, unsettled",
        _load(100),
        rate,
        "msg/s",
        0,
        True,
        server="stored",
    ),
    Case(
        "stored in memory, 100 B, 1x1, unsettled",
        _load(100),
        rate,
        "msg/s",
        0.70,
        address="memory/{run}",
        rivals=True,
        server="stored",
        against="direct beside stored, 100 B, 1x1, unsettled",
    ),
    *(
        Case(
            f"stored, latency to accepted {quantile} at 1000/s",
            {**_stored(1024), "rate": "1000"},
            accepted(f"{quantile}_us"),
            "us",
            reach,
            absolute=True,
            lower_is_better=True,
            address="queue/{run}",
            rivals=True,
            seconds=10.0,
            server="stored",
            extra=_PER_SYNC,
        )
        for quantile, reach in (("p50", 350), ("p99", 3300))
    ),
    *(
        Case(name, {}, of, unit, reach, True, lower, server="depth", step=step)
        for name, step, of, unit, reach, lower in (
            ("depth: enqueue only, 1 KiB", "enqueue", rate, "msg/s", 200_000, False),
            ("depth: then drain", "drain", rate, "msg/s", 400_000, False),
            (
                "depth: memory with 1,000,000 x 1 KiB",
                "enqueue",
                figure("server_resident_kib", 1024),
                "MiB",
                200,
                True,
            ),
            ("depth: memory after a restart", "restart", figure("resident_mib"), "MiB", 200, True),
        )
    ),
    Case(
        "depth: restart until ready",
        {},
        figure("seconds"),
        "s",
        2,
        absolute=True,
        lower_is_better=True,
        server="depth",
        step="restart",
        extra={
            "CPU s": figure("cpu_s"),
            "empty s": lambda report: float(report["empty"]["seconds"]),
            "empty CPU s": lambda report: float(report["empty"]["cpu_s"]),
        },
    ),
    Case(
        "10,000 queues, 100 messages each",
        {
            **_stored(1024, 10_000),
            "addresses": "10000",
            "connections": "10",
            "credit": "100",
            "messages": "100",
        },
        rate,
        "msg/s",
        0.50,
        address="queue/%d",
        runs=1,
        server="queues",
        against="stored, 1 KiB, 1x1",
        extra=_PER_SYNC,
    ),
)

_DIRECT_SMALL = "direct beside streams, 100 B, 1x1, presettled"
_DIRECT_LARGE = "direct beside streams, 64 KiB, 1x1, presettled"
_ONE_READER = "stream: CPU of one reader, 100 B"

STREAM_CASES = (
    Case(_DIRECT_SMALL, {}, rate, "msg/s", 0, True, server="streams", step="direct small"),
    Case(_DIRECT_LARGE, {}, rate, "msg/s", 0, True, server="streams", step="direct large"),
    Case(
        "stream: enqueue only, 100 B",
        {},
        rate,
        "msg/s",
        0,
        True,
        server="streams",
        step="enqueue small",
        extra=_PER_SYNC,
    ),
    Case(
        "stream: replay, 100 B, presettled",
        {},
        rate,
        "msg/s",
        1.0,
        server="streams",
        against=_DIRECT_SMALL,
        step="replay small",
        extra={"from disk x": disk_share},
    ),
    Case(
        "stream: replay, 64 KiB, presettled",
        {},
        rate,
        "msg/s",
        1.0,
        server="streams",
        against=_DIRECT_LARGE,
        step="replay large",
        extra={
            "MiB/s": reader_mib_per_s,
            "page cache MiB/s": figure("page_cache_mib_per_s"),
            "from disk x": disk_share,
        },
    ),
    Case(_ONE_READER, {}, server_us, "us", 0, True, server="streams", step="replay small"),
    Case(
        f"stream: CPU a delivery of {READERS} readers, 100 B",
        {},
        server_us,
        "us",
        1.0,
        lower_is_better=True,
        server="streams",
        against=_ONE_READER,
        step="readers",
        extra={"deliveries/s": rate},
    ),
    Case(
        f"stream: {READERS} readers, bytes from the disk",
        {},
        disk_share,
        "of the data",
        1.1,
        absolute=True,
        lower_is_better=True,
        server="streams",
        step="readers",
    ),
)

CASES = (
    Case(
        "100 B, 1x1, presettled",
        _load(100, presettled=True),
        rate,
        "msg/s",
        0.33,
        server_us_max=0.8,
    ),
    Case("100 B, 1x1, unsettled", _load(100), rate, "msg/s", 0.22, server_us_max=1.1, rivals=True),
    Case("1 KiB, 1x1, unsettled", _load(1024), rate, "msg/s", 0.40, rivals=True),
    Case("1 KiB, 4x4, unsettled", _load(1024, 4), rate, "msg/s", 0.40, rivals=True),
    Case("64 KiB, 1x1, unsettled", _load(65_536), rate, "msg/s", 0.75, rivals=True),
    Case(
        "100 B, 1 to 100, multicast presettled",
        {
            "body": "100",
            "senders": "1",
            "receivers": "100",
            "presettled": "true",
            "multicast": "true",
        },
        rate,
        "deliveries/s",
        3_000_000,
        absolute=True,
        address="multicast",
        extra={"dropped %": dropped_percent},
    ),
    *(
        Case(
            f"latency {quantile} at {at}/s",
            {**_load(100), "rate": str(at)},
            latency(f"{quantile}_us"),
            "us",
            share,
            lower_is_better=True,
            runs=9,
            seconds=10.0,
        )
        for at in (1000, 50_000)
        for quantile, share in (("p50", 1.3), ("p99", 1.5))
    ),
    Case(
        "idle connection with a link, 10,000",
        {"mode": "idle", "connections": "10000", "link": "receiver"},
        kib_per_connection,
        "KiB each",
        8.0,
        absolute=True,
        lower_is_better=True,
        runs=1,
        # Memory that an earlier case freed would be reused, and the measured growth too small.
        server="fresh",
    ),
    Case(
        "new connections, ANONYMOUS",
        {"mode": "connect", "link": "none", "mechanism": "ANONYMOUS"},
        connections_per_s,
        "1/s",
        10_000,
        absolute=True,
    ),
    Case(
        "new connections, TLS and SCRAM-SHA-256",
        {"mode": "connect", "link": "none", "mechanism": "SCRAM-SHA-256"},
        connections_per_s,
        "1/s",
        0,
        absolute=True,
        server="secure",
    ),
    Case(
        "10,000 addresses, 5,000 + 5,000 links, 10 connections",
        {
            **_load(100, 5000),
            "addresses": "5000",
            "connections": "10",
            "credit": "100",
        },
        rate,
        "msg/s",
        0.80,
        address="many/%d",
        server="many",
        against="100 B, 1x1, unsettled",
    ),
    *STORED_CASES,
    *STREAM_CASES,
)
