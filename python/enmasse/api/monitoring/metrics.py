"""`/metrics`: statistics of the engine in the Prometheus text format, rendered per request.

Names are stable: `enmasse_space_*` has one series per space, `enmasse_address_*` one per address.
Above `SPACES_MAX` the spaces with the least traffic share one label. Above `ADDRESSES_MAX` series
of single addresses are omitted unless the request asks for them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from enmasse import __version__
from enmasse.api.monitoring import process
from enmasse.base.data_dir import DataDir
from enmasse.engines import (
    AddressStatistics,
    Connection,
    JournalStatistics,
    Observed,
    SpaceStatistics,
    WorkerStatistics,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Content type of the result of `render`."""

ADDRESSES_MAX = 1000
"""Addresses with series of their own. Each renders about thirty lines of text in Python."""

SPACES_MAX = 1000
"""Spaces with a label of their own: those with the most messages. The others are summed. That sum
falls when a space enters the top list, so it is a gauge under another name, not a counter.
"""

OTHERS = "_others"
"""The label of all other spaces together, in gauges; no space can have that name."""

_SPACE, _OTHER_SPACES = "enmasse_space", "enmasse_other_spaces"

OUTCOMES = ("accepted", "rejected", "released", "modified", "presettled", "dropped")

_GAUGES: tuple[tuple[str, str, Callable[[AddressStatistics], float]], ...] = (
    ("senders", "Sender links.", attrgetter("senders")),
    ("receivers", "Receiver links.", attrgetter("receivers")),
    ("waiting", "Unsettled deliveries.", attrgetter("waiting")),
    ("stored_messages", "Stored messages, in any state.", attrgetter("stored")),
    ("stored_bytes", "Bytes of stored messages.", attrgetter("stored_bytes")),
    ("in_flight_messages", "Stored messages that receivers hold.", attrgetter("in_flight")),
    ("scheduled_messages", "Stored messages with a later delivery time.", attrgetter("scheduled")),
    (
        "oldest_message_age_seconds",
        "Age of the oldest deliverable message; 0 without one.",
        attrgetter("oldest_age_s"),
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[AddressStatistics], int]], ...] = (
    ("delivered", "Deliveries sent to receivers.", attrgetter("delivered")),
    ("bytes", "Bytes of messages sent to receivers.", attrgetter("bytes")),
    (
        "credit_stalls",
        "Times a sender ran out of credit because receivers were slow.",
        attrgetter("credit_stalls"),
    ),
    ("enqueued_messages", "Messages stored.", attrgetter("enqueued")),
    ("failed_deliveries", "Deliveries of stored messages that failed.", attrgetter("redelivered")),
    (
        "duplicate_messages",
        "Duplicates: messages accepted and not stored again.",
        attrgetter("duplicates"),
    ),
    ("expired_messages", "Messages whose time to live ended.", attrgetter("expired")),
    (
        "replaced_messages",
        "Messages replaced by a newer message with the same key.",
        attrgetter("replaced"),
    ),
    (
        "overrun_messages",
        "Messages dropped to make room for newer ones.",
        attrgetter("overrun"),
    ),
    ("damaged_messages", "Messages lost to damage at rest.", attrgetter("damaged")),
)
_DEAD_LETTERS: tuple[tuple[str, Callable[[AddressStatistics], int]], ...] = (
    ("rejected", attrgetter("dead_rejected")),
    ("maximum-delivery-attempts", attrgetter("dead_attempts")),
    ("expired", attrgetter("dead_expired")),
)
_JOURNAL: tuple[
    tuple[
        type[GaugeMetricFamily | CounterMetricFamily],
        str,
        str,
        Callable[[JournalStatistics], float],
    ],
    ...,
] = (
    (GaugeMetricFamily, "used_bytes", "Disk space used by the journal.", attrgetter("used_bytes")),
    (GaugeMetricFamily, "alive_bytes", "Bytes of live records.", attrgetter("alive_bytes")),
    (CounterMetricFamily, "appended_bytes", "Bytes written.", attrgetter("appended_bytes")),
    (CounterMetricFamily, "syncs", "fsync calls.", attrgetter("syncs")),
    (
        GaugeMetricFamily,
        "stopped",
        "1 after a failed write: nothing is stored until the next start.",
        lambda journal: journal.stopped is not None,
    ),
    (CounterMetricFamily, "read_errors", "Failed reads.", attrgetter("read_errors")),
    (
        GaugeMetricFamily,
        "unreadable",
        "1 while a segment cannot be read and its messages wait.",
        lambda journal: journal.unreadable is not None,
    ),
    (
        GaugeMetricFamily,
        "unnamed_messages",
        "Messages without a declared address, found at the start; its declaration is damaged.",
        attrgetter("unnamed_messages"),
    ),
    (
        GaugeMetricFamily,
        "unnamed_segments",
        "Segments that such messages keep.",
        attrgetter("unnamed_segments"),
    ),
)


_WORKER_COUNTERS: tuple[tuple[str, str, Callable[[WorkerStatistics], int]], ...] = (
    ("connections_accepted", "Connections accepted.", attrgetter("accepted")),
    ("connections_closed", "Connections closed.", attrgetter("closed")),
    (
        "connections_cut_off",
        "Connections closed because the peer read too slowly.",
        attrgetter("cut_off"),
    ),
    (
        "handshakes_failed",
        "TLS or WebSocket handshakes that failed.",
        attrgetter("handshakes_failed"),
    ),
    (
        "handshakes_timed_out",
        "Connections closed before their handshake was complete.",
        attrgetter("handshakes_timed_out"),
    ),
    ("passwords_checked", "Passwords checked.", attrgetter("passwords_checked")),
    (
        "logins_put_off",
        "Logins refused temporarily because too many were pending.",
        attrgetter("checks_refused"),
    ),
    ("bytes_in", "Bytes read from sockets.", attrgetter("bytes_in")),
    ("bytes_out", "Bytes written to sockets.", attrgetter("bytes_out")),
)

_SPACE_COUNTERS: tuple[tuple[str, str, Callable[[SpaceStatistics], int]], ...] = (
    ("messages_in", "Messages that clients sent.", attrgetter("messages_in")),
    ("bytes_in", "Bytes of messages that clients sent.", attrgetter("bytes_in")),
    ("messages_out", "Deliveries to clients.", attrgetter("messages_out")),
    ("bytes_out", "Bytes of deliveries to clients.", attrgetter("bytes_out")),
)


def render(
    observed: Observed,
    connections: Sequence[Connection],
    spaces: Sequence[SpaceStatistics] = (),
    *,
    ready: bool,
    all_addresses: bool,
    data: DataDir | None = None,
) -> bytes:
    """Return the page for one snapshot of statistics; `data` is the folder of this process."""
    registry = CollectorRegistry()
    process.register(registry, data)
    registry.register(_Snapshot(observed, connections, spaces, ready, all_addresses))
    return generate_latest(registry)


class _Snapshot(Collector):
    """One snapshot of statistics, as metric families."""

    def __init__(
        self,
        observed: Observed,
        connections: Sequence[Connection],
        spaces: Sequence[SpaceStatistics],
        ready: bool,
        all_addresses: bool,
    ) -> None:
        self._observed = observed
        self._connections = connections
        self._spaces = spaces
        self._label = _labels(spaces, observed.addresses)
        self._ready = ready
        self._all_addresses = all_addresses

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        addresses = self._observed.addresses
        yield GaugeMetricFamily(
            "enmasse_ready", "1 once everything declared is served.", value=self._ready
        )
        info = GaugeMetricFamily("enmasse_build_info", "The running version.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        yield from self._of_connections()
        yield from self._of_workers()
        yield from self._of_canary()
        if (journal := self._observed.journal) is not None:
            for family, name, text, value in _JOURNAL:
                yield family(f"enmasse_journal_{name}", text, value=value(journal))
        yield GaugeMetricFamily(
            "enmasse_links",
            "Open links to declared addresses.",
            value=sum(one.senders + one.receivers for one in addresses),
        )
        yield GaugeMetricFamily("enmasse_addresses", "Addresses served.", value=len(addresses))
        yield from self._of_spaces()
        yield from _families(_SPACE, ["space"], _by_space(addresses, self._label))
        # Above the limit a scrape would be too expensive: it has only the number of omitted
        # addresses.
        shown = self._all_addresses or len(addresses) <= ADDRESSES_MAX
        if shown:
            labelled = [([one.space, one.name], one) for one in addresses]
            yield from _families("enmasse_address", ["space", "address"], labelled)
        yield GaugeMetricFamily(
            "enmasse_address_series_omitted",
            "Addresses without series of their own; see /metrics?addresses=all.",
            value=0 if shown else len(addresses),
        )

    def _of_canary(self) -> Iterator[Metric]:
        canary = self._observed.canary
        if canary is None:
            return
        yield GaugeMetricFamily(
            "enmasse_canary_ok",
            "1 while the canary message of the node returns.",
            value=canary.problem is None,
        )
        yield CounterMetricFamily(
            "enmasse_canary_messages", "Canary messages sent.", value=canary.sent
        )
        yield CounterMetricFamily(
            "enmasse_canary_failures", "Canary messages that did not return.", value=canary.failed
        )

    def _of_connections(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "enmasse_connections", "Open connections.", value=self._observed.connections
        )
        by_space = GaugeMetricFamily(
            "enmasse_space_connections",
            "Open connections of a space.",
            labels=["space", "transport"],
        )
        # Counted here, because the node reports connections one by one.
        counted = Counter(
            (self._label.get(one.space or "", one.space or ""), one.transport)
            for one in self._connections
        )
        for labels, count in sorted(counted.items()):
            by_space.add_metric(labels, count)
        yield by_space
        yield CounterMetricFamily(
            "enmasse_accept_pauses",
            "Times the node paused accepting because of a connection limit.",
            value=self._observed.accept_pauses,
        )
        yield GaugeMetricFamily(
            "enmasse_received_bytes",
            "Bytes of messages that were received and are neither stored nor handed on.",
            value=self._observed.received_bytes,
        )
        yield GaugeMetricFamily(
            "enmasse_receive_budget_bytes",
            "The bound of enmasse_received_bytes.",
            value=self._observed.receive_budget_bytes,
        )
        yield GaugeMetricFamily(
            "enmasse_connections_stopped",
            "Connections with paused input because their space has too many unstored bytes.",
            value=sum(worker.stopped for worker in self._observed.workers),
        )

    def _of_spaces(self) -> Iterator[Metric]:
        links = GaugeMetricFamily("enmasse_space_links", "Open links in a space.", labels=["space"])
        for label, members in self._grouped():
            links.add_metric([label], sum(one.links for one in members))
        yield links
        for name, text, value in _SPACE_COUNTERS:
            rows = [([label], sum(map(value, members))) for label, members in self._grouped()]
            yield from _counted(f"{_SPACE}_{name}", text, ["space"], rows)
        yield GaugeMetricFamily("enmasse_spaces", "Address spaces served.", value=len(self._spaces))

    def _grouped(self) -> Iterator[tuple[str, list[SpaceStatistics]]]:
        def label(one: SpaceStatistics) -> str:
            return self._label[one.name]

        for name, members in groupby(sorted(self._spaces, key=label), key=label):
            yield name, list(members)

    def _of_workers(self) -> Iterator[Metric]:
        busy = GaugeMetricFamily(
            "enmasse_worker_busy_ratio", "Busy share of the last second.", labels=["worker"]
        )
        for number, worker in enumerate(self._observed.workers):
            busy.add_metric([str(number)], worker.busy_permille / 1000)
        yield busy
        for name, text, value in _WORKER_COUNTERS:
            total = sum(value(worker) for worker in self._observed.workers)
            yield CounterMetricFamily(f"enmasse_{name}", text, value=total)


_Labelled = list[tuple[list[str], AddressStatistics]]


def _families(prefix: str, labels: list[str], rows: _Labelled) -> Iterator[Metric]:
    for name, text, value in _GAUGES:
        gauge = GaugeMetricFamily(f"{prefix}_{name}", text, labels=labels)
        for values, statistics in rows:
            gauge.add_metric(values, value(statistics))
        yield gauge
    for name, text, value in _COUNTERS:
        counted = [(values, value(statistics)) for values, statistics in rows]
        yield from _counted(f"{prefix}_{name}", text, labels, counted)
    # A family with a label of its own is not in the tables above.
    yield from _counted(
        f"{prefix}_deliveries",
        "Messages by the outcome sent to the producer; presettled: sent settled. dropped counts"
        " undelivered copies of presettled messages, one per receiver, in addition.",
        [*labels, "outcome"],
        [
            ([*values, outcome], getattr(statistics, outcome))
            for values, statistics in rows
            for outcome in OUTCOMES
        ],
    )
    yield from _counted(
        f"{prefix}_dead_lettered_messages",
        "Messages moved to a dead letter or dropped, by cause.",
        [*labels, "cause"],
        [
            ([*values, cause], value(statistics))
            for values, statistics in rows
            for cause, value in _DEAD_LETTERS
        ],
    )


def _counted(
    name: str, text: str, labels: list[str], rows: list[tuple[list[str], int]]
) -> Iterator[Metric]:
    """Yield a counter, and a gauge for the row of all other spaces together.

    That row can fall, and Prometheus would take a falling counter for a restart.
    """
    counter = CounterMetricFamily(name, text, labels=labels)
    for values, count in rows:
        if values[0] != OTHERS:
            counter.add_metric(values, count)
    yield counter
    if others := [(values[1:], count) for values, count in rows if values[0] == OTHERS]:
        other_name = name.replace(_SPACE, _OTHER_SPACES, 1)
        gauge = GaugeMetricFamily(other_name, text, labels=labels[1:])
        for values, count in others:
            gauge.add_metric(values, count)
        yield gauge


def _labels(
    spaces: Sequence[SpaceStatistics], addresses: Sequence[AddressStatistics]
) -> dict[str, str]:
    """Return the label of each space: its name, or `OTHERS` for those with the least traffic."""
    carried = dict.fromkeys((one.space for one in addresses), 0)
    carried |= {one.name: one.messages_in + one.messages_out for one in spaces}
    ranked = sorted(carried, key=lambda name: (-carried[name], name))
    return {name: name if rank < SPACES_MAX else OTHERS for rank, name in enumerate(ranked)}


def _by_space(addresses: Sequence[AddressStatistics], label: dict[str, str]) -> _Labelled:
    def of(one: AddressStatistics) -> str:
        return label[one.space]

    ordered = sorted(addresses, key=of)
    return [([name], _sum(name, list(members))) for name, members in groupby(ordered, key=of)]


def _sum(space: str, members: list[AddressStatistics]) -> AddressStatistics:
    totals = [sum(column) for column in zip(*(one[3:] for one in members), strict=True)]
    oldest_s = max(one.oldest_age_s for one in members)
    return AddressStatistics("", space, "", *totals)._replace(oldest_age_s=oldest_s)
