"""Watching, line by line. A real server's socket is needed to read a stream that does not end."""

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx2
import pytest

from asgi_platform import ADDRESSES, TOKEN, Served
from doubles import address, space
from enmasse.api import Server, bind
from enmasse.api.resources.watch import FILTERED_CHANGES_MAX
from enmasse.control import Admission
from enmasse.resources.core import ConfigMap, NamedMetadata
from enmasse.store import Event, MemoryStore


@pytest.fixture
async def http(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener)
    running = asyncio.ensure_future(server.run_until_stopped())
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers) as client:
        yield client
    server.stop()
    await running


@contextlib.asynccontextmanager
async def watching(
    http: httpx2.AsyncClient, **parameters: str
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    async with http.stream("GET", ADDRESSES, params={"watch": "true"} | parameters) as answer:
        assert answer.status_code == 200

        async def events() -> AsyncIterator[dict[str, Any]]:
            async for line in answer.aiter_lines():
                yield json.loads(line)

        yield events()


async def test_watch_sends_existing_resources_and_then_changes(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space(), address()])
    await served.settle()
    async with watching(http) as events:
        first = await anext(events)
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "default.orders")
        await admission.apply([address("default.more")])
        added, active = await anext(events), await anext(events)
        assert (added["type"], added["object"]["spec"]["address"]) == ("ADDED", "more")
        assert (active["type"], active["object"]["status"]["phase"]) == ("MODIFIED", "Active")
        await admission.delete(address().key)
        assert (await anext(events))["type"] == "DELETED"


async def test_watch_resumes_from_the_version_of_a_list(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space(), address()])
    await served.settle()
    version = (await http.get(ADDRESSES)).json()["metadata"]["resourceVersion"]
    await admission.delete(address().key)
    async with watching(http, resourceVersion=version) as events:
        assert (await anext(events))["type"] == "DELETED"


async def test_watch_ends_at_its_timeout(http: httpx2.AsyncClient) -> None:
    async with watching(http, timeoutSeconds="0") as events:
        assert [event async for event in events] == []


async def test_watch_of_an_expired_version_gets_an_error_event(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space()])
    await admission.apply([address(f"default.a{number}") for number in range(5000)])
    async with watching(http, resourceVersion="1") as events:
        (event,) = [event async for event in events]
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["reason"] == "Expired"


@pytest.mark.parametrize("name", ["resourceVersion", "timeoutSeconds"])
async def test_non_numeric_watch_parameter_is_refused(http: httpx2.AsyncClient, name: str) -> None:
    answer = await http.get(ADDRESSES, params={"watch": "true", name: "later"})
    assert answer.status_code == 400
    assert name in answer.json()["message"]


async def test_open_watches_do_not_delay_shutdown(served: Served) -> None:
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener)
    running = asyncio.ensure_future(server.run_until_stopped())
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with (
        httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}) as client,
        watching(client) as events,
    ):
        server.stop()
        async with asyncio.timeout(5):
            await running
        with contextlib.suppress(httpx2.HTTPError):
            assert [event async for event in events] == []


async def test_future_resource_version_returns_504(
    served: Served, http: httpx2.AsyncClient
) -> None:
    ahead = str(served.store.version + 1)
    for parameters in ({"watch": "true"}, {}):
        answer = await http.get(ADDRESSES, params={"resourceVersion": ahead, **parameters})
        assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")
        assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_selector_watch_reports_matching_as_added_and_leaving_as_deleted(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space()])
    await served.settle()
    version = str(served.store.version)
    async with watching(http, labelSelector="team=north", resourceVersion=version) as events:
        await admission.apply([address("default.other", labels={"team": "south"}), address()])
        await admission.apply([address(labels={"team": "north"})])
        added = await anext(events)
        assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "default.orders")
        await served.settle()
        await admission.apply([address(labels={"team": "south"})])
        seen = [await anext(events)]
        while seen[-1]["type"] == "MODIFIED":
            seen.append(await anext(events))
        assert seen[-1]["type"] == "DELETED"


async def test_watch_list_ends_its_initial_events_with_a_bookmark(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space(), address()])
    await served.settle()
    parameters = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with watching(http, **parameters) as events:
        assert (await anext(events))["type"] == "ADDED"
        mark = await anext(events)
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["kind"] == "Address"
    assert mark["object"]["metadata"] == {
        "resourceVersion": str(served.store.version),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


async def test_watch_without_matching_changes_gets_bookmarks(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space()])
    await served.settle()
    path = ADDRESSES.replace("default", "north")
    parameters = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": str(served.store.version),
    }
    async with http.stream("GET", path, params=parameters) as answer:
        lines = answer.aiter_lines()
        await admission.apply(
            [address(f"default.a{number}") for number in range(FILTERED_CHANGES_MAX)]
        )
        mark = json.loads(await anext(lines))
    assert mark["type"] == "BOOKMARK"
    assert int(mark["object"]["metadata"]["resourceVersion"]) >= FILTERED_CHANGES_MAX


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"sendInitialEvents": "true"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"allowWatchBookmarks": "maybe"}, "allowWatchBookmarks"),
    ],
)
async def test_contradictory_watch_parameters_are_refused(
    http: httpx2.AsyncClient, parameters: dict[str, str], field: str
) -> None:
    answer = await http.get(ADDRESSES, params={"watch": "true"} | parameters)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert answer.json()["details"]["causes"][0]["field"] == field


async def test_watch_with_a_table_accept_header_returns_rows(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space(), address()])
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with http.stream("GET", ADDRESSES, params={"watch": "1"}, headers=accept) as answer:
        line = json.loads(await anext(answer.aiter_lines()))
    assert (line["type"], line["object"]["kind"]) == ("ADDED", "Table")
    assert line["object"]["rows"][0]["cells"][0] == "default.orders"


MAPS = "/api/v1/namespaces/default/configmaps"
MANY, WRITES = 10_000, 1_000
UNSENT_BYTES_MAX = 256 << 10
Held = dict[str, str]
"""Versions of resources by name."""


class Seen(NamedTuple):
    """One change."""

    type: str
    name: str
    version: int


def config_map(number: int, data: str = "") -> ConfigMap:
    return ConfigMap(metadata=NamedMetadata(name=f"m-{number:05}"), data={"a": data})


LAST = ConfigMap(metadata=NamedMetadata(name="last"), data={})


async def write_some(store: MemoryStore) -> list[Seen]:
    """Change, delete and add resources, one a write, and then the last one."""
    since = store.version
    for number in range(WRITES):
        if number % 4 == 0:
            await store.delete([config_map(number).key])
        elif number % 4 == 1:
            await store.put([config_map(MANY + number)])
        else:
            await store.put([config_map(number, "changed")])
        await asyncio.sleep(0)
    await store.put([LAST])
    changes = store.changes(since)
    return [Seen(str(one.type), one.resource.metadata.name, one.version) for one in changes]


async def listed(http: httpx2.AsyncClient, limit: int) -> tuple[Held, int]:
    """List in pages of `limit`, or in one if it is 0; return the resources and their version."""
    held: Held = {}
    more: dict[str, str] = {}
    while True:
        page = (await http.get(MAPS, params={"limit": str(limit)} | more)).json()
        for one in page["items"]:
            assert one["metadata"]["name"] not in held
            held[one["metadata"]["name"]] = one["metadata"]["resourceVersion"]
        if not (token := page["metadata"].get("continue")):
            return held, int(page["metadata"]["resourceVersion"])
        more = {"continue": token}


class Watcher:
    """Lists, and then watches from there; `held` has only what it received."""

    def __init__(self, http: httpx2.AsyncClient, limit: int) -> None:
        self._http = http
        self._limit = limit
        self.listed = asyncio.Event()
        self.begun_at = 0
        self.held: Held = {}
        self.seen: list[Seen] = []

    async def run(self, may_read: asyncio.Event) -> None:
        """Watch until the last change arrives; read nothing before `may_read`."""
        self.held, self.begun_at = await listed(self._http, self._limit)
        parameters = {"watch": "true", "resourceVersion": str(self.begun_at)}
        async with self._http.stream("GET", MAPS, params=parameters, timeout=60) as answer:
            self.listed.set()
            await may_read.wait()
            async for line in answer.aiter_lines():
                self._take(json.loads(line))
                if self.seen[-1].name == LAST.metadata.name:
                    return

    def _take(self, event: dict[str, Any]) -> None:
        metadata = event["object"]["metadata"]
        name, version = metadata["name"], metadata["resourceVersion"]
        self.seen.append(Seen(event["type"], name, int(version)))
        if event["type"] == "DELETED":
            del self.held[name]
        else:
            self.held[name] = version


def alive(kind: type[object]) -> int:
    """The number of live instances of a class."""
    gc.collect()
    return sum(type(one) is kind for one in gc.get_objects())


@pytest.mark.timeout(300)
async def test_watchers_of_many_resources_receive_each_change_exactly_once(
    served: Served, http: httpx2.AsyncClient
) -> None:
    store = served.store
    await store.put([config_map(number) for number in range(MANY)])
    watchers = [Watcher(http, limit) for limit in (0, 500, 0)]
    now, later = asyncio.Event(), asyncio.Event()
    now.set()
    before = alive(Event)
    async with asyncio.TaskGroup() as tasks:
        # One watcher starts during the writes, and one reads nothing until they end.
        for one, may_read in zip(watchers, (now, now, later), strict=True):
            tasks.create_task(one.run(may_read))
        await watchers[0].listed.wait()
        await watchers[2].listed.wait()
        written = await write_some(store)
        # Events for the slow watcher exist only once, in the history that all watchers share.
        assert alive(Event) - before <= len(written)
        assert alive(ConfigMap) <= MANY + 2 * WRITES
        unsent = [
            one.get_write_buffer_size()
            for one in gc.get_objects()
            if isinstance(one, asyncio.Transport) and not one.is_closing()
        ]
        assert max(unsent) < UNSENT_BYTES_MAX
        later.set()
    there = {
        one.metadata.name: one.metadata.resource_version for one in store.list(ConfigMap.__name__)
    }
    for one in watchers:
        assert one.seen == [change for change in written if change.version > one.begun_at]
        assert one.held == there
