"""What every test may ask for."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from kube.go_programs import BUILD_TIMEOUT_S
from kube.server import KubeServer, kube_server
from platform_process import Platform, Start, running
from postgres_server import PostgresServer, postgres_server

# what passed once passes again; `make check-all` looks further, with other examples each time
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("exploring", derandomize=False, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="module")
def start_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start platforms that live until the module's tests are done: `start_platform("-f", path)`."""
    with ExitStack() as stack:

        def start(*arguments: str | Path) -> Platform:
            data = tmp_path_factory.mktemp("data")
            # a journal sets space aside: of all platforms of a run that would be gigabytes
            stack.callback(shutil.rmtree, data, ignore_errors=True)
            return stack.enter_context(running(data, *map(str, arguments)))

        yield start


@pytest.fixture(scope="module")
def platform(start_platform: Start) -> Platform:
    """A platform as it is on first start: space `default`, addresses `anycast` and `multicast`."""
    return start_platform()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def kubernetes_server() -> Iterator[KubeServer]:
    """An API server of Kubernetes."""
    with kube_server() as server:
        yield server


@pytest.fixture(
    params=[
        "postgresql",
        pytest.param(
            "kubernetes", marks=[pytest.mark.slow, pytest.mark.timeout(BUILD_TIMEOUT_S + 300)]
        ),
    ]
)
def shared_url(request: pytest.FixtureRequest) -> str:
    """An empty store that several processes may use."""
    if request.param == "kubernetes":
        server: KubeServer = request.getfixturevalue("cluster")
        return server.url
    database: PostgresServer = request.getfixturevalue("postgres")
    return database.new_database()


@pytest.fixture
def cluster(kubernetes_server: KubeServer) -> KubeServer:
    """An API server with nothing of ours in it but definitions."""
    kubernetes_server.clear()
    return kubernetes_server
