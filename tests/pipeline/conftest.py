"""One Spark and one platform for all tests of the pipeline, and streams of their own for each."""

from collections.abc import Iterator
from itertools import count

import pytest
from pyspark.sql import SparkSession

from platform_process import Node, Platform, mortal_node, running
from postgres_server import PostgresServer, postgres_server
from published_streams import Log
from spark_session import session
from stream_documents import SPACE, address, stream

STREAMS, QUEUES = 80, 80
SHORT = ("short", "short2", "short3")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests here: to start one takes longer than most of them."""
    with session(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture(scope="session")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform with streams, queues, topics, and those of `SHORT`, which forget early."""
    folder = tmp_path_factory.mktemp("streams")
    documents = [SPACE, *(stream(f"s{number}") for number in range(STREAMS))]
    documents += [stream(name, "{bytes: 64KiB}") for name in SHORT]
    documents += [address(name, type="queue") for name in ("q0", "killed")]
    documents += [address("live", type="topic")]
    documents += [address(f"k{number}", type="queue") for number in range(QUEUES)]
    documents += [address("news", type="topic")]
    documents += [
        address("small", type="topic", retention="{bytes: 64KiB}", limits="{messageSize: 20}")
    ]
    documents += [address("desk", type="subscription", topic="news")]
    path = folder / "streams.yaml"
    path.write_text("---\n".join(documents))
    with running(folder / "data", "-f", str(path)) as platform:
        yield platform


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Node]:
    """A node to be killed, with three streams and a queue for each of the module's schedules and
    for two more."""
    kinds, seeds = ("in", "out", "on"), range(request.module.SCHEDULES + 2)
    documents = [SPACE, *(stream(f"{kind}{seed}") for seed in seeds for kind in kinds)]
    documents += [address(f"queue{seed}", type="queue") for seed in seeds]
    with mortal_node(tmp_path_factory.mktemp("mortal"), documents) as started:
        yield started


@pytest.fixture(scope="session")
def mortal_database() -> Iterator[PostgresServer]:
    """A server to be killed."""
    with postgres_server() as found:
        yield found


@pytest.fixture
def log(streams: Platform, numbers: Iterator[int]) -> Log:
    """A stream of its own for each test."""
    return Log(streams.url(), f"s{next(numbers)}")


@pytest.fixture
def queue(streams: Platform, numbers: Iterator[int]) -> Log:
    """A queue of its own for each test."""
    return Log(streams.url(), f"k{next(numbers)}")
