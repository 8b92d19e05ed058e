"""The commands that send and receive, as programs against a running platform."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from platform_process import ENMASSE, Platform, running

TIMEOUT_S = 120
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with running(tmp_path_factory.mktemp("data")) as platform:
        yield platform


def run(up: Platform, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ENMASSE, *words],
        env=up.environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


@contextmanager
def beside(up: Platform, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command in the background until the block ends."""
    with subprocess.Popen(
        [ENMASSE, *words], env=up.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_sent_message_is_received(up: Platform) -> None:
    with beside(up, "receive", "anycast", "--count", "1") as receiver:
        sent = run(up, "send", "anycast", "--body", "one espresso")
        assert receiver.communicate(timeout=TIMEOUT_S)[0] == "one espresso\n"
    assert (sent.returncode, sent.stdout) == (0, "1 accepted\n")


def test_each_input_line_becomes_a_message_with_properties(up: Platform) -> None:
    with beside(up, "receive", "anycast", "--count", "3", "--output", "json") as receiver:
        sent = run(
            up, "send", "anycast", "--body", "-", "--durable", "--output", "json",
            "--properties", "team=north", "-p", "table=7", "--url", up.url("ws"),
            stdin="a\nb\nc\n",
        )  # fmt: skip
        lines = receiver.communicate(timeout=TIMEOUT_S)[0].splitlines()
    assert json.loads(sent.stdout) == {"sent": 3, "accepted": 3}
    assert [json.loads(line) for line in lines] == [
        {
            "body": body,
            "applicationProperties": {"team": "north", "table": 7},
            "header": {"durable": True},
        }
        for body in "abc"
    ]


def test_send_honours_count_size_and_rate(up: Platform) -> None:
    with beside(up, "receive", "anycast", "--count", "300") as receiver:
        sent = run(up, "send", "anycast", "--count", "300", "--size", "100", "--rate", "2000")
        lines = receiver.communicate(timeout=TIMEOUT_S)[0].splitlines()
    assert sent.stdout == "300 accepted\n"
    assert [len(line) for line in lines] == [100] * 300


def test_send_exits_1_if_a_message_is_not_accepted(up: Platform) -> None:
    with beside(up, "receive", "anycast", "--count", "2", "--settle", "reject") as receiver:
        sent = run(up, "send", "anycast", "--count", "2")
        receiver.communicate(timeout=TIMEOUT_S)
    assert sent.returncode == 1
    assert sent.stdout.startswith("2 rejected\n")


def test_respond_replies_to_requests(up: Platform) -> None:
    with beside(up, "respond", "anycast", "--count", "3") as responder:
        asked = run(up, "request", "anycast", "--body", "how many?", "--count", "2")
        again = run(up, "request", "anycast", "--body", "and now?")
        said = responder.communicate(timeout=TIMEOUT_S)[0]
    assert asked.stdout == "how many?\nhow many?\n"
    assert again.stdout == "and now?\n"
    assert said == "3 accepted\n"


def test_send_reports_settled_messages(up: Platform) -> None:
    with beside(up, "receive", "anycast", "--count", "2") as receiver:
        sent = run(up, "send", "anycast", "--settle", "--count", "2")
        receiver.communicate(timeout=TIMEOUT_S)
    assert (sent.returncode, sent.stdout) == (0, "2 sent settled\n")


def test_send_times_out_without_a_receiver(up: Platform) -> None:
    refused = run(up, "send", "anycast", "--timeout", "0.1")
    assert refused.returncode == 7
    assert (
        refused.stderr
        == "enmasse: no message was accepted for 0.1 s; check that the address has a receiver\n"
    )


def test_receive_ends_after_its_timeout_without_messages(up: Platform) -> None:
    ended = run(up, "receive", "anycast", "--timeout", "0.1")
    assert (ended.returncode, ended.stdout) == (0, "")
    short = run(up, "receive", "anycast", "--timeout", "0.1", "--count", "1")
    assert short.returncode == 1
    assert short.stderr == "enmasse: received 0 of 1 messages; then none for 0.1 s\n"


def test_T_EP_1_tls_is_trusted_through_the_platforms_ca(up: Platform, tmp_path: Path) -> None:
    authority = str(up.data / "tls" / "ca.crt")
    url = up.url("amqps")
    trusted = run(up, "receive", "anycast", "--timeout", "0.1", "--url", url, "--ca", authority)
    assert trusted.returncode == 0, trusted.stderr
    known = run(up, "receive", "anycast", "--timeout", "0.1", "--url", url)
    assert known.returncode == 0, known.stderr
    elsewhere = ["--url", url, "--data", str(tmp_path)]
    stranger = run(up, "receive", "anycast", "--timeout", "0.1", *elsewhere)
    assert stranger.returncode == 8
    assert len(stranger.stderr.splitlines()) == 1


def test_messaging_commands_exit_3_for_an_undeclared_address(up: Platform) -> None:
    for command in ("send", "receive", "request"):
        refused = run(up, command, "nowhere")
        assert refused.returncode == 3, refused.stderr
        assert "nowhere" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_absent_server_is_reported_as_unreachable(up: Platform) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"amqp://127.0.0.1:{taken.getsockname()[1]}"
    for command in ("send", "bench"):
        refused = run(up, command, "anycast", "--url", url)
        assert refused.returncode == 7, refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    wrong = run(up, "send", "anycast", "--url", "http://127.0.0.1")
    assert wrong.returncode == 1


def test_silent_server_is_reported_as_unreachable(up: Platform) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"amqp://127.0.0.1:{silent.getsockname()[1]}"
        refused = run(up, "receive", "anycast", "--timeout", "0.1", "--url", url)
    assert refused.returncode == 7
    assert refused.stderr.startswith("enmasse: the server did not answer within 5 s")


def test_messaging_command_selects_its_space_among_several(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        up.enmasse("create", "addressspace", "shop")
        up.enmasse("create", "address", "orders", "--type", "anycast", "--space", "shop")
        for words in (["receive", "orders"], ["send", "orders"], ["request", "orders"]):
            lost = run(up, *words, "--timeout", "30")
            assert lost.returncode == 3, lost.stderr
            assert 'no address "orders" in this address space' in lost.stderr
            mistyped = run(up, *words, "--timeout", "30", "--space", "sohp")
            assert mistyped.returncode == 4, mistyped.stderr
        up.enmasse("user", "create", "alice", "--space", "shop", "--password", "x", "--no-wait")
        lost = run(up, "send", "orders", "--space", "shop", "--timeout", "30")
        assert lost.returncode == 4, lost.stderr
        assert "; --url amqp://USER:PASSWORD@HOST:PORT logs in" in lost.stderr
        up.enmasse("delete", "user", "alice", "--space", "shop")
        shop = ("--space", "shop", "--timeout", "60")
        with beside(up, "receive", "orders", "--count", "1", *shop) as receiver:
            assert run(up, "send", "orders", "--body", "one", *shop).stdout == "1 accepted\n"
            assert receiver.communicate(timeout=TIMEOUT_S)[0] == "one\n"
        with beside(up, "respond", "orders", "--count", "1", "--space", "shop.default"):
            assert run(up, "request", "orders", "--body", "two", *shop).stdout == "two\n"
        load = ("--duration", "0.2", "--warmup", "0", "--space", "shop")
        assert "messages_per_s" in run(up, "bench", "orders", *load).stdout


def test_bench_reports_its_measurements(up: Platform) -> None:
    measured = run(
        up, "bench", "anycast", "--duration", "0.5", "--warmup", "0.1", "--output", "json"
    )
    report = json.loads(measured.stdout)
    assert measured.returncode == 0
    assert report["messages_per_s"] > 0
    assert report["totals"]["accepted"] == report["totals"]["sent"] > 0
    assert report["cpu"]["server_percent"] > 0, "the platform's own process is measured"
    table = run(up, "bench", "anycast", "--duration", "0.2", "--warmup", "0.1", "--rate", "1000")
    assert re.search(r"^latency\.p99_us +[\d,.]+$", table.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        ["send", "anycast", "--body", "x", "--size", "1"],
        ["send", "anycast", "--properties", "nothing"],
        ["send", "anycast", "--count", "0"],
        ["receive", "anycast", "--settle", "forget"],
    ],
)
def test_wrong_usage_is_exit_code_2(up: Platform, words: list[str]) -> None:
    assert run(up, *words).returncode == 2


@pytest.fixture(scope="module")
def events(up: Platform) -> str:
    """A stream of two partitions with three messages in each."""
    words = "events --type topic --retention-bytes 1GiB --partitions 2"
    assert run(up, "create", "address", *words.split()).returncode == 0
    sent = run(up, "send", "events", "--count", "6", "--body", "tick")
    assert sent.stdout == "6 accepted\n", sent.stderr
    return "events"


def read(up: Platform, address: str, *words: str) -> list[tuple[int, int]]:
    """Read a stream; return partitions and offsets."""
    got = run(up, "receive", address, *words, "--timeout", "2", "--output", "json")
    assert got.returncode == 0, got.stderr
    found = [json.loads(line)["annotations"] for line in got.stdout.splitlines()]
    return sorted((one["x-opt-partition"], one["x-stream-offset"]) for one in found)


def test_a_stream_is_read_from_an_offset_or_a_time(up: Platform, events: str) -> None:
    everything = [(partition, offset) for partition in (0, 1) for offset in range(3)]
    assert read(up, events, "--offset", "first") == everything
    assert read(up, events, "--offset", "2000-01-01T00:00:00Z") == everything
    assert read(up, events, "--offset", "2000-01-01", "--partition", "1") == everything[3:]
    assert read(up, events, "--offset", "last") == [(0, 2), (1, 2)]
    assert read(up, events, "--offset", "1", "--partition", "0") == [(0, 1), (0, 2)]
    assert read(up, events, "--offset", "2100-01-01T00:00:00+02:00") == []
    assert read(up, events) == read(up, events, "--partition", "1") == []


def test_invalid_stream_offset_or_partition_is_refused(up: Platform, events: str) -> None:
    several = run(up, "receive", events, "--offset", "1")
    assert several.returncode == 1, several
    assert "enmasse:stream-partition" in several.stderr
    gone = run(up, "receive", events, "--partition", "2")
    assert "use 0 to 1" in gone.stderr
    queue = run(up, "receive", "queue", "--offset", "first")
    assert queue.returncode == 1, queue
    assert "queue is not a stream" in queue.stderr
    for words in (["--offset", "middle"], ["--offset", "-1"], ["--offset", str(2**64)]):
        wrong = run(up, "receive", events, *words)
        assert wrong.returncode == 2, wrong
        assert "--offset" in wrong.stderr


def test_management_read_returns_depth_and_partitions(up: Platform, events: str) -> None:
    properties = ("operation=READ", "type=enmasse.address", f"name={events}")
    words = [word for one in properties for word in ("-p", one)]
    asked = run(up, "request", "$management", *words, "--output", "json")
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout)
    assert answer["applicationProperties"]["statusCode"] == 200
    assert answer["body"]["depth"] == 6
    bounds = [(one["first"], one["next"]) for one in answer["body"]["partitions"]]
    assert bounds == [(0, 3), (0, 3)]
