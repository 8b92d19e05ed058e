"""Nodes as operators see them: real processes on PostgreSQL and on SQLite."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection

from mqtt_client import Refused, device_at
from platform_process import ENMASSE, Platform, running, up_command
from postgres_server import PostgresServer, schema_of
from proton_client import connected, exchange

pytestmark = pytest.mark.timeout(180)

PATIENCE_S = 60.0


@pytest.fixture
def environment(postgres: PostgresServer) -> dict[str, str]:
    return {"ENMASSE_STORE": postgres.new_database()}


def nodes(platform: Platform) -> dict[str, dict[str, Any]]:
    listed = json.loads(platform.enmasse("get", "nodes", "-o", "json"))
    items = listed["items"] if listed["kind"] == "List" else [listed]
    return {one["metadata"]["name"]: one for one in items}


def until(platform: Platform, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait for a state of the nodes; each look is a process, so it takes its time by itself."""
    while True:
        found = nodes(platform)
        if condition(found):
            return found


def condition_of(node: dict[str, Any], kind: str) -> tuple[str, str] | None:
    for one in node.get("status", {}).get("conditions", ()):
        if one["type"] == kind:
            return one["status"], one["reason"]
    return None


def refused(data: Path, environment: dict[str, str], *arguments: str) -> str:
    """Start a platform that must not start; return its last line on stderr."""
    done = subprocess.run(
        up_command(data, *arguments),
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1 and not done.stdout, done.stdout
    return done.stderr.splitlines()[-1]


def is_ready(node: dict[str, Any]) -> bool:
    return bool(node.get("status", {}).get("isReady"))


def test_each_process_is_a_node_with_three_connections_at_most(
    postgres: PostgresServer, environment: dict[str, str], tmp_path: Path
) -> None:
    with (
        running(tmp_path / "a", "--node-name", "a", environment=environment) as one,
        running(
            *(tmp_path / "b", "--node-name", "b", "--zone", "east"), environment=environment
        ) as other,
    ):
        exchange(one, "queue")
        other.enmasse("get", "addresses")
        found = until(one, lambda all_: len(all_) == 2 and all(map(is_ready, all_.values())))
        statuses = {name: node["status"] for name, node in found.items()}
        assert [statuses[name]["role"] for name in ("a", "b")] == ["leader", "standby"]
        assert statuses["b"]["zone"] == "east" and statuses["a"]["start"] == 1
        assert statuses["a"]["endpoints"]["amqp"]["port"] == one.port()
        assert set(statuses["b"]["endpoints"]) == {"http", "https"}
        count = postgres.execute(
            "select count(*) from pg_stat_activity where application_name ="
            f" '{schema_of(environment['ENMASSE_STORE'])}'"
        )
        assert count[0][0] <= 6  # type: ignore[operator]
        # Heartbeats are no writes.
        version = "select version from enmasse_store"
        before = postgres.execute(version, environment["ENMASSE_STORE"])
        beats = "select min(beats) from enmasse_nodes"
        (first,) = postgres.execute(beats, environment["ENMASSE_STORE"])[0]
        while postgres.execute(beats, environment["ENMASSE_STORE"])[0][0] == first:
            pass
        assert postgres.execute(version, environment["ENMASSE_STORE"]) == before
        other.kill()
        found = until(one, lambda all_: not is_ready(all_["b"]))
        assert condition_of(found["b"], "Ready") == ("False", "Silent")
        told = one.enmasse("doctor", "queue")
        assert "node b is not ready: no heartbeat for 15 s" in told
        assert "Silent" in one.enmasse("get", "events", "-n", "enmasse-infra")
        one.enmasse("node", "forget", "b")
        assert set(nodes(one)) == {"a"}
        assert one.say("node", "forget", "a") == 5, "it runs"


def test_second_process_of_a_name_and_copied_folder_are_refused(
    environment: dict[str, str], tmp_path: Path
) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    with running(original, "--node-name", "a", environment=environment) as one:
        # Files of a running process: sockets and journal are no part of the identity.
        copy.mkdir()
        for name in ("format", "node.json"):
            shutil.copy(original / name, copy / name)
        for data, line in (
            (copy, "another process runs as node 'a'"),
            (tmp_path / "new", "another process runs as node 'a'"),
        ):
            told = refused(data, environment, "--node-name", "a")
            assert line in told and "--node-name" in told
        other = tmp_path / "other"
        with running(other, "--node-name", "b", environment=environment):
            pass
        assert "belongs to node 'b'" in refused(other, environment, "--node-name", "a")
        one.process.terminate()
        assert one.process.wait(PATIENCE_S) == 0
    # The original goes on; the copy, now as a restored folder, is older.
    with running(original, environment=environment) as one:
        assert nodes(one)["a"]["status"]["start"] == 2 or until(
            one, lambda all_: all_["a"]["status"]["start"] == 2
        )
        assert "was copied or restored" in refused(copy, environment)
    (copy / "node.json").unlink()
    with running(copy, "--node-name", "c", environment=environment) as third:
        until(third, lambda all_: is_ready(all_["c"]))


def test_killed_node_starts_again_at_once_in_its_folder(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with running(tmp_path, "--node-name", "a", environment=environment) as one:
        uid = json.loads((tmp_path / "node.json").read_text())["uid"]
        one.kill()
    with running(tmp_path, environment=environment):
        record = json.loads((tmp_path / "node.json").read_text())
    assert (record["name"], record["uid"], record["start"]) == ("a", uid, 2)


def test_node_that_was_replaced_ends(
    postgres: PostgresServer, environment: dict[str, str], tmp_path: Path
) -> None:
    with running(tmp_path, "--node-name", "a", environment=environment, ends=[1]) as one:
        postgres.execute(
            "update enmasse_nodes set start = start + 1, mark = 'other'",
            environment["ENMASSE_STORE"],
        )
        assert one.process.wait(PATIENCE_S) == 1


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Platform]:
    """A platform on SQLite."""
    with running(tmp_path / "data", "--node-name", "alone") as platform:
        yield platform


def test_cordoned_node_keeps_its_clients_and_survives_a_restart(
    alone: Platform, tmp_path: Path
) -> None:
    ready = f"{alone.url('http')}/readyz/messaging"
    with connected(alone) as connection:
        alone.enmasse("node", "cordon", "alone")
        found = until(alone, lambda all_: condition_of(all_["alone"], "Cordoned") is not None)
        until(alone, lambda all_: condition_of(all_["alone"], "Cordoned") == ("True", "Cordoned"))
        assert is_ready(found["alone"])
        assert httpx2.get(ready).status_code == 503
        with pytest.raises(ConnectionException, match="amqp:connection:forced"):
            BlockingConnection(alone.url(), timeout=30).close()
        # The connected client goes on, with new links too.
        connection.create_sender("queue").send(Message(body="kept"), timeout=30)
        receiver = connection.create_receiver("queue")
        assert receiver.receive(timeout=30).body == "kept"
        receiver.accept()
        # So do the command line's sessions within the process.
        alone.enmasse("peek", "queue")
    with pytest.raises(Refused, match="Use another server"), device_at(alone, "late"):
        pass
    alone.process.terminate()
    assert alone.process.wait(PATIENCE_S) == 0
    with running(tmp_path / "data") as again:
        with pytest.raises(ConnectionException, match="amqp:connection:forced"):
            BlockingConnection(again.url(), timeout=30).close()
        again.enmasse("node", "uncordon", "alone")
        until(again, lambda all_: condition_of(all_["alone"], "Cordoned") is None)
        exchange(again, "queue")
        assert "Uncordoned" in again.enmasse("get", "events", "-n", "enmasse-infra")


def test_nodes_are_neither_created_nor_forgotten_while_they_run(alone: Platform) -> None:
    until(alone, lambda all_: "alone" in all_ and is_ready(all_["alone"]))
    document = nodes(alone)["alone"]
    made = document | {"metadata": {"name": "other"}, "spec": {}}
    done = subprocess.run(
        [ENMASSE, "apply", "-f", "-"],
        input=json.dumps(made),
        capture_output=True,
        text=True,
        env=alone.environment,
        timeout=PATIENCE_S,
    )
    assert done.returncode != 0 and "--node-name other" in done.stderr
    assert alone.say("node", "forget", "alone") != 0
    assert set(nodes(alone)) == {"alone"}


def test_folder_with_the_store_of_another_node_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with running(tmp_path / name, "--node-name", name):
            pass
    shutil.copy(tmp_path / "a" / "resources.db", tmp_path / "b" / "resources.db")
    (tmp_path / "b" / "served.json").unlink()
    # The store of `a`, and the folder of another: it joins as a node of that store.
    with running(tmp_path / "b", "--node-name", "b") as again:
        found = until(again, lambda all_: "b" in all_ and is_ready(all_["b"]))
        assert condition_of(found["a"], "Ready") == ("False", "Stopped")
        again.enmasse("node", "forget", "a")
        assert set(nodes(again)) == {"b"}
