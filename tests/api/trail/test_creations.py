"""Addresses created for links are audited like requests to the API."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from doubles import TestClock
from enmasse.api.trail.audit import REFUSED_A_SECOND
from enmasse.api.trail.creations import CreationTrail
from enmasse.base.errors import Code, Exhausted, Fault
from enmasse.base.rotated import RotatedFile
from enmasse.control.auto_create import AutoCreateRecord
from enmasse.resources import Key

KEY = Key("Address", "shop", "default.jobs-1")


def written(folder: Path, *deeds: AutoCreateRecord) -> list[dict[str, Any]]:
    file = RotatedFile(folder / "audit.log", file_bytes_max=1 << 20, files=1)
    trail = CreationTrail(file, TestClock(datetime(2026, 11, 1, tzinfo=UTC)))
    for deed in deeds:
        trail.write(deed)
    file.close()
    return [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]


def test_automatic_creation_is_audited_with_the_user_it_acts_for(tmp_path: Path) -> None:
    made, gone = written(
        tmp_path,
        AutoCreateRecord("create", KEY, "alice"),
        AutoCreateRecord("delete", KEY, "system:enmasse"),
    )
    assert made == {
        **{"time": "2026-11-01T00:00:00Z", "who": "alice", "verb": "create", "namespace": "shop"},
        **{"resource": "addresses", "name": "default.jobs-1", "group": "enmasse.io/v1beta1"},
        **{"agent": "autoCreate", "decision": "allowed", "status": 201},
    }
    assert (gone["who"], gone["verb"], gone["status"]) == ("system:enmasse", "delete", 200)


def test_refused_automatic_creation_is_audited_at_a_bounded_rate(tmp_path: Path) -> None:
    error = Exhausted(Code.QUOTA_EXCEEDED, "no room", faults=[Fault("spec.plan", "no room")])
    refused = written(
        tmp_path, *[AutoCreateRecord("create", KEY, None, error)] * (REFUSED_A_SECOND + 5)
    )
    assert len(refused) == REFUSED_A_SECOND
    assert refused[0]["who"] == "system:anonymous"
    assert (refused[0]["decision"], refused[0]["status"]) == ("refused", 403)
    assert (refused[0]["code"], refused[0]["fields"]) == ("E5002", ["spec.plan"])
