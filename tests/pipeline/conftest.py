"""Streams for the tests of the format."""

from collections.abc import Iterator

import pytest

from publishing import Log
from stream_server import StreamServer


@pytest.fixture(scope="module")
def server() -> Iterator[StreamServer]:
    running = StreamServer()
    yield running
    running.close()


@pytest.fixture
def log(server: StreamServer) -> Log:
    """A stream of its own for each test."""
    return Log(server.url, f"s{len(server.streams)}")
