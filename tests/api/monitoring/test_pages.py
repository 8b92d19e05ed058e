"""Health, metrics, connections and traces."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from asgi_platform import Served
from enmasse import __version__
from enmasse.api.monitoring.metrics import ADDRESSES_MAX, OTHERS, SPACES_MAX, render
from enmasse.auth.certificates import ensure_certificates
from enmasse.base.clock import SystemClock
from enmasse.base.data_dir import DataDir
from enmasse.engines import (
    AddressStatistics,
    CanaryStatistics,
    Connection,
    JournalStatistics,
    Observed,
    SpaceStatistics,
    WorkerStatistics,
)

ORDERS = AddressStatistics(
    "u1", "default.default", "orders", 1, 2, 30, 400, 5, 6, 7, 8, 9, 10, 11, 12
)
NEWS = AddressStatistics("u2", "default.default", 'ne"ws\n', 1, 1, 70, 600, accepted=1)
NORTH = AddressStatistics("u3", "default.north", "orders", 0, 1)


LABELS = ("space", "address", "outcome", "cause", "version", "transport", "worker", "certificate")


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(sample.labels[name] for name in LABELS if name in sample.labels)): (
            sample.value
        )
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def test_readiness_follows_the_platform(served: Served) -> None:
    assert (await served.http.get("/readyz")).status_code == 200
    served.ready = False
    assert (await served.http.get("/readyz")).status_code == 503
    assert (await served.http.get("/healthz")).status_code == 200


async def test_readyz_reports_a_stopped_journal_and_stays_200(served: Served) -> None:
    served.engine.troubled = "the journal has stopped: it burns"
    answer = await served.http.get("/readyz")
    assert (answer.status_code, answer.text) == (200, "ok; the journal has stopped: it burns\n")


async def test_metrics_are_in_the_text_format(served: Served) -> None:
    served.engine.statistics = [ORDERS]
    answer = await served.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = samples(answer.content)
    assert found["enmasse_ready",] == 1
    assert found["enmasse_address_senders", "default.default", "orders"] == 1


def test_every_metric_is_rendered_per_address_and_per_space() -> None:
    found = samples(render(Observed(4, [ORDERS, NEWS, NORTH]), [], ready=True, all_addresses=False))
    assert found["enmasse_connections",] == 4
    assert found["enmasse_links",] == 6
    assert found["enmasse_addresses",] == 3
    orders = ("default.default", "orders")
    assert found["enmasse_address_receivers", *orders] == 2
    assert found["enmasse_address_delivered_total", *orders] == 30
    assert found["enmasse_address_bytes_total", *orders] == 400
    outcomes = ("accepted", "rejected", "released", "modified", "presettled", "dropped")
    for outcome, count in zip(outcomes, range(5, 11), strict=True):
        assert found["enmasse_address_deliveries_total", *orders, outcome] == count
    assert found["enmasse_address_waiting", *orders] == 11
    assert found["enmasse_address_credit_stalls_total", *orders] == 12
    assert found["enmasse_address_delivered_total", "default.default", 'ne"ws\n'] == 70
    assert found["enmasse_space_delivered_total", "default.default"] == 100
    assert found["enmasse_space_deliveries_total", "default.default", "accepted"] == 6
    assert found["enmasse_space_receivers", "default.north"] == 1


def test_stored_messages_and_journal_have_metrics() -> None:
    full = ORDERS._replace(
        **dict(stored=5, stored_bytes=600, in_flight=2, scheduled=1, oldest_age_s=9.5),
        **dict(enqueued=90, redelivered=3, duplicates=4, expired=6, damaged=8),
        **dict(dead_rejected=7, dead_attempts=10, dead_expired=11, replaced=13, overrun=14),
    )
    journal = JournalStatistics(
        1000, 600, 90_000, 12, stopped="it burns", unnamed_messages=7, unnamed_segments=2
    )
    observed = Observed(0, [full, full._replace(name="b", oldest_age_s=20.0)], journal=journal)
    found = samples(render(observed, [], ready=True, all_addresses=False))
    expected = {
        "stored_messages": 5, "stored_bytes": 600, "in_flight_messages": 2,
        "scheduled_messages": 1, "oldest_message_age_seconds": 9.5, "enqueued_messages_total": 90,
        "failed_deliveries_total": 3, "duplicate_messages_total": 4, "expired_messages_total": 6,
        "damaged_messages_total": 8, "replaced_messages_total": 13, "overrun_messages_total": 14,
    }  # fmt: skip
    for name, value in expected.items():
        assert found[f"enmasse_address_{name}", "default.default", "orders"] == value
        if name != "oldest_message_age_seconds":
            assert found[f"enmasse_space_{name}", "default.default"] == 2 * value
    causes = {"rejected": 7, "maximum-delivery-attempts": 10, "expired": 11}
    for cause, value in causes.items():
        name = "enmasse_address_dead_lettered_messages_total"
        assert found[name, "default.default", "orders", cause] == value
    assert found["enmasse_space_oldest_message_age_seconds", "default.default"] == 20.0
    assert found["enmasse_journal_used_bytes",] == 1000
    assert found["enmasse_journal_alive_bytes",] == 600
    assert found["enmasse_journal_appended_bytes_total",] == 90_000
    assert found["enmasse_journal_syncs_total",] == 12
    assert found["enmasse_journal_stopped",] == 1
    assert found["enmasse_journal_unnamed_messages",] == 7
    assert found["enmasse_journal_unnamed_segments",] == 2


def test_address_series_beyond_the_limit_are_omitted_by_default() -> None:
    many = Observed(0, [ORDERS._replace(name=f"a{number}") for number in range(ADDRESSES_MAX + 1)])
    found = samples(render(many, [], ready=True, all_addresses=False))
    assert found["enmasse_address_series_omitted",] == ADDRESSES_MAX + 1
    assert not any(key[0].startswith("enmasse_address_senders") for key in found)
    assert found["enmasse_space_senders", "default.default"] == ADDRESSES_MAX + 1
    everything = samples(render(many, [], ready=True, all_addresses=True))
    assert everything["enmasse_address_senders", "default.default", "a1000"] == 1


def test_least_busy_spaces_are_aggregated_into_one_series() -> None:
    busy = [
        SpaceStatistics(f"u{n}", f"s{n}.a", 1, 2, 10 + n, 100, 1, 10) for n in range(SPACES_MAX)
    ]
    idle = [SpaceStatistics(f"i{n}", f"idle{n}.a", 1, 3, 2, 20, 1, 5) for n in range(7)]
    addresses = [ORDERS._replace(space=one.name, receivers=2) for one in (*busy[:2], *idle)]
    connections = [
        Connection(number, one.name, None, None, None, "amqp", 0)
        for number, one in enumerate((*busy, *idle))
    ]
    page = render(Observed(0, addresses), connections, [*idle, *busy], ready=True,
        all_addresses=False)  # fmt: skip
    found = samples(page)
    assert found["enmasse_spaces",] == SPACES_MAX + 7
    assert found["enmasse_space_messages_in_total", "s0.a"] == 10
    assert found["enmasse_space_bytes_in_total", "s5.a"] == 100
    assert found["enmasse_space_messages_out_total", "s5.a"] == 1
    assert found["enmasse_space_links", OTHERS] == 21
    assert found["enmasse_space_receivers", OTHERS] == 14
    for name, sum_of_seven in {
        "messages_in": 14, "bytes_in": 140, "messages_out": 7, "bytes_out": 35,
        "delivered": 7 * ORDERS.delivered,
    }.items():  # fmt: skip
        assert found[f"enmasse_other_spaces_{name}",] == sum_of_seven
    assert found["enmasse_other_spaces_deliveries", "accepted"] == 7 * ORDERS.accepted
    assert not {key for key in found if OTHERS in key and key[0].endswith("_total")}
    assert found["enmasse_space_connections", OTHERS, "amqp"] == 7
    labels = {key[1] for key in found if key[0].startswith("enmasse_space_")}
    assert len(labels) == SPACES_MAX + 1


def test_connections_and_workers_have_metrics() -> None:
    def connection(space: str | None, transport: str) -> Connection:
        return Connection(1, space, None, None, None, transport, 0)

    observed = Observed(
        3,
        [],
        [
            WorkerStatistics(busy_permille=250, accepted=2, cut_off=1, stopped=4),
            WorkerStatistics(accepted=3, stopped=5),
        ],
        7,
        received_bytes=1_000,
        receive_budget_bytes=4_000,
    )
    open_ = [connection("default.default", "amqp"), connection("default.default", "amqp")]
    found = samples(
        render(observed, [*open_, connection(None, "wss")], ready=False, all_addresses=False)
    )
    assert found["enmasse_ready",] == 0
    assert found["enmasse_connections",] == 3
    assert found["enmasse_space_connections", "default.default", "amqp"] == 2
    assert found["enmasse_space_connections", "", "wss"] == 1
    assert found["enmasse_accept_pauses_total",] == 7
    assert found["enmasse_received_bytes",] == 1_000
    assert found["enmasse_receive_budget_bytes",] == 4_000
    assert found["enmasse_connections_stopped",] == 9
    assert found["enmasse_worker_busy_ratio", "0"] == 0.25
    assert found["enmasse_connections_accepted_total",] == 5
    assert found["enmasse_connections_cut_off_total",] == 1


def test_canary_has_its_own_metrics() -> None:
    for problem, ok in ((None, 1), ("not delivered", 0)):
        observed = Observed(0, [], canary=CanaryStatistics(5, 2, problem))
        found = samples(render(observed, [], [], ready=True, all_addresses=False))
        assert found["enmasse_canary_ok",] == ok
        assert found["enmasse_canary_messages_total",] == 5
        assert found["enmasse_canary_failures_total",] == 2


async def test_connections_api_lists_and_traces_connections(served: Served) -> None:
    served.engine.open = [Connection(7, "default", None, "client", "127.0.0.1:1", "amqp", 2)]
    base = "/apis/enmasse.io/v1beta1/connections"
    (listed,) = (await served.http.get(base)).json()["items"]
    assert listed["id"] == 7
    assert listed["transport"] == "amqp"
    assert (await served.http.post(f"{base}/7/trace")).json() == {"id": 7, "trace": True}
    assert served.engine.traced == {7: True}
    await served.http.delete(f"{base}/7/trace")
    assert served.engine.traced == {7: False}
    for unknown in ("8", "x", "-1", "9" * 40):
        assert (await served.http.post(f"{base}/{unknown}/trace")).status_code == 404


def test_process_disk_and_certificates_have_metrics(tmp_path: Path) -> None:
    with DataDir(tmp_path / "data") as data:
        ensure_certificates(data.tls, ["localhost"], SystemClock())
        page = render(Observed(0, []), [], ready=True, all_addresses=False, data=data)
    found = samples(page)
    assert found["enmasse_build_info", __version__] == 1
    assert found["process_resident_memory_bytes",] > 0
    assert 0 < found["enmasse_disk_free_bytes",] < found["enmasse_disk_size_bytes",]
    expiry = "enmasse_certificate_expiry_timestamp_seconds"
    assert found[expiry, "tls"] > SystemClock().now().timestamp()
    assert found[expiry, "ca"] > found[expiry, "tls"]
