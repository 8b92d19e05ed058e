"""Lists in the order of a value."""

from typing import Any

import pytest

from asgi_platform import ADDRESSES, SPACES, Served, body
from doubles import address, queue, space
from enmasse.engines import AddressStatistics, SpaceStatistics

NAMES = ("default.a", "default.b", "default.c", "default.d")
ALL = "/apis/enmasse.io/v1beta1/addresses"


@pytest.fixture
async def stored(served: Served) -> dict[str, str]:
    """Four queues that store 1, 30, 2 and 2 messages; their uids by name."""
    await served.http.post(SPACES, json=body(space()))
    uids = {}
    for name in NAMES:
        made = await served.http.post(ADDRESSES, json=body(queue(name, address=name[-1] * 3)))
        assert made.status_code == 201, made.text
        uids[name] = made.json()["metadata"]["uid"]
    report(served, uids, 1, 30, 2, 2)
    return uids


def report(served: Served, uids: dict[str, str], *stored: int) -> None:
    served.engine.statistics = [
        AddressStatistics(uid, "default.default", name, stored=count, stored_bytes=10 * count)
        for (name, uid), count in zip(uids.items(), stored, strict=True)
    ]


async def listed(served: Served, url: str = ADDRESSES, **parameters: Any) -> dict[str, Any]:
    answer = await served.http.get(url, params=parameters)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def names(document: dict[str, Any]) -> list[str]:
    return [one["metadata"]["name"][-1] for one in document["items"]]


async def test_addresses_are_sorted_by_a_live_value(served: Served, stored: dict[str, str]) -> None:
    down = await listed(served, sortBy="-stored")
    assert names(down) == ["b", "c", "d", "a"], "equal values stay in the order of names"
    assert [one["status"]["statistics"]["stored"]["messages"] for one in down["items"]] == [
        *(30, 2, 2, 1)
    ]
    assert names(await listed(served, sortBy="stored")) == ["a", "c", "d", "b"]
    assert names(await listed(served, ALL, sortBy="-name")) == ["d", "c", "b", "a"]
    assert down["metadata"]["itemCount"] == 4


async def test_pages_keep_their_order_while_values_change(
    served: Served, stored: dict[str, str]
) -> None:
    first = await listed(served, sortBy="-stored", limit=2)
    assert names(first) == ["b", "c"]
    assert first["metadata"]["remainingItemCount"] == 2
    report(served, stored, 50, 0, 0, 99)
    served.clock.advance(10)
    rest = await listed(
        served, sortBy="-stored", limit=2, **{"continue": first["metadata"]["continue"]}
    )
    assert names(rest) == ["d", "a"]
    assert rest["items"][0]["status"]["statistics"]["stored"]["messages"] == 99
    assert names(await listed(served, sortBy="-stored", limit=2)) == ["d", "a"]


async def test_the_last_page_is_reached_by_offset(served: Served, stored: dict[str, str]) -> None:
    last = await listed(served, sortBy="-stored", limit=2, offset=3)
    assert names(last) == ["a"]
    assert last["metadata"]["remainingItemCount"] == 0
    assert names(await listed(served, sortBy="stored", limit=2, offset=9)) == []


async def test_a_list_of_a_timer_keeps_no_pages(served: Served, stored: dict[str, str]) -> None:
    answer = await served.http.get(
        ADDRESSES, params={"sortBy": "stored", "limit": 1}, headers={"X-Background": "1"}
    )
    assert "continue" not in answer.json()["metadata"]
    assert answer.json()["metadata"]["remainingItemCount"] == 3


async def test_lists_contain_a_text(served: Served, stored: dict[str, str]) -> None:
    assert names(await listed(served, contains="BBB")) == ["b"]
    assert names(await listed(served, contains="default.", sortBy="-name")) == ["d", "c", "b", "a"]
    assert names(await listed(served, contains="zzz", sortBy="stored")) == []


async def test_all_lists_share_a_sample_for_two_seconds(
    served: Served, stored: dict[str, str]
) -> None:
    before = (await listed(served, sortBy="stored"))["metadata"]["sampleTime"]
    report(served, stored, 9, 9, 9, 9)
    served.clock.advance(1)
    assert (await listed(served, sortBy="-waiting"))["metadata"]["sampleTime"] == before
    served.clock.advance(2)
    assert (await listed(served, sortBy="stored"))["metadata"]["sampleTime"] != before


async def test_spaces_are_sorted_by_what_they_store(served: Served, stored: dict[str, str]) -> None:
    await served.http.post(SPACES, json=body(space("another")))
    served.engine.carried = [SpaceStatistics("u", "default.default", connections=3, links=4)]
    found = await listed(served, SPACES, sortBy="-stored")
    assert [one["metadata"]["name"] for one in found["items"]] == ["default", "another"]
    live = found["items"][0]["status"]["live"]
    assert (live["addresses"], live["stored"], live["storedBytes"]) == (4, 35, 350)
    assert (live["connections"], live["links"]) == (3, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sortBy": "size"}, "sortBy: must be one of name, namespace"),
        ({"sortBy": ""} | {"offset": "1"}, "offset: needs sortBy"),
        ({"sortBy": "name", "watch": "true"}, "sortBy: is not for a watch"),
        ({"contains": "x" * 2000}, "contains: must have at most"),
    ],
)
async def test_wrong_parameters_are_refused(
    served: Served, parameters: dict[str, str], message: str
) -> None:
    answer = await served.http.get(ADDRESSES, params=parameters)
    assert answer.status_code == 422
    assert message in answer.json()["message"]


async def test_other_kinds_are_not_sorted(served: Served) -> None:
    answer = await served.http.get("/api/v1/namespaces", params={"sortBy": "name"})
    assert answer.json()["message"] == "sortBy: is not for namespaces"


async def test_an_address_in_a_text_is_found(served: Served) -> None:
    await served.http.post(SPACES, json=body(space()))
    await served.http.post(ADDRESSES, json=body(address()))
    assert names(await listed(served, contains="orders")) == ["s"]
