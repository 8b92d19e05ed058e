"""Reading what another process of the same store has written."""

from typing import Any

import pytest

import doubles
from asgi_platform import Served
from enmasse.resources import Resource

ADDRESSES = "/apis/enmasse.io/v1beta1/namespaces/default/addresses"


@pytest.fixture
def elsewhere(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[Resource]:
    """What another process has written and this one has not seen until it looks."""
    written: list[Resource] = [doubles.space(), doubles.address()]

    async def refresh() -> None:
        some, written[:] = list(written), []
        await served.store.put(some)

    monkeypatch.setattr(served.store, "refresh", refresh)
    return written


async def test_a_list_has_all_that_is_written(served: Served, elsewhere: list[Resource]) -> None:
    listed: dict[str, Any] = (await served.http.get(ADDRESSES)).json()
    assert [one["metadata"]["name"] for one in listed["items"]] == ["default.orders"]


async def test_version_0_is_what_is_at_hand(served: Served, elsewhere: list[Resource]) -> None:
    listed: dict[str, Any] = (await served.http.get(f"{ADDRESSES}?resourceVersion=0")).json()
    assert listed["items"] == []


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
async def test_a_resource_is_found(served: Served, elsewhere: list[Resource], verb: str) -> None:
    patch: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}}
    answer = await served.http.request(
        verb,
        f"{ADDRESSES}/default.orders",
        json=patch if verb == "PATCH" else None,
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert answer.status_code == 200


async def test_an_operation_finds_its_address(served: Served, elsewhere: list[Resource]) -> None:
    answer = await served.http.post(f"{ADDRESSES}/default.orders/peek", json={})
    assert answer.json()["details"]["code"] == "E1013"  # it is no queue
