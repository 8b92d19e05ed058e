"""What the process that runs a pipeline reports of itself."""

import pytest

from asgi_platform import Served, bearer
from enmasse.api.pipeline_reports import REPORT_BYTES_MAX, VALID_S

PIPELINES = "/apis/enmasse.io/v1beta1/namespaces/default/pipelines"
REPORT = f"{PIPELINES}/plant/report"
STATE = {"pipeline": "plant", "running": True, "sources": []}
PLANT = {
    "apiVersion": "enmasse.io/v1beta1",
    "kind": "Pipeline",
    "metadata": {"name": "plant", "namespace": "default"},
    "spec": {
        "sources": [
            {
                "name": "s",
                "url": "amqp://127.0.0.1",
                "address": "readings",
                "format": "json",
                "device": "$.device",
                "value": "$.value",
            }
        ],
    },
}


@pytest.fixture(autouse=True)
async def declared(served: Served) -> None:
    answer = await served.http.post(PIPELINES, json=PLANT)
    assert answer.status_code == 201, answer.text


async def test_the_latest_report_is_shown_until_it_is_old(served: Served) -> None:
    assert (await served.http.get(REPORT)).status_code == 404
    assert (await served.http.put(REPORT, json=STATE)).status_code == 200
    found = (await served.http.get(REPORT)).json()
    assert (found["kind"], found["report"]) == ("PipelineReport", STATE)
    served.clock.advance(VALID_S + 1)
    gone = await served.http.get(REPORT)
    assert gone.status_code == 404
    assert "enmasse pipeline run --report default" in gone.json()["message"]


async def test_a_report_beyond_its_bound_is_refused_and_the_former_one_stays(
    served: Served,
) -> None:
    assert (await served.http.put(REPORT, json=STATE)).status_code == 200
    refused = await served.http.put(REPORT, json=STATE | {"more": "x" * REPORT_BYTES_MAX})
    assert (refused.status_code, refused.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert (await served.http.get(REPORT)).json()["report"] == STATE


async def test_a_report_needs_its_pipeline_and_an_editor(served: Served) -> None:
    other = REPORT.replace("plant", "none")
    assert (await served.http.put(other, json=STATE)).status_code == 404
    for role, writes, reads in (
        ("tenant_edit", 200, 200),
        ("tenant_view", 403, 200),
        ("metrics", 403, 403),
    ):
        async with await bearer(served, f"{role.replace('_', '-')}.x", **{role: "*"}) as client:
            assert (await client.put(REPORT, json=STATE)).status_code == writes, role
            assert (await client.get(REPORT)).status_code == reads, role


async def test_the_overview_does_not_count_a_pipeline_as_not_ready(served: Served) -> None:
    await served.settle()
    shown = (await served.http.get(f"{PIPELINES}/plant")).json()
    assert not shown["status"]["isReady"]
    overview = "/apis/enmasse.io/v1beta1/namespaces/default/overview"
    assert (await served.http.get(overview)).json()["notReady"] == []


async def test_the_overview_names_a_pipeline_whose_deletion_waits(served: Served) -> None:
    patch = {"metadata": {"finalizers": ["example.com/keep"]}}
    kind = {"content-type": "application/merge-patch+json"}
    answer = await served.http.patch(f"{PIPELINES}/plant", json=patch, headers=kind)
    assert answer.status_code == 200, answer.text
    await served.http.delete(f"{PIPELINES}/plant")
    await served.settle()
    overview = "/apis/enmasse.io/v1beta1/namespaces/default/overview"
    served.clock.advance(10)
    (found,) = (await served.http.get(overview)).json()["notReady"]
    assert (found["kind"], found["name"], found["phase"]) == ("Pipeline", "plant", "Terminating")
