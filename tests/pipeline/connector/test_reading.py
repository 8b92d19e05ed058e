"""Reads of a stream without Spark: connection reuse, server restarts, lost messages."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles import TestClock
from enmasse.base.errors import Conflict, Denied, Invalid, Unavailable
from enmasse.messaging import Data, Message
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.options import Options
from enmasse.pipeline.connector.ranges import Slice
from published_streams import Log, readings
from stream_server import StreamServer

LARGE = 10_000
"""Bytes of a message; about 1,600 such messages make a batch."""


@pytest.fixture(scope="module")
def server() -> Iterator[StreamServer]:
    running = StreamServer()
    yield running
    running.close()


@pytest.fixture
def log(server: StreamServer) -> Log:
    """A stream of its own for each test."""
    return Log(server.url, f"s{len(server.streams)}")


def options_of(log: Log, **chosen: str) -> Options:
    return option_table.read({"url": log.url, "address": log.address, "timeout": "20"} | chosen)


def no_retry() -> reading.Retry:
    return reading.Retry(0, TestClock(), lambda _: None)


def offsets(options: Options, part: Slice) -> list[int]:
    return [
        offset
        for batch in reading.batches(options, part)
        for offset in batch.column("offset").to_pylist()
    ]


def test_connections_of_a_replaced_token_are_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "Stream", lambda asked: asked)
    monkeypatch.setattr(reading, "_idle", {})
    file = tmp_path / "token"
    options = option_table.read({"url": "amqp://h", "address": "a", "tokenFile": str(file)})
    for number in range(10):
        file.write_text(f"token {number}")
        taken = [reading.acquire(options) for _ in range(2)]
        assert {one["client"]["token"] for one in taken} == {f"token {number}"}
        for one in taken:
            reading.release(options, one)
        assert reading.acquire(options) is taken[1]
    assert sum(len(kept) for _, kept in reading._idle.values()) == 1


def test_connection_is_reused_between_reads(log: Log, server: StreamServer) -> None:
    log.publish(readings(0, 50))
    options = options_of(log, columns="offset")
    before = len(server.connections)
    for begin in range(0, 50, 5):
        assert offsets(options, Slice(0, begin, begin + 5, None)) == [*range(begin, begin + 5)]
    assert reading.state(options).partitions[0].next == 50
    assert len(server.connections) == before + 1


def test_read_continues_after_a_restart_of_the_server() -> None:
    first = StreamServer()
    log = Log(first.url, "large")
    count = log.publish([Message(body=Data([bytes(LARGE)])) for _ in range(4500)])
    servers = [first]

    def restart(_: float) -> None:
        if servers[-1] is first:
            servers.append(StreamServer(first.port, first.streams))

    options = options_of(log, columns="offset, body")
    retry = reading.Retry(20, TestClock(), restart)
    seen: list[int] = []
    for batch in reading.batches(options, Slice(0, 0, count, "large-1"), retry):
        if not seen:
            first.close()
        seen += batch.column("offset").to_pylist()
    servers[-1].close()
    assert len(servers) == 2
    assert seen == list(range(count))


def test_unreachable_server_is_an_error_after_the_retries() -> None:
    away = option_table.read({"url": "amqp://127.0.0.1:1", "address": "x"})
    with pytest.raises(Unavailable, match="refused"):
        reading.request(away, lambda stream: stream.state(), no_retry())


def test_retries_end_and_are_renewed() -> None:
    clock, pauses = TestClock(), list[float]()
    retry = reading.Retry(2.0, clock, pauses.append)
    error = Unavailable("E6000", "away")
    for _ in range(3):
        retry.wait(error)
    clock.advance(1.5)
    with pytest.raises(Unavailable):
        retry.wait(error)
    retry.renew()
    retry.wait(error)
    assert pauses == [0.1, 0.2, 0.4, 0.1]


def test_lost_messages_are_an_error_or_a_warning(
    log: Log, server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    log.publish(readings(0, 100))
    server.forget(log.address, 60)
    part = Slice(0, 50, 100, f"{log.address}-1")
    with pytest.raises(Conflict, match="from offset 50 to 59 are no longer kept"):
        offsets(options_of(log, columns="offset"), part)
    with caplog.at_level(logging.WARNING):
        got = offsets(options_of(log, columns="offset", failOnDataLoss="false"), part)
    assert got == list(range(60, 100))
    assert "10 messages of 50..100 are no longer kept" in caplog.text


def test_read_of_a_recreated_stream_is_an_error(log: Log, server: StreamServer) -> None:
    log.publish(readings(0, 10))
    server.make_anew(log.address)
    log.publish(readings(0, 10))
    with pytest.raises(Conflict, match=f"its uid was {log.address}-1 and is {log.address}-2"):
        offsets(options_of(log), Slice(0, 0, 10, f"{log.address}-1"))


def test_message_size_is_estimated_from_the_stream(log: Log) -> None:
    log.publish([Message(body=Data([bytes(LARGE)])) for _ in range(20)])
    size = reading.message_size(options_of(log), Slice(0, 0, 20, None))
    assert LARGE < size < LARGE + 200
    assert reading.message_size(options_of(log), Slice(0, 20, 20, None)) == 0


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        ({"columns": "devise"}, Invalid),
        ({"saslMechanisms": "PLAIN", "url": "amqp://h.invalid"}, Denied),
        ({"tlsCa": "/nowhere", "url": "amqps://localhost"}, Invalid),
        ({"url": "http://localhost"}, Invalid),
    ],
)
def test_a_permanent_error_is_raised_at_once(
    log: Log, chosen: dict[str, str], error: type[Exception]
) -> None:
    log.publish(readings(0, 1))
    with pytest.raises(error):
        offsets(options_of(log, **chosen), Slice(0, 0, 1, None))


@pytest.mark.parametrize("module", ["pyspark_enmasse", "enmasse.pipeline.connector.sink"])
def test_tasks_do_not_import_the_libraries_of_tables(module: str) -> None:
    loaded = f"import sys, {module}; print(*sys.modules)"
    words = [sys.executable, "-c", loaded]
    modules = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert module in modules
    assert not {"deltalake", "pandas", "enmasse.pipeline.tables.delta"} & set(modules)
