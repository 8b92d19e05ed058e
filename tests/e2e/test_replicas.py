"""Two platforms on one database or cluster: one leads, the other is on stand-by and takes over."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from proton import Message

from cuttable_proxy import way_to
from enmasse.cli.connect.trust import handshake_problem
from platform_process import ENMASSE, LISTENERS, Platform, running
from postgres_server import PostgresServer
from proton_client import connected, exchange

pytestmark = pytest.mark.timeout(180)
PATIENCE_S = 60.0
NOT_REACHABLE = 7
"""The exit code of a command that should be retried later."""

Pair = tuple[Platform, Platform]


@pytest.fixture
def pair(shared_url: str, tmp_path: Path) -> Iterator[Pair]:
    """A leader and a stand-by."""
    with replicas(shared_url, tmp_path) as both:
        yield both


@contextmanager
def replicas(url: str, folder: Path) -> Iterator[Pair]:
    environment = {"ENMASSE_STORE": url}
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(
                running(folder / name, "--node-name", name, environment=environment)
            )
            for name in ("one", "other")
        )
        yield one, other


def leading(platform: Platform) -> Platform:
    """The platform with the listeners that it has once it leads."""
    # Only a leader makes an address ready, and the command waits for that.
    assert "created and ready" in platform.enmasse("create", "address", "next", "--type", "queue")
    while "amqp" not in (found := endpoints(platform)):
        platform.enmasse("get", "addresses")
    return replace(platform, endpoints=found)


def endpoints(platform: Platform) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((platform.data / "endpoint.json").read_text())[
        "endpoints"
    ]
    return found


def test_leader_and_stand_by_both_serve_the_api(pair: Pair) -> None:
    one, other = pair
    assert set(one.endpoints) == set(LISTENERS)
    assert set(other.endpoints) == {"http", "https"}
    # The stand-by accepts the request, and the leader reconciles it.
    assert "created and ready" in other.enmasse("create", "address", "orders", "--type", "queue")
    exchange(one, "orders")
    listed = [platform.enmasse("get", "addresses", "orders", "-o", "json") for platform in pair]
    items = [json.loads(text) for text in listed]
    assert items[0]["metadata"] == items[1]["metadata"]
    assert all(item["status"]["isReady"] for item in items)
    assert "stand-by" in httpx2.get(f"{other.url('http')}/readyz").text
    assert httpx2.get(f"{other.url('http')}/metrics").status_code == 200
    token = (other.data / "token").read_text().strip()
    answer = httpx2.post(
        f"{other.url('http')}/apis/enmasse.io/v1beta1/namespaces/default/addresses/"
        "default.queue/purge",
        json={},
        headers={"Authorization": f"Bearer {token}"},
    )
    assert (answer.status_code, answer.json()["details"]["code"]) == (503, "E6008")


def test_both_replicas_show_events_and_schemas(postgres: PostgresServer, tmp_path: Path) -> None:
    with replicas(postgres.new_database(), tmp_path) as pair:
        pair[1].enmasse("create", "address", "orders", "--type", "queue")
        for kind in ("addressspaceschemas", "events"):
            one, other = (
                json.loads(platform.enmasse("get", kind, "-o", "json"))["items"]
                for platform in pair
            )
            assert one and one == other
        assert "Served" in pair[1].enmasse("describe", "address", "orders")
        pair[0].process.terminate()
        assert pair[0].process.wait(PATIENCE_S) == 0
        second = leading(pair[1])
        assert "Served" in second.enmasse("describe", "address", "orders")


def test_stand_by_takes_over_when_the_leader_stops(pair: Pair) -> None:
    one, other = pair
    one.enmasse("create", "address", "orders", "--type", "queue")
    authority = one.authority()
    one.process.terminate()
    assert one.process.wait(PATIENCE_S) == 0
    other = leading(other)
    exchange(other, "orders")
    # Clients still trust the space, because its authority is in the database.
    assert other.authority() == authority and handshake_problem(other.space()) is None


@pytest.mark.slow
def test_stand_by_takes_over_when_the_leader_is_killed(pair: Pair) -> None:
    one, other = pair
    one.kill()
    other = leading(other)
    exchange(other, "queue")


def test_T_AS_15_messaging_works_without_the_store_and_creation_after_it(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with replicas(postgres.new_database(), tmp_path) as (one, _):
        postgres.stop()
        try:
            exchange(one, "queue")
        finally:
            postgres.start()
        while one.say("create", "address", "later", "--type", "queue") == NOT_REACHABLE:
            pass  # the database is still starting
        exchange(one, "later")


@pytest.mark.slow
def test_replaced_leader_process_ends(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_database()
    environment = {"ENMASSE_STORE": url}
    with (
        running(tmp_path / "one", environment=environment, ends=[1]) as one,
        running(tmp_path / "other", "--node-name", "other", environment=environment) as other,
    ):
        taken = "update enmasse_leader set holder = 'another', term = term + 1"
        postgres.execute(f"{taken}, expires = now()", url)
        assert one.process.wait(PATIENCE_S) == 1
        exchange(leading(other), "queue")


@pytest.mark.slow
def test_leader_that_cannot_reach_its_store_ends(
    request: pytest.FixtureRequest, shared_url: str, tmp_path: Path
) -> None:
    is_cluster = shared_url.startswith("kubernetes")
    server = request.getfixturevalue("cluster" if is_cluster else "postgres")
    with (
        way_to(server, shared_url) as (way, by_way),
        running(
            *(tmp_path / "one", "--leader-grace-s", "0"),
            environment={"ENMASSE_STORE": by_way},
            ends=[1],
        ) as one,
        running(
            *(tmp_path / "other", "--node-name", "other"),
            environment={"ENMASSE_STORE": shared_url},
        ) as other,
    ):
        exchange(one, "queue")
        with connected(one) as connection:
            sender = connection.create_sender("anycast")
            way.cut()
            # There is no consumer, so the send waits until the leader steps down.
            with pytest.raises(Exception, match="amqp:connection:forced"):
                sender.send(Message(body="too late"), timeout=PATIENCE_S)
        assert one.process.wait(PATIENCE_S) == 1
        exchange(leading(other), "queue")


def test_unreachable_database_fails_the_start_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [ENMASSE, "up", "--data", tmp_path, "--store", "postgresql://u@127.0.0.1:1/mq"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "database mq at 127.0.0.1" in line and "--store" in line
