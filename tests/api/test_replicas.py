"""Reads of resources that another process of the same store wrote."""

from typing import Any

import pytest

import doubles
from asgi_platform import Served
from enmasse.resources import Resource

ADDRESSES = "/apis/enmasse.io/v1beta1/namespaces/default/addresses"


@pytest.fixture
def elsewhere(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[Resource]:
    """Resources that another process wrote and that this one sees after a refresh."""
    written: list[Resource] = [doubles.space(), doubles.address()]

    async def refresh() -> None:
        some, written[:] = list(written), []
        await served.store.put(some)

    monkeypatch.setattr(served.store, "refresh", refresh)
    return written


async def test_list_includes_writes_of_other_processes(
    served: Served, elsewhere: list[Resource]
) -> None:
    listed: dict[str, Any] = (await served.http.get(ADDRESSES)).json()
    assert [one["metadata"]["name"] for one in listed["items"]] == ["default.orders"]


async def test_list_at_version_0_is_served_without_refresh(
    served: Served, elsewhere: list[Resource]
) -> None:
    listed: dict[str, Any] = (await served.http.get(f"{ADDRESSES}?resourceVersion=0")).json()
    assert listed["items"] == []


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
async def test_get_and_patch_find_a_resource_of_another_process(
    served: Served, elsewhere: list[Resource], verb: str
) -> None:
    patch: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}}
    answer = await served.http.request(
        verb,
        f"{ADDRESSES}/default.orders",
        json=patch if verb == "PATCH" else None,
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert answer.status_code == 200


async def test_message_operation_finds_an_address_of_another_process(
    served: Served, elsewhere: list[Resource]
) -> None:
    answer = await served.http.post(f"{ADDRESSES}/default.orders/peek", json={})
    assert answer.json()["details"]["code"] == "E1013"  # The address is not a queue.
