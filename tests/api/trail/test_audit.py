"""The audit trail: the parts of a request that it records, and those that it never records."""

import json
from typing import Any

from asgi_platform import ADDRESSES, SPACES, USERS, Served
from doubles import address, deadletter, queue, space, user
from enmasse.api.trail.audit import PATH, REFUSED_A_SECOND
from enmasse.base.rotated import RotatedFile
from enmasse.resources.model import NAME_LENGTH_MAX
from tokens import token_secret

SECRETS = "/api/v1/namespaces/default/secrets"
MERGE = {"Content-Type": "application/merge-patch+json"}


def written(trail: RotatedFile) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trail.last(1000)]


def body(resource: Any) -> dict[str, Any]:
    document: dict[str, Any] = resource.document()
    del document["status"]
    return document


async def test_mutating_requests_are_audited(served: Served, trail: RotatedFile) -> None:
    await served.http.post(SPACES, json=body(space()))
    await served.http.post(ADDRESSES, json=body(address()))
    change = {"metadata": {"labels": {"team": "north"}}}
    await served.http.patch(f"{ADDRESSES}/default.orders", json=change, headers=MERGE)
    await served.http.delete(f"{ADDRESSES}/default.orders", params={"dryRun": "All"})
    await served.http.delete(ADDRESSES)
    records = written(trail)
    assert [(one["verb"], one["resource"], one.get("name")) for one in records] == [
        ("create", "addressspaces", "default"),
        ("create", "addresses", "default.orders"),
        ("patch", "addresses", "default.orders"),
        ("delete", "addresses", "default.orders"),
        ("deletecollection", "addresses", None),
    ]
    assert {one["decision"] for one in records} == {"allowed"}
    assert {one["who"] for one in records} == {"enmasse:token"}
    assert records[1] == {
        "time": "2026-01-01T00:00:00Z",
        "who": "enmasse:token",
        "from": "127.0.0.1",
        "verb": "create",
        "path": ADDRESSES,
        "namespace": "default",
        "resource": "addresses",
        "group": "enmasse.io/v1beta1",
        "agent": records[1]["agent"],
        "name": "default.orders",
        "decision": "allowed",
        "status": 201,
    }
    assert [one.get("dryRun") for one in records] == [None, None, None, True, None]


async def test_refused_request_is_audited_with_its_reason(
    served: Served, trail: RotatedFile
) -> None:
    await served.http.post(SPACES, json=body(space()))
    await served.http.post(ADDRESSES, json=body(queue(deadletter="none")))
    refusal = written(trail)[-1]
    assert (refusal["decision"], refusal["status"]) == ("refused", 422)
    assert (refusal["code"], refusal["reason"]) == ("E1012", "Invalid")
    assert refusal["fields"] == ["spec.deadletter"]
    assert refusal["name"] == "default.orders"


async def test_only_reads_of_confidential_resources_are_audited(
    served: Served, trail: RotatedFile
) -> None:
    await served.http.get(ADDRESSES)
    await served.http.get(f"{ADDRESSES}/none")
    await served.http.get("/healthz")
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "addresses"}}}
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await served.http.post(reviews, json=review)).status_code == 201
    assert written(trail) == []
    await served.http.get(SECRETS)
    await served.http.get("/apis/enmasse.io/v1beta1/logs", params={"tail": "1"})
    await served.http.get(PATH)
    assert [(one["verb"], one["resource"]) for one in written(trail)] == [
        ("list", "secrets"),
        ("list", "logs"),
        ("list", "audit"),
    ]


async def test_message_operations_are_audited(served: Served, trail: RotatedFile) -> None:
    await served.http.post(SPACES, json=body(space()))
    await served.http.post(ADDRESSES, json=body(deadletter()))
    await served.settle()
    await served.http.post(f"{ADDRESSES}/default.dead/peek", json={})
    peeked = written(trail)[-1]
    assert (peeked["resource"], peeked["name"], peeked["subresource"]) == (
        "addresses", "default.dead", "peek",
    )  # fmt: skip
    assert (peeked["decision"], peeked["status"]) == ("failed", 501)


async def test_audit_records_contain_no_secrets(served: Served, trail: RotatedFile) -> None:
    await served.http.post(SPACES, json=body(space()))
    await served.http.post(USERS, json=body(user(password="tumble-down")))
    bad = body(user("default.bob"))
    bad["spec"]["authentication"]["password"] = "tumble-down"
    assert (await served.http.post(USERS, json=bad)).status_code == 422
    secret = {"metadata": {"name": "s"}, "stringData": {"key": "tumble-down"}}
    await served.http.post(SECRETS, json=secret)
    await served.http.put(f"{SECRETS}/s", json=secret | {"data": {"key": "!tumble-down"}})
    text = "\n".join(trail.last(1000))
    assert len(trail.last(1000)) == 5
    for hidden in ("tumble-down", "dHVtYmxlLWRvd24", "the-token", "storedKey"):
        assert hidden not in text


async def test_unauthenticated_requests_are_audited_at_a_bounded_rate(
    served: Served, trail: RotatedFile
) -> None:
    client = served.client()
    for _ in range(100):
        assert (await client.delete(f"{ADDRESSES}/default.orders")).status_code == 401
    refusals = written(trail)
    assert len(refusals) == REFUSED_A_SECOND
    assert {(one["who"], one["decision"], one["code"]) for one in refusals} == {
        ("system:anonymous", "refused", "E2001")
    }
    await served.http.post(SPACES, json=body(space()))
    assert written(trail)[-1]["unwritten"] == 90
    served.clock.advance(1.0)
    await client.get(SPACES)
    assert len(written(trail)) == REFUSED_A_SECOND + 2


async def test_refusals_of_one_token_do_not_suppress_records_of_others(
    served: Served, trail: RotatedFile
) -> None:
    client = served.client()
    for name in ("tina", "vera"):
        await served.store.put([token_secret(f"{name}.x", tenant_edit="hers")])
    for _ in range(100):
        refused = await client.get(ADDRESSES, headers={"Authorization": "Bearer tina.x"})
        assert refused.status_code == 403
        missing = f"{ADDRESSES.replace('default', 'hers')}/a"
        await client.delete(missing, headers={"Authorization": "Bearer tina.x"})
    assert [one["who"] for one in written(trail)] == ["tina"] * REFUSED_A_SECOND
    await client.get(ADDRESSES, headers={"Authorization": "Bearer vera.x"})
    await client.get(ADDRESSES)
    assert [one["who"] for one in written(trail)][-2:] == ["vera", "system:anonymous"]
    assert written(trail)[-2]["unwritten"] == 200 - REFUSED_A_SECOND
    for name in ("a", "b"):
        await served.http.post(SPACES, json=body(space(name)))
    served.clock.advance(1.0)
    await client.get(ADDRESSES, headers={"Authorization": "Bearer tina.x"})
    last = written(trail)[-3:]
    assert [(one["who"], one["decision"]) for one in last] == [
        ("enmasse:token", "allowed"),
        ("enmasse:token", "allowed"),
        ("tina", "refused"),
    ]


async def test_long_paths_names_and_agents_are_truncated_in_the_audit_trail(
    served: Served, trail: RotatedFile
) -> None:
    await served.http.delete(f"{ADDRESSES}/{'x' * 5000}", headers={"User-Agent": "y" * 5000})
    (record,) = written(trail)
    assert [len(record[field]) for field in ("path", "name", "agent")] == [NAME_LENGTH_MAX] * 3
    assert record["path"] == f"{ADDRESSES}/{'x' * 5000}"[:NAME_LENGTH_MAX]


async def test_long_name_in_a_refused_body_is_truncated(served: Served, trail: RotatedFile) -> None:
    long = {"metadata": {"name": "x" * 5000}, "spec": {"address": "orders", "type": "anycast"}}
    assert (await served.http.post(ADDRESSES, json=long)).status_code == 422
    (record,) = written(trail)
    assert record["name"] == "x" * NAME_LENGTH_MAX


async def test_request_succeeds_when_the_audit_trail_is_not_writable(
    served: Served, trail: RotatedFile
) -> None:
    trail.close()
    trail._path.mkdir()
    assert (await served.http.post(SPACES, json=body(space()))).status_code == 201


async def test_audit_trail_is_readable_over_the_api(served: Served, trail: RotatedFile) -> None:
    for name in ("a", "b", "c"):
        await served.http.post(SPACES, json=body(space(name)))
    answer = await served.http.get(PATH, params={"tail": "2"})
    assert [json.loads(line)["name"] for line in answer.text.splitlines()] == ["b", "c"]
