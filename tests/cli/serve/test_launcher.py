"""The platform in this process: start, refusals and stop."""

import asyncio
import json
import logging
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import structlog
import yaml
from typer.testing import CliRunner

from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Code, Conflict, EnMasseError, Invalid, Unavailable
from enmasse.base.log import configure
from enmasse.base.settings import Settings
from enmasse.cli import app
from enmasse.cli.commands.up import welcome
from enmasse.cli.serve.launcher import Endpoint, Ready, serve
from enmasse.client import connect
from platform_process import FREE_PORTS, NO_PORTS

ORDERS = """
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.orders}
spec: {address: orders, type: anycast}
"""
NORTH = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: north}
spec: {type: standard}
"""

OPEN = "type: standard, authenticationService: {type: none}"
CLOSED = "type: standard, authenticationService: {name: standard}"

SERVED = [
    f"default.{type_}"
    for type_ in ("anycast", "deadletter", "mqtt", "multicast", "queue", "subscription", "topic")
]
"""The addresses of a first start."""

Run = Callable[..., Awaitable[str]]


@pytest.fixture(autouse=True)
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Writes the log of the platform to a file, because `enmasse up` does not log to stdout."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with (tmp_path_factory.mktemp("log") / "log").open("w") as stream:
        configure("info", stream)
        yield
        structlog.configure(**before)
        root.handlers[:], root.level = handlers, level


@asynccontextmanager
async def running(settings: Settings, *files: Path) -> AsyncIterator[Ready]:
    """Run the platform and end it with a signal, as a terminal would."""
    announced: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    names = [str(file) for file in files]
    process = asyncio.ensure_future(serve(settings, names, announced.set_result))
    await asyncio.wait({process, announced}, return_when=asyncio.FIRST_COMPLETED)
    if process.done():
        await process
    yield announced.result()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await process


def refused(settings: Settings, *files: Path) -> EnMasseError:
    with pytest.raises(EnMasseError) as refusal:
        asyncio.run(serve(settings, [str(file) for file in files], lambda _: None))
    return refusal.value


async def enmasse(data: Path, *words: str) -> str:
    """Run a command against the platform of a data folder."""
    runner = CliRunner()
    answer = await asyncio.to_thread(runner.invoke, app, [*words], env={"ENMASSE_DATA": str(data)})
    assert answer.exit_code == 0, answer.output
    return answer.stdout


async def false_condition_reasons(data: Path) -> list[str]:
    """The reasons of false conditions of the space `default`."""
    shown = json.loads(await enmasse(data, "get", "addressspace", "default", "-o", "json"))
    conditions = shown["status"]["conditions"]
    return [one["reason"] for one in conditions if one["status"] == "False"]


async def attach(url: str) -> None:
    """Log in by AMQP and attach a sender."""
    async with connect(url) as session, session.sender("queue"):
        pass


async def names(data: Path, kind: str = "addresses") -> list[str]:
    listed = json.loads(await enmasse(data, "get", kind, "-o", "json"))
    return [item["metadata"]["name"] for item in listed["items"]]


def test_missing_database_driver_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "enmasse.store.postgres", None)
    refusal = refused(Settings(data=tmp_path, store="postgresql://db/mq", **NO_PORTS))
    assert "pip install 'enmasse[postgresql]'" in refusal.message


async def test_first_start_declares_a_space_and_an_address_of_each_type(tmp_path: Path) -> None:
    async with running(Settings(data=tmp_path, **FREE_PORTS)) as ready:
        assert list(ready.endpoints) == [
            "amqp",
            "amqps",
            "ws",
            "wss",
            "mqtt",
            "mqtts",
            "http",
            "https",
        ]
        assert ready.document()["pid"] == os.getpid()
        assert await names(tmp_path, "addressspaces") == ["default"]
        assert await names(tmp_path) == SERVED
        for endpoint in ready.endpoints.values():
            socket.create_connection(endpoint, timeout=5).close()
    assert not (tmp_path / "endpoint.json").exists()


async def test_addresses_are_created_shown_and_deleted_by_command(tmp_path: Path) -> None:
    async with running(Settings(data=tmp_path, **FREE_PORTS)):
        created = await enmasse(tmp_path, "create", "address", "news/Europe", "--type", "multicast")
        assert created.endswith("created and ready\n")
        assert "news/Europe" in await enmasse(tmp_path, "get", "addresses")
        shown = json.loads(await enmasse(tmp_path, "get", "address", "news/Europe", "-o", "json"))
        assert shown["status"]["isReady"] is True
        assert shown["status"]["statistics"]["senders"] == 0
        await enmasse(tmp_path, "delete", "address", "news/Europe", "default.anycast")
        assert await names(tmp_path) == SERVED[1:]
        for words, kind in (
            (["address", "anycast"], "addresses"),
            (["space", "x"], "addressspaces"),
        ):
            answer = await asyncio.to_thread(
                CliRunner().invoke, app, ["delete", *words], env={"ENMASSE_DATA": str(tmp_path)}
            )
            assert answer.exit_code == 3
            assert answer.stderr.startswith(f"enmasse: {kind}.enmasse.io '{words[1]}' not found")


async def test_tls_server_name_selects_the_certificate_of_a_space_or_node(
    tmp_path: Path,
) -> None:
    context = ssl.create_default_context()

    async def served(endpoint: Endpoint, name: str) -> set[str]:
        """The names in the certificate that a client gets with the server name `name`."""
        context.load_verify_locations(tmp_path / "tls" / "ca.crt")
        _, writer = await asyncio.open_connection(*endpoint, ssl=context, server_hostname=name)
        names = writer.get_extra_info("peercert")["subjectAltName"]
        writer.close()
        return {name for _, name in names}

    node = {"localhost", "127.0.0.1", "0:0:0:0:0:0:0:1"}
    async with running(
        Settings(data=tmp_path, **NO_PORTS | {"amqps_port": 0, "http_port": 0})
    ) as ready:
        amqps = ready.endpoints["amqps"]
        assert await served(amqps, "default") == {"default", "default.default"}
        await enmasse(tmp_path, "create", "addressspace", "shop")
        assert await served(amqps, "shop.default") == {"shop", "shop.default"}
        assert await served(amqps, "localhost") == node
        await enmasse(tmp_path, "delete", "addressspace", "shop")
        # The node applies the change after the command has returned.
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            async with asyncio.timeout(20):
                while await served(amqps, "shop.default"):
                    pass


async def test_user_is_created_and_deleted_and_its_secret_never_shown(tmp_path: Path) -> None:
    async with running(Settings(data=tmp_path, **FREE_PORTS)):
        await enmasse(tmp_path, "create", "user", "alice", "--password", "pencil", "--send", "a/#")
        assert "send a/#" in await enmasse(tmp_path, "get", "users")
        shown = await enmasse(tmp_path, "get", "users", "-o", "yaml")
        assert "verifiers" not in shown and "cGVuY2ls" not in shown
        await enmasse(tmp_path, "delete", "user", "alice")
        assert await names(tmp_path, "users") == []


async def test_files_are_applied_by_command(tmp_path: Path) -> None:
    file = tmp_path / "north.yaml"
    file.write_text(ORDERS.replace("default", "north") + "---" + NORTH)
    data = tmp_path / "data"
    async with running(Settings(data=data, **FREE_PORTS)):
        first = await enmasse(data, "apply", "-f", str(file))
        assert first == "AddressSpace north created\nAddress north.orders created\n"
        again = await enmasse(data, "apply", "-f", str(file))
        assert again == "AddressSpace north unchanged\nAddress north.orders unchanged\n"
        await enmasse(data, "delete", "addressspace", "north")
        assert "north.orders" not in await names(data)


async def test_start_files_add_resources_and_never_delete(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS)
    data = tmp_path / "data"
    async with running(Settings(data=data, **FREE_PORTS), file):
        assert await names(data, "addressspaces") == ["default"]
        assert await names(data) == ["default.orders"]
    file.write_text(ORDERS.replace("orders", "more"))
    async with running(Settings(data=data, **FREE_PORTS), file):
        assert await names(data) == ["default.more", "default.orders"]
    async with running(Settings(data=data, **FREE_PORTS)):
        assert await names(data) == ["default.more", "default.orders"]


async def test_disabled_listeners_have_no_endpoint(tmp_path: Path) -> None:
    async with running(Settings(data=tmp_path, **NO_PORTS | {"ws_port": 0})) as ready:
        assert list(ready.endpoints) == ["ws"]


async def test_kubeconfig_contains_the_token_itself(tmp_path: Path) -> None:
    # With a path to the token's file, kubectl would ignore its option --token.
    data = DataDir(tmp_path)
    async with running(Settings(data=tmp_path, **FREE_PORTS)):
        (user,) = yaml.safe_load(data.kubeconfig.read_text())["users"]
        assert user["user"] == {"token": data.token.read_text().strip()}
        assert data.kubeconfig.stat().st_mode & 0o777 == 0o600


async def test_start_raises_the_soft_limit_of_open_files(tmp_path: Path) -> None:
    async with running(Settings(data=tmp_path, **NO_PORTS)):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == hard


@pytest.mark.parametrize("name", list(NO_PORTS))
def test_start_on_a_used_tcp_port_fails_and_releases_resources(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = refused(Settings(data=tmp_path, **NO_PORTS | {name: port}))
    assert isinstance(error, Unavailable)
    assert str(port) in error.message
    asyncio.run(start_and_stop(Settings(data=tmp_path, **NO_PORTS)))


async def start_and_stop(settings: Settings) -> None:
    async with running(settings):
        pass


def test_invalid_document_is_named_and_changes_nothing(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(ORDERS)
    bad.write_text(ORDERS.replace("anycast", "anycats"))
    data = tmp_path / "data"
    error = refused(Settings(data=data, **NO_PORTS), good, bad)
    assert isinstance(error, Invalid)
    assert error.message.startswith(f"{bad}, document 1: Address default.orders: spec.type:")
    absent = refused(Settings(data=data, **NO_PORTS), tmp_path / "absent.yaml")
    assert "absent.yaml: No such file or directory" in absent.message

    async def look() -> list[str]:
        async with running(Settings(data=data, **FREE_PORTS)):
            return await names(data)

    assert asyncio.run(look()) == SERVED


def test_refusal_by_the_store_names_the_files(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS.replace("default", "nowhere"))
    error = refused(Settings(data=tmp_path / "data", **NO_PORTS), file)
    assert error.message.startswith(f"{file}: ")
    assert "nowhere" in error.message


def test_start_on_a_data_folder_in_use_is_refused(tmp_path: Path) -> None:
    with DataDir(tmp_path):
        error = refused(Settings(data=tmp_path, **NO_PORTS))
    assert isinstance(error, Conflict)
    assert str(tmp_path) in error.message


def test_open_space_on_an_exposed_host_requires_insecure(tmp_path: Path) -> None:
    file = tmp_path / "north.yaml"
    file.write_text(NORTH.replace("type: standard", OPEN))
    error = refused(Settings(data=tmp_path, host="0.0.0.0", **NO_PORTS), file)
    assert error.code == Code.SPACE_EXPOSED
    assert "--insecure" in error.message
    settings = Settings(data=tmp_path, host="0.0.0.0", insecure=True, **NO_PORTS)
    asyncio.run(start_and_stop(settings))


async def test_first_start_on_an_exposed_host_requires_users(tmp_path: Path) -> None:
    """On an exposed host a space without an authentication service uses `standard`."""
    settings = Settings(data=tmp_path, host="0.0.0.0", **FREE_PORTS)
    async with running(settings) as ready:
        assert ready.suggested_address is None
        told = welcome(settings, ready)
        assert "No client can log in yet" in told and "user create alice" in told
        assert f"Other machines reach it as {socket.gethostname()}" in told
        assert await false_condition_reasons(tmp_path) == ["NoUsers"]
        port = ready.endpoints["amqp"].port
        with pytest.raises(EnMasseError, match="the server offers SCRAM"):
            await attach(f"amqp://127.0.0.1:{port}")
        user = ("user", "create", "alice", "--password", "wonderland", "--send", "queue")
        await enmasse(tmp_path, *user)
        assert await false_condition_reasons(tmp_path) == []
        await attach(f"amqp://alice:wonderland@127.0.0.1:{port}")
        await enmasse(tmp_path, "delete", "user", "alice")
        # A deletion returns before the reconciler has updated the space.
        unmet_again = ("--for", "condition=LoginPossible=False", "--timeout", "20s")
        await enmasse(tmp_path, "wait", "addressspace/default", *unmet_again)
        assert await false_condition_reasons(tmp_path) == ["NoUsers"]
    # On a loopback host the space is open, as on a first start there.
    async with running(Settings(data=tmp_path, **FREE_PORTS)) as ready:
        assert ready.suggested_address is not None
        assert await false_condition_reasons(tmp_path) == []
        await attach(f"amqp://127.0.0.1:{ready.endpoints['amqp'].port}")


async def test_plaintext_api_is_refused_to_remote_peers_unless_insecure(tmp_path: Path) -> None:
    """`X-Forwarded-For` of a proxy on this machine is trusted."""
    file = tmp_path / "north.yaml"
    file.write_text(NORTH.replace("type: standard", CLOSED))
    elsewhere = {"X-Forwarded-For": "192.0.2.1"}
    for insecure, host, status in (
        (False, "0.0.0.0", 403),
        (True, "0.0.0.0", 200),
        (False, "127.0.0.1", 200),
    ):
        data = tmp_path / f"{insecure}{host}"
        settings = Settings(data=data, host=host, insecure=insecure, **NO_PORTS | {"http_port": 0})
        async with running(settings, file) as ready:
            bearer = {"Authorization": f"Bearer {(data / 'token').read_text().strip()}"}
            url = f"http://127.0.0.1:{ready.endpoints['http'].port}"
            async with httpx2.AsyncClient(base_url=url, headers=bearer) as http:
                answer = await http.get("/version", headers=elsewhere)
                assert answer.status_code == status
                assert (await http.get("/healthz", headers=elsewhere)).status_code == 200
                assert (await http.get("/version")).status_code == 200
            assert await names(data, "addressspaces") == ["north"]
