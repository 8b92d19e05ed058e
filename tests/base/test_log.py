"""Logs: one JSON object a line unless on a terminal, and never a secret."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from enmasse.base import log


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    out = io.StringIO()
    log.configure("info", out)
    yield out
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("enmasse").setLevel(logging.NOTSET)
    structlog.reset_defaults()


def records(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_json_line(stream: io.StringIO) -> None:
    structlog.get_logger("enmasse.test").info("address ready", address="orders")
    (record,) = records(stream)
    assert record["event"] == "address ready"
    assert record["address"] == "orders"
    assert record["level"] == "info"
    assert record["logger"] == "enmasse.test"
    assert "timestamp" in record


def test_records_below_the_level_are_left_out(stream: io.StringIO) -> None:
    structlog.get_logger("enmasse.test").debug("unseen")
    assert records(stream) == []


def test_standard_library_records_use_the_same_processors(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("odd request from %s", "peer")
    (record,) = records(stream)
    assert record["event"] == "odd request from peer"
    assert record["level"] == "warning"


def test_libraries_log_warnings_only_at_any_level(stream: io.StringIO) -> None:
    log.configure("debug", stream)
    logging.getLogger("py4j").debug("a row with keys")
    logging.getLogger("py4j").info("a row with keys")
    structlog.get_logger("enmasse.test").debug("ours")
    assert [record["event"] for record in records(stream)] == ["ours"]


def test_exception_record_has_its_traceback_on_the_same_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger("enmasse.test").exception("failed")
    (record,) = records(stream)
    assert "ValueError: broken" in str(record["exception"])


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("stream")
def test_traceback_on_a_terminal_shows_no_local_variables() -> None:
    def handle(body: dict[str, str]) -> None:
        raise ValueError("broken")

    terminal = Terminal()
    log.configure("debug", terminal)
    body = {"password": "hunter2"}
    try:
        handle(body)
    except ValueError:
        structlog.get_logger("enmasse.test").exception("failed")
        logging.getLogger("uvicorn.error").exception("failed too")
    assert terminal.getvalue().count("ValueError: broken") == 2
    assert "hunter2" not in terminal.getvalue()


def test_secrets_are_never_written(stream: io.StringIO) -> None:
    logger = structlog.get_logger("enmasse.test")
    logger.info("login", password="hunter2", request={"Authorization": "Bearer abc", "path": "/"})
    assert "hunter2" not in stream.getvalue()
    assert "abc" not in stream.getvalue()
    (record,) = records(stream)
    assert record["request"] == {"Authorization": "***", "path": "/"}
