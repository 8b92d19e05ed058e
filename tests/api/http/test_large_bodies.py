"""Large request bodies: their limits, and the turns of callers that send them."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from asgi_platform import ADDRESSES, USERS, Served
from doubles import address, space
from enmasse.api.http import protobuf
from enmasse.api.http.bodies import BYTES_AT_ONCE_MAX
from enmasse.api.http.body_turns import BodyTurns
from enmasse.api.resources import writes
from enmasse.base.errors import Invalid
from enmasse.control import Admission
from enmasse.resources import faults, parse, pruned
from enmasse.resources.shape import RESOURCE_VALUES_MAX

PATH = f"{ADDRESSES}/default.orders"
SERVICES = "/api/v1/namespaces/default/services"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
HEAD = "apiVersion: enmasse.io/v1beta1\nkind: Address\nmetadata: {name: default.orders}\n"


def unknown(fields: int) -> dict[str, Any]:
    document = address().document()
    document["spec"] |= {f"k{number}": 1 for number in range(fields)}
    return document


def nested(levels: int) -> str:
    return '{"spec":' * levels + "1" + "}" * levels


def config_map(keys: int) -> dict[str, Any]:
    data = {f"key-{number}": "a value of some length" for number in range(keys)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


@pytest.fixture
async def with_address(served: Served) -> Served:
    await Admission(served.store, exposed=False).apply([space(), address()])
    return served


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The unknown names that were compared with every known name."""
    compared: list[str] = []
    nearest = faults.nearest

    def counted(name: str, known: Any) -> str:
        compared.append(name)
        return nearest(name, known)

    monkeypatch.setattr(faults, "nearest", counted)
    return compared


def threads_of(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Return the names of the threads that a function of `writes` will run in."""
    found: list[str] = []
    function: Callable[..., Any] = getattr(writes, name)

    def noted(*arguments: Any) -> Any:
        found.append(threading.current_thread().name)
        return function(*arguments)

    monkeypatch.setattr(writes, name, noted)
    return found


def test_only_the_first_hundred_faults_are_reported(comparisons: list[str]) -> None:
    with pytest.raises(Invalid, match="and 2,900 more") as refused:
        parse(unknown(3000))
    assert len(refused.value.faults) == faults.FAULTS_MAX + 1
    assert len(comparisons) == faults.FAULTS_MAX
    names = {"data": {f"no key {number}": "" for number in range(300)}}
    with pytest.raises(Invalid, match="and 200 more"):
        parse(config_map(1) | names)


def test_all_unknown_fields_are_dropped_but_only_a_hundred_compared(comparisons: list[str]) -> None:
    known, found = pruned(unknown(3000))
    assert known["spec"] == address().document()["spec"]
    assert len(found) == faults.FAULTS_MAX + 1
    assert len(comparisons) == faults.FAULTS_MAX


def test_yaml_alias_is_pruned_at_each_occurrence() -> None:
    ttl = {"minimum": 1, "other": 2}
    document = address().document()
    document["spec"] |= {"messageTtl": ttl, "messageRedelivery": ttl}
    known, found = pruned(document)
    assert known["spec"]["messageTtl"] == {"minimum": 1}
    assert known["spec"]["messageRedelivery"] == {}
    assert len(found) == 3


async def test_body_with_too_many_values_is_refused(
    with_address: Served, comparisons: list[str]
) -> None:
    http = with_address.http
    made = await http.post(ADDRESSES, json=unknown(RESOURCE_VALUES_MAX))
    assert made.status_code == 400
    assert "more than 50,000 values" in made.json()["message"]
    applied = await http.patch(
        PATH,
        content=HEAD + "x: [" + "1," * RESOURCE_VALUES_MAX + "]\n",
        headers=APPLY,
        params={"fieldManager": "t"},
    )
    assert applied.status_code == 400
    assert "more than 50,000 values" in applied.json()["message"]
    assert comparisons == []


@pytest.mark.parametrize("levels", [101, 900, 100_000])
async def test_a_body_that_is_nested_too_deeply_is_refused(
    with_address: Served, levels: int
) -> None:
    http = with_address.http
    answers = [
        await http.post(ADDRESSES, content=nested(levels)),
        await http.patch(PATH, content=nested(levels), headers=MERGE),
        await http.patch(PATH, content=nested(levels), headers=APPLY, params={"fieldManager": "t"}),
    ]
    assert [one.status_code for one in answers] == [400] * 3
    said = [one.json()["message"] for one in answers]
    assert [one for one in said if "nested more than 100 levels" not in one] == []


@pytest.mark.parametrize(
    "more",
    ["spec: &a {x: *a}\n", "x: &a [*a]\n"]  # noqa: RUF005
    + ["a0: &a0 1\n" + "".join(
        f"a{one}: &a{one} {'[' * 60}*a{one - 1}{']' * 60}\n" for one in range(1, 40))],
    ids=["mapping", "list", "chain"],
)  # fmt: skip
async def test_cyclic_and_deeply_nested_yaml_aliases_are_refused(
    with_address: Served, more: str
) -> None:
    applied = await with_address.http.patch(
        PATH, content=HEAD + more, headers=APPLY, params={"fieldManager": "t"}
    )
    posted = await with_address.http.post(
        ADDRESSES, content=HEAD + more, headers={"Content-Type": "application/yaml"}
    )
    for refused in (applied, posted):
        assert refused.status_code == 400
        assert "nested more than 100 levels" in refused.json()["message"]


async def test_patch_result_is_held_to_the_limits_of_a_body(with_address: Served) -> None:
    http = with_address.http
    deep = [{"op": "add", "path": "/spec/a", "value": {}}]
    deep += [{"op": "add", "path": "/spec" + "/a" * level, "value": {}} for level in range(2, 400)]
    copied = [*deep, {"op": "copy", "from": "/spec/a", "path": "/spec/b"}]
    await http.post(MAPS, json=config_map(15_000))
    grown = {"data": {f"more-{number}": "" for number in range(15_000)}}
    apply = await http.patch(
        f"{MAPS}/m",
        json=config_map(0) | grown,
        headers=APPLY,
        params={"fieldManager": "t"},
    )
    answers = [
        await http.patch(PATH, json=deep, headers=JSON),
        await http.patch(PATH, json=copied, headers=JSON),
        await http.patch(f"{MAPS}/m", json=grown, headers=MERGE),
        apply,
    ]
    assert [one.status_code for one in answers] == [422] * 4
    fewer = {"data": {"key-1": None}}
    assert (await http.patch(f"{MAPS}/m", json=fewer, headers=MERGE)).status_code == 200


async def test_largest_reasonable_resources_are_accepted(served: Served) -> None:
    made = await served.http.post(MAPS, json=config_map(10_000))
    assert made.status_code == 201
    back = await served.http.put(f"{MAPS}/m", json=made.json())
    assert back.status_code == 200
    await Admission(served.store, exposed=False).apply([space()])
    patterns = [f"orders/{number}" for number in range(1000)]
    each = [{"addresses": [one], "operations": ["send", "recv"]} for one in patterns]
    user = {
        "metadata": {"name": "default.alice"},
        "spec": {"username": "alice", "authentication": {"type": "federated"}},
    }
    user["spec"]["authorization"] = each  # type: ignore[assignment]
    assert (await served.http.post(USERS, json=user)).status_code == 201


async def test_large_bodies_are_processed_in_a_worker_thread(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = threads_of(monkeypatch, "_read")
    small = config_map(10) | {"metadata": {"name": "small"}}
    assert (await served.http.post(MAPS, json=small)).status_code == 201
    assert read == [threading.current_thread().name]
    read.clear()
    large = config_map(4000)
    assert len(json.dumps(large)) > BYTES_AT_ONCE_MAX
    assert (await served.http.post(MAPS, json=large)).status_code == 201
    change = {"data": {"key-1": "another"}}
    assert (await served.http.patch(f"{MAPS}/m", json=change, headers=MERGE)).status_code == 200
    assert (await served.http.put(f"{MAPS}/m", json=large)).status_code == 200
    assert len(read) == 3
    assert all(name.startswith("large-body") for name in read)


async def test_each_caller_has_one_body_turn_at_a_time() -> None:
    turns, go, running = BodyTurns(), threading.Event(), threading.Semaphore(0)
    order: list[str] = []

    def waits() -> None:
        running.release()
        order.append("first")
        assert go.wait(30)

    first = asyncio.create_task(turns.run("tina", waits))
    assert await asyncio.to_thread(running.acquire, timeout=30)
    second = asyncio.create_task(turns.run("tina", lambda: order.append("second")))
    # A cancelled caller keeps its turn until its work ends, so its next piece does not start.
    first.cancel()
    assert await turns.run("vera", lambda: "other") == "other"
    assert order == ["first"]
    go.set()
    await second
    assert order == ["first", "second"]
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_failed_body_work_raises_in_its_caller() -> None:
    turns = BodyTurns()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await turns.run("tina", fails)
    assert await turns.run("tina", lambda: 1) == 1


def test_protobuf_body_with_too_many_fields_is_refused() -> None:
    type_ = b"\x0a\x02v1\x12\x09Namespace"
    raw = b"\x38\x01" * (RESOURCE_VALUES_MAX + 1)
    length = bytes([len(raw) & 0x7F | 0x80, len(raw) >> 7 & 0x7F | 0x80, len(raw) >> 14])
    body = protobuf.MAGIC + b"\x0a" + bytes([len(type_)]) + type_ + b"\x12" + length + raw
    with pytest.raises(Invalid, match="more than 50,000 values"):
        protobuf.document(body)


@pytest.mark.parametrize("value", ['"\\ud800"', "NaN", "1e999"], ids=["surrogate", "nan", "large"])
async def test_value_not_representable_in_json_is_refused(served: Served, value: str) -> None:
    body = f'{{"metadata": {{"name": "s"}}, "spec": {{"x": {value}}}}}'
    head = {"Content-Type": "application/json"}
    answer = await served.http.post(SERVICES, content=body, headers=head)
    assert answer.status_code == 400 and "it contains" in answer.json()["message"]
    assert (await served.http.get(SERVICES)).json()["items"] == []


async def test_patch_cannot_grow_a_resource_beyond_its_size_limit(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "RESOURCE_BYTES_MAX", 2500)
    await served.http.post(SERVICES, json={"metadata": {"name": "s"}, "spec": {}})
    said = []
    for number in range(3):
        patch = {"spec": {f"k{number}": "x" * 900}}
        answer = await served.http.patch(f"{SERVICES}/s", json=patch, headers=MERGE)
        said.append(answer.status_code)
    assert said == [200, 200, 422]
