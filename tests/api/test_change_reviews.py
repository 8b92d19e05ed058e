"""What a change of an operator's resource would change, over the API and the command line."""

import json
from pathlib import Path

import pytest

from asgi_platform import ADDRESSES, SPACES, Served, bearer, body
from cli_platform import Obeying
from doubles import address_plan, infra, queue, space, space_plan

PATH = "/apis/enmasse.io/v1beta1/changereviews"
SMALL = address_plan("small", "queue", broker=0.1)
PLANS = "/apis/admin.enmasse.io/v1beta2/namespaces/default"


async def declared(served: Served) -> None:
    posts = [
        (f"{PLANS}/addressplans", SMALL),
        ("/apis/admin.enmasse.io/v1beta1/namespaces/default/standardinfraconfigs", infra()),
        (f"{PLANS}/addressspaceplans", space_plan("p", [SMALL])),
        (SPACES, space(plan="p")),
    ]
    for path, resource in posts:
        answer = await served.http.post(path, json=body(resource))
        assert answer.status_code == 201, answer.text
    made = body(queue())
    made["spec"]["plan"] = "small"
    assert (await served.http.post(ADDRESSES, json=made)).status_code == 201


async def test_addresses_and_changes_are_listed_and_nothing_changes(served: Served) -> None:
    await declared(served)
    changed = body(address_plan("small", "queue", broker=0.1, messageTtl={"maximum": 5000}))
    answer = await served.http.post(PATH, json=changed)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert document["addressSpaces"] == {"total": 0, "items": []}
    assert document["addresses"] == {
        "total": 1,
        "items": [
            {
                "namespace": "default",
                "resource": "default.orders",
                "name": "orders",
                "changes": [{"field": "ttl.maximumMs", "before": None, "after": 5000}],
            }
        ],
    }
    kept = (await served.http.get(f"{PLANS}/addressplans/small")).json()
    assert "messageTtl" not in kept["spec"]


async def test_what_the_write_would_refuse_is_refused(served: Served) -> None:
    await declared(served)
    changed = body(space_plan("p", [SMALL])) | {"spec": {"addressSpaceType": "other"}}
    answer = await served.http.post(PATH, json=changed)
    assert answer.status_code == 422
    assert (await served.http.post(PATH, json=body(queue()))).json()["details"]["causes"][0][
        "field"
    ] == "kind"


@pytest.mark.parametrize(
    ("role", "status"), [("service_admin", 200), ("tenant_edit", 403), ("tenant_view", 403)]
)
async def test_only_operators_may_ask(served: Served, role: str, status: int) -> None:
    await declared(served)
    async with await bearer(served, "one.x", **{role: "*"}) as client:
        answer = await client.post(PATH, json=body(address_plan("new", "queue", broker=1.0)))
        assert answer.status_code == status, answer.text


def test_the_command_prints_the_impact(tmp_path: Path) -> None:
    small = queue().model_copy(update={"spec": queue().spec.model_copy(update={"plan": "small"})})
    resources = [SMALL, infra(), space_plan("p", [SMALL]), space(plan="p"), small]
    file = tmp_path / "plan.json"
    changed = address_plan("small", "queue", broker=0.1, messageTtl={"maximum": 5000})
    file.write_text(json.dumps(changed.document()))
    with Obeying.running(tmp_path, resources) as platform:
        answer = platform.enmasse("plan", "impact", "-f", str(file))
        assert answer.exit_code == 0, answer.output
        assert "AddressPlan small would change 0 address spaces and 1 addresses" in answer.stdout
        assert "ttl.maximumMs" in answer.stdout and "5000" in answer.stdout
