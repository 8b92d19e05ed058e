"""Managed fields and server-side apply."""

from collections.abc import Iterator
from typing import Any

import pytest

from asgi_platform import ADDRESSES, USERS, Served
from doubles import address, space, user
from enmasse.api.resources import field_managers
from enmasse.api.resources.field_managers import (
    ANCIENT,
    APPLY,
    CONFLICTS_NAMED_MAX,
    SHARED_PATHS_MAX,
    UPDATE,
    UPDATE_MANAGERS_MAX,
    Entry,
    Writer,
    applied,
    entries_of,
    managed_fields,
    updated,
)
from enmasse.base.errors import Code, Conflict, Invalid
from enmasse.control import Admission

PATH = f"{ADDRESSES}/default.orders"
YAML = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
V = "enmasse.io/v1beta1"


def writer(name: str, time: str = "t1", unseen: tuple[str, ...] = ()) -> Writer:
    return Writer(name, V, time, unseen)


def doc(**spec: Any) -> dict[str, Any]:
    return {"kind": "Address", "metadata": {"name": "a", "uid": "u"}, "spec": spec}


def owners(entries: list[Entry]) -> dict[tuple[str, str], set[str]]:
    return {one.identity: {".".join(path) for path in one.paths} for one in entries}


def same(document: dict[str, Any]) -> dict[str, Any]:
    return document


def test_creator_manages_every_field_of_a_resource() -> None:
    entries = updated([], None, doc(type="queue", limits={"messages": 1}), writer("a"))
    assert owners(entries) == {("a", UPDATE): {"spec.type", "spec.limits.messages"}}


def test_update_of_a_field_makes_its_writer_the_only_manager() -> None:
    before = doc(type="queue", plan="small")
    entries = updated([], None, before, writer("a"))
    after = doc(type="queue", plan="large", topic="x")
    entries = updated(entries, before, after, writer("b", "t2"))
    assert owners(entries) == {
        ("a", UPDATE): {"spec.type"},
        ("b", UPDATE): {"spec.plan", "spec.topic"},
    }
    assert updated(entries, after, after, writer("b", "t3")) == entries
    gone = updated(entries, after, doc(type="queue"), writer("c", "t4"))
    assert owners(gone) == {("a", UPDATE): {"spec.type"}}


def test_secret_fields_have_no_managed_field_entry() -> None:
    secret = writer("a", unseen=("spec.password",))
    assert owners(updated([], None, doc(password="p", type="x"), secret)) == {
        ("a", UPDATE): {"spec.type"}
    }
    merged, entries = applied([], None, doc(password="p", type="x"), secret, same, force=False)
    assert merged["spec"]["password"] == "p"
    assert owners(entries) == {("a", APPLY): {"spec.type"}}


def test_oldest_update_managers_are_merged_into_one() -> None:
    entries: list[Entry] = []
    before = doc()
    for number in range(UPDATE_MANAGERS_MAX + 2):
        after = doc(**before["spec"], **{f"f{number}": 1})
        entries = updated(entries, before, after, writer(f"m{number:02}", f"t{number:02}"))
        before = after
    assert len(entries) == UPDATE_MANAGERS_MAX
    assert owners(entries)[ANCIENT, UPDATE] == {"spec.f0", "spec.f1", "spec.f2"}


def test_omitted_field_is_removed_unless_another_manager_applies_it() -> None:
    first = doc(type="queue", plan="small", limits={"messages": 1, "bytes": 2})
    live, entries = applied([], None, first, writer("a"), same, force=False)
    live, entries = applied(entries, live, doc(limits={"bytes": 2}), writer("b"), same, force=False)
    live, entries = applied(entries, live, doc(type="queue"), writer("a"), same, force=False)
    assert live["spec"] == {"type": "queue", "limits": {"bytes": 2}}
    live, entries = applied(entries, live, doc(type="queue"), writer("b"), same, force=False)
    assert live["spec"] == {"type": "queue"}
    assert owners(entries) == {("a", APPLY): {"spec.type"}, ("b", APPLY): {"spec.type"}}


def test_repeated_apply_changes_nothing() -> None:
    live, entries = applied([], None, doc(type="x"), writer("a"), same, force=False)
    live, entries = applied(entries, live, doc(type="x"), writer("b"), same, force=False)
    again = applied(entries, live, doc(type="x"), writer("a", "t9"), same, force=False)
    assert again == (live, entries)


def test_apply_of_a_foreign_field_conflicts_unless_forced() -> None:
    live, entries = applied([], None, doc(type="x", plan="a"), writer("a"), same, force=False)
    wanted = doc(type="x", plan="b")
    with pytest.raises(Conflict) as refusal:
        applied(entries, live, wanted, writer("b"), same, force=False)
    assert refusal.value.code == Code.FIELD_OWNED
    assert [(fault.field, fault.message) for fault in refusal.value.faults] == [
        (".spec.plan", 'conflict with "a"')
    ]
    live, entries = applied(entries, live, wanted, writer("b"), same, force=True)
    assert live["spec"]["plan"] == "b"
    assert owners(entries) == {
        ("a", APPLY): {"spec.type"},
        ("b", APPLY): {"spec.type", "spec.plan"},
    }


def test_equivalent_value_in_another_notation_does_not_conflict() -> None:
    def read(document: dict[str, Any]) -> dict[str, Any]:
        return document | {"spec": {name: int(one) for name, one in document["spec"].items()}}

    live, entries = applied([], None, doc(ttl=60), writer("a"), read, force=False)
    _, entries = applied(entries, live, doc(ttl="60"), writer("b"), read, force=False)
    assert len(entries) == 2


def test_apply_cost_is_linear_in_the_number_of_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = 0
    down_to = field_managers._down_to

    def counted(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        nonlocal steps
        steps += 1
        return down_to(path)

    monkeypatch.setattr(field_managers, "_down_to", counted)
    many = {f"note{number}": "a" for number in range(2_000)}
    _, entries = applied([], None, doc(notes=many), writer("a"), same, force=False)
    before = doc(notes=many)
    now = doc(notes=dict.fromkeys(many, "b"))
    with pytest.raises(Conflict, match="2000 conflicts") as refusal:
        applied(entries, before, now, writer("b"), same, force=False)
    assert len(refusal.value.faults) == CONFLICTS_NAMED_MAX
    merged, entries = applied(entries, before, now, writer("b"), same, force=True)
    assert merged == now
    assert owners(entries) == {("b", APPLY): {f"spec.notes.{name}" for name in many}}
    merged, _ = applied(entries, now, doc(kept="c"), writer("b"), same, force=False)
    assert merged["spec"] == {"kept": "c"}
    assert 0 < steps < 100 * len(many)


def test_managed_fields_have_the_kubernetes_format() -> None:
    entries = updated([], None, doc(limits={"bytes": 1}, type="x"), writer("a"))
    (written,) = managed_fields(entries)
    assert written == {
        "manager": "a",
        "operation": "Update",
        "apiVersion": V,
        "time": "t1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:limits": {"f:bytes": {}}, "f:type": {}}},
    }
    assert entries_of([written, {}, written | {"subresource": "status"}]) == entries


@pytest.mark.parametrize("bad", [{}, [3], [{"operation": "Guess"}], [{"fieldsV1": 3}]])
def test_malformed_managed_fields_are_refused(bad: Any) -> None:
    with pytest.raises(Invalid, match=r"metadata\.managedFields"):
        entries_of(bad)


def test_managed_set_elements_count_as_their_list() -> None:
    fields = {"f:metadata": {"f:finalizers": {".": {}, 'v:"a"': {}}}}
    (entry,) = entries_of([{"manager": "a", "operation": UPDATE, "fieldsV1": fields}])
    assert entry.paths == {("metadata", "finalizers")}


@pytest.fixture
async def with_space(served: Served) -> Served:
    await Admission(served.store, exposed=False).apply([space()])
    return served


async def apply(served: Served, body: Any, path: str = PATH, **parameters: str) -> Any:
    parameters.setdefault("fieldManager", "tool")
    return await served.http.patch(path, json=body, headers=YAML, params=parameters)


def config(**spec: Any) -> dict[str, Any]:
    document: dict[str, Any] = address().document()
    return {
        "apiVersion": V,
        "kind": "Address",
        "metadata": {"name": "default.orders"},
        "spec": document["spec"] | spec,
    }


async def test_apply_creates_and_updates_a_resource(with_space: Served) -> None:
    made = await apply(with_space, config(plan="small"))
    assert made.status_code == 201
    version = made.json()["metadata"]["resourceVersion"]
    same_again = await apply(with_space, config(plan="small"))
    assert (same_again.status_code, same_again.json()["metadata"]["resourceVersion"]) == (
        200, version,
    )  # fmt: skip
    less = await apply(with_space, config())
    assert "plan" not in less.json()["spec"]
    dry = await apply(with_space, config(plan="x"), dryRun="All")
    assert dry.json()["spec"]["plan"] == "x"
    assert "plan" not in (await with_space.http.get(PATH)).json()["spec"]


async def test_apply_accepts_partial_yaml(with_space: Served) -> None:
    await apply(with_space, config())
    text = (
        f"apiVersion: {V}\nkind: Address\nmetadata:\n  name: default.orders\n  labels: {{a: b}}\n"
    )
    parameters = {"fieldManager": "other"}
    answer = await with_space.http.patch(PATH, content=text, headers=YAML, params=parameters)
    assert answer.json()["metadata"]["labels"] == {"a": "b"}
    assert answer.json()["spec"]["address"] == "orders"


async def test_apply_conflict_names_manager_and_field(with_space: Served) -> None:
    await apply(with_space, config(plan="small"))
    patch = {"spec": {"plan": "large"}}
    by_hand = {"fieldManager": "hand"}
    await with_space.http.patch(PATH, json=patch, headers=MERGE, params=by_hand)
    refused = await apply(with_space, config(plan="small"))
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert refused.json()["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "field": ".spec.plan", "message": 'conflict with "hand"'}
    ]
    forced = await apply(with_space, config(plan="small"), force="true")
    assert forced.json()["spec"]["plan"] == "small"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"kind": "AddressSpace"}, 422),
        ({"apiVersion": "v1"}, 422),
        ({"metadata": {"name": "default.other"}}, 422),
        ({"metadata": {"managedFields": [{"manager": "x"}]}}, 422),
        ({"metadata": {"name": "default.orders", "resourceVersion": "1"}}, 409),
        ({"spec": {"type": "queue"}}, 422),
    ],
)
async def test_invalid_apply_is_refused(
    with_space: Served, change: dict[str, Any], status: int
) -> None:
    await apply(with_space, config())
    fresh = change.get("spec") is not None
    path = f"{ADDRESSES}/default.new" if fresh else PATH
    body = config() | change
    if fresh:
        body["metadata"] = {"name": "default.new"}
    assert (await apply(with_space, body, path)).status_code == status


async def test_apply_requires_a_field_manager_and_one_object(with_space: Served) -> None:
    answer = await with_space.http.patch(PATH, json=config(), headers=YAML)
    assert answer.json()["details"]["causes"][0]["field"] == "fieldManager"
    for text in ("", "a: b\n---\nc: d", "- a", "{"):
        parameters = {"fieldManager": "tool"}
        bad = await with_space.http.patch(PATH, content=text, headers=YAML, params=parameters)
        assert bad.status_code == 400


async def test_unknown_fields_of_an_apply_are_not_managed(with_space: Served) -> None:
    made = await apply(with_space, config(colour="red"))
    assert made.status_code == 201
    assert "colour" not in made.text
    strict = await apply(with_space, config(colour="red"), fieldValidation="Strict")
    assert strict.status_code == 422


async def test_password_is_not_among_managed_fields(with_space: Served) -> None:
    document = user().document()
    body = {"apiVersion": V, "kind": "MessagingUser"} | {
        name: document[name] for name in ("metadata", "spec")
    }
    path = f"{USERS}/default.alice"
    for _ in range(2):
        assert (await apply(with_space, body, path)).is_success
    shown = (await with_space.http.get(path)).text
    assert '"f:username"' in shown
    assert "f:password" not in shown
    assert "cGVuY2ls" not in shown


async def test_client_may_rewrite_managed_fields(with_space: Served) -> None:
    await with_space.http.post(ADDRESSES, json=config(plan="small"), params={"fieldManager": "a"})
    live = (await with_space.http.get(PATH)).json()
    (entry,) = live["metadata"]["managedFields"]
    operations = [
        {"op": "replace", "path": "/metadata/managedFields",
         "value": [entry | {"manager": "tool", "operation": "Apply"}]},
        {"op": "replace", "path": "/metadata/resourceVersion",
         "value": live["metadata"]["resourceVersion"]},
    ]  # fmt: skip
    json_patch = {"Content-Type": "application/json-patch+json"}
    moved = await with_space.http.patch(PATH, json=operations, headers=json_patch)
    assert [one["manager"] for one in moved.json()["metadata"]["managedFields"]] == ["tool"]
    assert "plan" not in (await apply(with_space, config())).json()["spec"]


def test_equal_managed_fields_share_one_object_unless_large() -> None:
    for paths, shared in ((SHARED_PATHS_MAX, True), (SHARED_PATHS_MAX + 1, False)):
        fields = {f"f{number}": number for number in range(paths)}
        one, other = (
            managed_fields(updated([], None, {"spec": dict(fields)}, writer("a"))) for _ in range(2)
        )
        assert one == other
        assert (one is other) is shared
