"""A full quota, as clients of the API see it."""

import asyncio

from asgi_platform import ADDRESSES, SPACES, Served
from doubles import address_plan, infra, queue, space, space_plan
from enmasse.control import Admission

LARGE = address_plan("large", "queue", router=0.01, broker=1)


def an_order(name: str) -> dict[str, object]:
    document = queue(f"default.{name}", plan="large").document()
    del document["status"]
    return document


async def full(served: Served) -> Served:
    """A space whose quota has room for two queues."""
    admission = Admission(served.store, exposed=False)
    await admission.apply([infra(), LARGE, space_plan("p", [LARGE], (1, 2, 3)), space(plan="p")])
    return served


async def test_create_beyond_the_quota_is_forbidden(served: Served) -> None:
    http = (await full(served)).http
    for name in ("a", "b"):
        assert (await http.post(ADDRESSES, json=an_order(name))).status_code == 201
    answer = await http.post(ADDRESSES, json=an_order("c"))
    assert answer.status_code == 403
    status = answer.json()
    assert status["reason"] == "Forbidden"
    assert "is forbidden: spec.plan: exceeded quota" in status["message"]
    assert "broker 3 of 2, aggregate 4 of 3" in status["message"]
    assert "delete addresses, choose a smaller plan" in status["message"]
    assert status["details"]["name"] == "default.c"
    assert status["details"]["kind"] == "addresses"
    (cause,) = status["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("QuotaExceeded", "spec.plan")


async def test_dry_run_checks_the_quota_without_using_it(served: Served) -> None:
    http = (await full(served)).http
    for _ in range(3):
        tried = await http.post(ADDRESSES, json=an_order("a"), params={"dryRun": "All"})
        assert tried.status_code == 201
    for name in ("a", "b"):
        await http.post(ADDRESSES, json=an_order(name))
    tried = await http.post(ADDRESSES, json=an_order("c"), params={"dryRun": "All"})
    assert tried.status_code == 403


async def test_concurrent_creates_do_not_exceed_the_quota(served: Served) -> None:
    http = (await full(served)).http
    answers = await asyncio.gather(
        *(http.post(ADDRESSES, json=an_order(f"q{n}")) for n in range(10))
    )
    assert sorted(one.status_code for one in answers) == [201] * 2 + [403] * 8
    assert len(served.store.list("Address")) == 2


async def test_smaller_space_plan_is_forbidden_while_usage_exceeds_it(
    served: Served,
) -> None:
    http = (await full(served)).http
    small = space_plan("small", [LARGE], (1, 1, 2))
    await Admission(served.store, exposed=False).apply([small])
    for name in ("a", "b"):
        await http.post(ADDRESSES, json=an_order(name))
    merge = {"Content-Type": "application/merge-patch+json"}
    path = f"{SPACES}/default"
    answer = await http.patch(path, json={"spec": {"plan": "small"}}, headers=merge)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    await http.delete(f"{ADDRESSES}/default.a")
    answer = await http.patch(path, json={"spec": {"plan": "small"}}, headers=merge)
    assert answer.status_code == 200
