"""Pipelines: the declared ones, and what their processes report."""

import pytest
from playwright.sync_api import expect

from console.conftest import Console, api_client, put_space

pytestmark = pytest.mark.timeout(300)

STATE = {
    "running": True,
    "tables": "/data/tables",
    "devices": 12,
    "online": 11,
    "openIncidents": 2,
    "incidents": {"hot": 5},
    "alerts": {"sent": 4, "waiting": 1, "rejected": 0},
    "gold": {"versionsBehind": 3, "lagSeconds": 1.5, "trouble": None},
    "refusingAddresses": {},
    "sources": [
        {
            "source": "machines",
            "messages": 1234,
            "readings": 5678,
            "quarantined": 9,
            "lagMessages": 77,
            "lagSeconds": 2.5,
            "written": {"silver": 5678},
            "trouble": {"message": "the server refused <b>the login</b>"},
        }
    ],
}
PLANT = {
    "apiVersion": "enmasse.io/v1beta1",
    "kind": "Pipeline",
    "metadata": {"name": "plant", "namespace": "factory"},
    "spec": {
        "sources": [
            {
                "name": "machines",
                "url": "amqp://127.0.0.1",
                "address": "readings",
                "format": "json",
                "device": "$.device",
                "value": "$.value",
            }
        ]
    },
}


def test_a_pipeline_shows_the_reported_state(console: Console) -> None:
    put_space(console.platform, "factory")
    path = "/apis/enmasse.io/v1beta1/namespaces/factory/pipelines"
    with api_client(console.platform) as api:
        assert api.post(path, json=PLANT).status_code == 201
        page = console.open("/pipelines/factory/plant")
        expect(page.get_by_text("No running process reports.")).to_be_visible()
        assert api.put(f"{path}/plant/report", json=STATE).status_code == 200
    row = page.get_by_role("row").filter(has_text="machines").filter(has_text="1,234")
    expect(row).to_be_visible()
    expect(row).to_contain_text("77")
    expect(page.get_by_text("12, 11 online")).to_be_visible()
    expect(page.get_by_text("the server refused <b>the login</b>")).to_be_visible()
    console.open("/pipelines")
    listed = page.get_by_role("row").filter(has_text="plant")
    expect(listed.get_by_text("Failing")).to_be_visible()
