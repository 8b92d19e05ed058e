"""What is created for links is in the audit trail, as if they had asked the API."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from doubles import TestClock
from enmasse.api.trail.audit import REFUSED_A_SECOND
from enmasse.api.trail.creations import CreationTrail
from enmasse.base.errors import Code, Exhausted, Fault
from enmasse.base.rotated import RotatedFile
from enmasse.control.auto_create import Deed
from enmasse.resources import Key

KEY = Key("Address", "shop", "default.jobs-1")


def written(folder: Path, *deeds: Deed) -> list[dict[str, Any]]:
    file = RotatedFile(folder / "audit.log", file_bytes_max=1 << 20, files=1)
    trail = CreationTrail(file, TestClock(datetime(2026, 11, 1, tzinfo=UTC)))
    for deed in deeds:
        trail.tell(deed)
    file.close()
    return [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]


def test_a_deed_is_written_with_the_user_it_was_done_for(tmp_path: Path) -> None:
    made, gone = written(
        tmp_path, Deed("create", KEY, "alice"), Deed("delete", KEY, "system:enmasse")
    )
    assert made == {
        **{"time": "2026-11-01T00:00:00Z", "who": "alice", "verb": "create", "namespace": "shop"},
        **{"resource": "addresses", "name": "default.jobs-1", "group": "enmasse.io/v1beta1"},
        **{"agent": "autoCreate", "decision": "allowed", "status": 201},
    }
    assert (gone["who"], gone["verb"], gone["status"]) == ("system:enmasse", "delete", 200)


def test_refusals_are_written_with_their_reason_and_bounded(tmp_path: Path) -> None:
    error = Exhausted(Code.QUOTA_EXCEEDED, "no room", faults=[Fault("spec.plan", "no room")])
    refused = written(tmp_path, *[Deed("create", KEY, None, error)] * (REFUSED_A_SECOND + 5))
    assert len(refused) == REFUSED_A_SECOND
    assert refused[0]["who"] == "system:anonymous"
    assert (refused[0]["decision"], refused[0]["status"]) == ("refused", 403)
    assert (refused[0]["code"], refused[0]["fields"]) == ("E5002", ["spec.plan"])
