"""Watching, line by line. A real server's socket is needed to read a stream that does not end."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from doubles import address, space
from enmasse.api import Server, bind
from enmasse.api.watch import UNSEEN_MAX
from enmasse.control import Admission
from served import ADDRESSES, TOKEN, Served


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


async def test_what_is_there_comes_first_and_changes_follow(
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


async def test_a_watch_goes_on_from_a_lists_version(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space(), address()])
    await served.settle()
    version = (await http.get(ADDRESSES)).json()["metadata"]["resourceVersion"]
    await admission.delete(address().key)
    async with watching(http, resourceVersion=version) as events:
        assert (await anext(events))["type"] == "DELETED"


async def test_a_watch_ends_when_its_time_is_up(http: httpx2.AsyncClient) -> None:
    async with watching(http, timeoutSeconds="0") as events:
        assert [event async for event in events] == []


async def test_a_version_no_longer_kept_is_an_error_event(
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
async def test_a_parameter_that_is_no_number_is_refused(
    http: httpx2.AsyncClient, name: str
) -> None:
    answer = await http.get(ADDRESSES, params={"watch": "true", name: "later"})
    assert answer.status_code == 400
    assert name in answer.json()["message"]


async def test_watchers_do_not_hold_up_the_end(served: Served) -> None:
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


async def test_a_version_that_is_not_yet_is_told(served: Served, http: httpx2.AsyncClient) -> None:
    ahead = str(served.store.version + 1)
    for parameters in ({"watch": "true"}, {}):
        answer = await http.get(ADDRESSES, params={"resourceVersion": ahead, **parameters})
        assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")
        assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_what_comes_into_view_is_added_and_what_goes_out_of_it_deleted(
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


async def test_a_watch_may_begin_with_all_there_is_and_say_when_that_is_told(
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


async def test_a_watcher_of_nothing_is_told_how_far_it_is(
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
        await admission.apply([address(f"default.a{number}") for number in range(UNSEEN_MAX)])
        mark = json.loads(await anext(lines))
    assert mark["type"] == "BOOKMARK"
    assert int(mark["object"]["metadata"]["resourceVersion"]) >= UNSEEN_MAX


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"sendInitialEvents": "true"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"allowWatchBookmarks": "maybe"}, "allowWatchBookmarks"),
    ],
)
async def test_parameters_that_do_not_go_together_are_refused(
    http: httpx2.AsyncClient, parameters: dict[str, str], field: str
) -> None:
    answer = await http.get(ADDRESSES, params={"watch": "true"} | parameters)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert answer.json()["details"]["causes"][0]["field"] == field


async def test_a_watch_tells_rows_to_who_wants_a_table(
    served: Served, http: httpx2.AsyncClient
) -> None:
    admission = Admission(served.store, exposed=False)
    await admission.apply([space(), address()])
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with http.stream("GET", ADDRESSES, params={"watch": "1"}, headers=accept) as answer:
        line = json.loads(await anext(answer.aiter_lines()))
    assert (line["type"], line["object"]["kind"]) == ("ADDED", "Table")
    assert line["object"]["rows"][0]["cells"][0] == "default.orders"
