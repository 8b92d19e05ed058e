"""Lists: pages, selectors, resource versions."""

from typing import Any

import pytest

from asgi_platform import ADDRESSES, SPACES, Served
from doubles import TestClock, address, space
from enmasse.api.resources.paging import KEPT_S, ListScope, Snapshots
from enmasse.base.errors import Code, Conflict, Invalid
from enmasse.control import Admission
from tokens import token_secret


@pytest.fixture
async def with_five(served: Served) -> Served:
    addresses = [
        address(f"default.a{number}", labels={"parity": ("even", "odd")[number % 2]})
        for number in range(5)
    ]
    await Admission(served.store, exposed=False).apply([space(), *addresses])
    await served.settle()
    return served


async def page(served: Served, **parameters: Any) -> dict[str, Any]:
    answer = await served.http.get(ADDRESSES, params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def names(listed: dict[str, Any]) -> list[str]:
    return [item["spec"]["address"] for item in listed["items"]]


async def test_list_pages_share_the_snapshot_of_the_first_page(with_five: Served) -> None:
    first = await page(with_five, limit=2)
    assert names(first) == ["a0", "a1"]
    assert first["metadata"]["remainingItemCount"] == 3
    admission = Admission(with_five.store, exposed=False)
    await admission.delete(address("default.a3").key)
    await admission.apply([address("default.a9")])
    token = first["metadata"]["continue"]
    second = await page(with_five, limit=2, **{"continue": token})
    assert names(second) == ["a2", "a3"]
    assert names(await page(with_five, limit=2, **{"continue": token})) == ["a2", "a3"]
    last = await page(with_five, limit=2, **{"continue": second["metadata"]["continue"]})
    assert names(last) == ["a4"]
    assert "continue" not in last["metadata"]
    versions = {one["metadata"]["resourceVersion"] for one in (first, second, last)}
    assert len(versions) == 1


async def test_expired_continue_token_returns_410(with_five: Served) -> None:
    for token, status in (("2.gone", 410), ("nonsense", 400)):
        answer = await with_five.http.get(ADDRESSES, params={"limit": 2, "continue": token})
        assert answer.status_code == status


async def test_list_is_filtered_by_label_and_field_selectors(with_five: Served) -> None:
    assert names(await page(with_five, labelSelector="parity=odd")) == ["a1", "a3"]
    assert names(await page(with_five, fieldSelector="spec.address=a2")) == ["a2"]
    narrowed = await page(with_five, labelSelector="parity", limit=1)
    assert "remainingItemCount" not in narrowed["metadata"]
    for name in ("labelSelector", "fieldSelector"):
        answer = await with_five.http.get(ADDRESSES, params={name: "a=b=c"})
        assert answer.status_code == 400
        assert name in answer.json()["message"]


async def test_list_accepts_a_resource_version(with_five: Served) -> None:
    now = with_five.store.version
    assert len((await page(with_five, resourceVersion=0))["items"]) == 5
    assert len((await page(with_five, resourceVersion=""))["items"]) == 5
    exact = {"resourceVersion": now, "resourceVersionMatch": "Exact"}
    assert len((await page(with_five, **exact))["items"]) == 5
    older = exact | {"resourceVersion": now - 1}
    answer = await with_five.http.get(ADDRESSES, params=older)
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    "parameters",
    [
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Newer", "resourceVersion": "1"},
        {"sendInitialEvents": "true"},
        {"continue": "2.x", "resourceVersion": "1"},
    ],
)
async def test_contradictory_list_parameters_are_refused(
    served: Served, parameters: dict[str, str]
) -> None:
    answer = await served.http.get(ADDRESSES, params=parameters)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds", "watch", "allowWatchBookmarks"])
async def test_list_parameter_without_a_value_is_refused(served: Served, name: str) -> None:
    answer = await served.http.get(ADDRESSES, params={name: ""})
    assert answer.status_code in (400, 422)
    assert answer.json()["details"]["causes"][0]["field"] == name


async def test_deletecollection_deletes_the_selected_resources(with_five: Served) -> None:
    tried = await with_five.http.request(
        "DELETE", ADDRESSES, params={"labelSelector": "parity=odd", "dryRun": "All"}
    )
    assert names(tried.json()) == ["a1", "a3"]
    assert len(with_five.store.list("Address")) == 5
    gone = await with_five.http.request("DELETE", ADDRESSES, params={"labelSelector": "parity=odd"})
    assert names(gone.json()) == ["a1", "a3"]
    assert len(with_five.store.list("Address")) == 3


async def bearer(served: Served, name: str) -> dict[str, str]:
    """Return the headers of a new token for the namespaces `default` and `shop`."""
    token = f"{name}.0123456789"
    await served.store.put([token_secret(token, tenant_edit="default,shop")])
    return {"Authorization": f"Bearer {token}"}


async def test_continue_token_is_bound_to_its_caller_and_request(
    with_five: Served,
) -> None:
    http = with_five.http
    tina, vera = await bearer(with_five, "tina"), await bearer(with_five, "vera")
    begin = {"limit": 1, "labelSelector": "parity=even"}
    first = await http.get(ADDRESSES, params=begin, headers=tina)
    again = begin | {"continue": first.json()["metadata"]["continue"]}
    other = again | {"labelSelector": "parity=odd"}
    narrowed = again | {"fieldSelector": "spec.address=a2"}
    elsewhere = ADDRESSES.replace("/default/", "/shop/")
    answers = [
        await http.get(ADDRESSES, params=again, headers=vera),
        await http.get(ADDRESSES, params=again),
        await http.get(SPACES, params=again, headers=tina),
        await http.get(elsewhere, params=again, headers=tina),
        await http.get(ADDRESSES, params=other, headers=tina),
        await http.get(ADDRESSES, params=narrowed, headers=tina),
    ]
    assert [(one.status_code, one.json()["reason"]) for one in answers] == [(410, "Expired")] * 6
    rest = await http.get(ADDRESSES, params=again | {"limit": 500}, headers=tina)
    assert names(rest.json()) == ["a2", "a4"]


async def test_continue_token_of_secrets_is_refused_for_another_kind(with_five: Served) -> None:
    tina = await bearer(with_five, "tina")
    await bearer(with_five, "vera")
    secrets = "/api/v1/namespaces/enmasse-tokens/secrets"
    first = (await with_five.http.get(secrets, params={"limit": 1})).json()
    asked = {"continue": first["metadata"]["continue"]}
    nothing: dict[str, str] = {}
    for headers in (nothing, tina):
        answer = await with_five.http.get(ADDRESSES, params=asked, headers=headers)
        assert answer.status_code == 410


async def test_snapshot_limit_of_one_caller_expires_only_its_own_lists(with_five: Served) -> None:
    http = with_five.http
    tina, vera = await bearer(with_five, "tina"), await bearer(with_five, "vera")
    mine = (await page(with_five, limit=2))["metadata"]["continue"]
    hers = (await http.get(ADDRESSES, params={"limit": 1}, headers=tina)).json()
    for _ in range(100):
        await http.get(ADDRESSES, params={"limit": 1}, headers=vera)
    assert names(await page(with_five, **{"continue": mine})) == ["a2", "a3", "a4"]
    rest = {"continue": hers["metadata"]["continue"]}
    assert (await http.get(ADDRESSES, params=rest, headers=tina)).status_code == 200


def test_least_recently_read_snapshot_is_evicted() -> None:
    resources = [address(f"default.a{number}") for number in range(4)]
    snapshots = Snapshots(TestClock(), of_one=2)
    tina = ListScope("tina", "v1/Secret", "default", ("", ""))
    first, second = (snapshots.first(tina, version, resources, 1) for version in (1, 2))
    assert snapshots.next(tina, first.continue_, 1).version == 1
    snapshots.first(tina, 3, resources, 1)
    assert snapshots.next(tina, first.continue_, 0).remaining == 0
    with pytest.raises(Conflict) as refusal:
        snapshots.next(tina, second.continue_, 1)
    assert refusal.value.code == Code.VERSION_EXPIRED
    with pytest.raises(Invalid, match="continue"):
        snapshots.next(tina, "x", 1)


def test_total_number_of_snapshots_is_bounded() -> None:
    resources = [address(f"default.a{number}") for number in range(2)]
    snapshots = Snapshots(TestClock(), maximum=3)
    callers = [ListScope(f"t{number}", "v1/Secret", "default", ("", "")) for number in range(4)]
    pages = [snapshots.first(one, 1, resources, 1) for one in callers]
    with pytest.raises(Conflict, match="restart the list"):
        snapshots.next(callers[0], pages[0].continue_, 1)
    assert snapshots.next(callers[1], pages[1].continue_, 1).resources == resources[1:]


def test_abandoned_snapshot_expires() -> None:
    resources = [address(f"default.a{number}") for number in range(3)]
    clock = TestClock()
    snapshots = Snapshots(clock)
    tina = ListScope("tina", "v1/Secret", "default", ("", ""))
    left, read = (snapshots.first(tina, 1, resources, 1) for _ in range(2))
    clock.advance(KEPT_S - 1.0)
    read = snapshots.next(tina, read.continue_, 1)
    clock.advance(2.0)
    assert snapshots.next(tina, read.continue_, 1).remaining == 0
    with pytest.raises(Conflict, match="restart the list"):
        snapshots.next(tina, left.continue_, 1)
