"""A backup over HTTP."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect

import doubles
from enmasse.api import Platform, create_app
from enmasse.api.monitoring.statistics import Statistics
from enmasse.base.data_dir import DataDir
from enmasse.base.rotated import RotatedFile
from enmasse.control import Admission
from enmasse.engines import AddressStatistics
from enmasse.resources import one_document, parse
from enmasse.store import MemoryStore
from enmasse.store.archive import PRIVATE, Archive
from fake_engine import FakeEngine

PATH = "/apis/enmasse.io/v1beta1/backup"
SECRET = """
{apiVersion: v1, kind: Secret, metadata: {name: own, namespace: default}, data: {word: b3Blbg==}}
"""


@pytest.fixture
async def platform(tmp_path: Path) -> Platform:
    clock = doubles.TestClock()
    store, engine = MemoryStore(clock), FakeEngine()
    await store.put([doubles.space(), doubles.queue(), parse(one_document(SECRET))])
    engine.statistics = [AddressStatistics("uid-1", "default", "orders", stored=3)]
    data = DataDir(tmp_path / "data")
    with data:
        data.token.write_text("secret")
        (data.journal / "1.log").write_bytes(b"messages")
    return Platform(
        store=store,
        computed=MemoryStore(clock),
        admission=Admission(store, exposed=False),
        engine=engine,
        statistics=Statistics(engine, clock),
        clock=clock,
        is_ready=lambda: True,
        data=lambda: data,
    )


def client(served: Platform | Starlette, token: str = "secret") -> httpx2.AsyncClient:
    app = served
    if isinstance(served, Platform):
        app = create_app(served, token="secret", hosts=["localhost"])
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


async def test_backup_contains_resources_and_messages_but_no_secrets(
    platform: Platform, tmp_path: Path
) -> None:
    async with client(platform) as http:
        answer = await http.get(PATH)
        again = await http.get(PATH)
    assert (answer.status_code, again.status_code) == (200, 200)
    file = tmp_path / "backup"
    file.write_bytes(answer.content)
    backup = Archive(file)
    manifest = backup.check()
    assert manifest.about == {
        "made": "2026-01-01T00:00:00Z",
        "resources": {"Address": 1, "AddressSpace": 1},
        "leftOut": ["default/own"],
        "messages": {"uid-1": {"space": "default", "address": "orders", "stored": 3}},
    }
    assert {one.kind for one in backup.resources(manifest)} == {"Address", "AddressSpace"}
    assert [name for name in manifest.entries if name != "resources.jsonl"] == ["journal/1.log"]


async def test_backup_contains_secrets_on_request(platform: Platform, tmp_path: Path) -> None:
    async with client(platform) as http:
        answer = await http.get(PATH, params={"secrets": "true"})
    file = tmp_path / "backup"
    file.write_bytes(answer.content)
    backup = Archive(file)
    manifest = backup.check()
    assert manifest.about["leftOut"] == []
    assert "Secret" in {one.kind for one in backup.resources(manifest)}
    assert f"{PRIVATE}token" in manifest.entries


async def test_disconnect_before_the_first_byte_is_audited_and_releases_the_backup(
    platform: Platform, trail: RotatedFile
) -> None:
    app = create_app(platform, token="secret", hosts=["localhost"], trail=trail)
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer secret")]
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "path": PATH, "raw_path": b"",
        "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1), "scheme": "http",
        "server": ("localhost", 80), "root_path": "", "extensions": {},
    }  # fmt: skip

    async def gone(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200
        raise OSError("connection reset")

    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def received() -> dict[str, object]:
        return next(messages, {"type": "http.disconnect"})

    with contextlib.suppress(BaseExceptionGroup, ClientDisconnect, OSError):
        await app(scope, received, gone)  # type: ignore[arg-type]
    assert len(trail.last(10)) == 1
    async with client(app) as http:
        assert (await http.get(PATH, params={"secrets": "true"})).status_code == 200
    first, second = map(json.loads, trail.last(10))
    for one in (first, second):
        assert (one["resource"], one["decision"]) == ("backup", "allowed")


async def test_backup_from_a_stand_by_process_is_unavailable(platform: Platform) -> None:
    async with client(replace(platform, data=lambda: None)) as http:
        answer = await http.get(PATH)
    assert (answer.status_code, answer.json()["details"]["code"]) == (503, "E6008")


async def test_backup_requires_the_token(platform: Platform) -> None:
    async with client(platform, token="guess") as http:
        assert (await http.get(PATH)).status_code == 401
