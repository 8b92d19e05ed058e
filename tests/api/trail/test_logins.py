"""The login trail: records of accepted and of refused logins and links."""

import json
from pathlib import Path
from typing import Any

import pytest

from asgi_platform import Served
from doubles import TestClock
from enmasse.api.trail.audit import PATH, TEXT_MAX
from enmasse.api.trail.logins import (
    ACCEPTED_A_SECOND,
    LINKS_A_SECOND,
    REFUSED_A_SECOND,
    LoginTrail,
)
from enmasse.base.rotated import RotatedFile

OPENED = {
    "atMs": 1_767_225_600_000,
    "connection": 7,
    "peer": "192.0.2.7:51515",
    "event": "opened",
    "container": "a-client",
    "space": "shop.north",
    "user": "alice",
    "mechanism": "SCRAM-SHA-256",
    "transport": "amqps",
}
REFUSED = {
    "atMs": 1_767_225_601_000,
    "peer": "[2001:db8::7]:51515",
    "event": "login-refused",
    "reason": "unknown user or wrong password",
    "user": "mallory",
    "space": "shop.north",
    "mechanism": "PLAIN",
}

LINK = {
    "atMs": 1_767_225_602_000,
    "connection": 7,
    "peer": "192.0.2.7:51515",
    "event": "attach-refused",
    "address": "orders",
    "condition": "amqp:unauthorized-access",
    "reason": "no right to receive",
    "space": "shop.north",
    "user": "alice",
}


class Trail:
    """A trail, its file, and the clock."""

    def __init__(self, folder: Path) -> None:
        self.file = RotatedFile(folder / "logins.log", file_bytes_max=1 << 20, files=2)
        self.clock = TestClock()
        self.trail = LoginTrail(self.file, self.clock)

    def written(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.last(1000)]


@pytest.fixture
def kept(tmp_path: Path) -> Trail:
    return Trail(tmp_path)


def test_login_record_names_user_space_mechanism_and_source(kept: Trail) -> None:
    kept.trail.write(OPENED)
    kept.trail.write(REFUSED)
    kept.trail.write(OPENED | {"user": None, "mechanism": None, "peer": None})
    came, refused, nameless = kept.written()
    assert came == {
        "time": "2026-01-01T00:00:00Z",
        "who": "alice",
        "from": "192.0.2.7",
        "verb": "connect",
        "space": "shop.north",
        "mechanism": "SCRAM-SHA-256",
        "transport": "amqps",
        "agent": "a-client",
        "decision": "allowed",
    }
    assert refused == {
        "time": "2026-01-01T00:00:01Z",
        "who": "mallory",
        "from": "2001:db8::7",
        "verb": "connect",
        "space": "shop.north",
        "mechanism": "PLAIN",
        "decision": "refused",
        "why": "unknown user or wrong password",
    }
    assert nameless["who"] == "system:anonymous"
    assert not {"from", "mechanism"} & nameless.keys()


def test_events_other_than_logins_are_not_recorded(kept: Trail) -> None:
    kept.trail.write({"atMs": 0, "event": "closed", "condition": None})
    kept.trail.write(OPENED | {"transport": "local"})
    assert kept.written() == []


def test_refused_logins_beyond_the_rate_are_counted_and_hide_no_accepted_login(kept: Trail) -> None:
    for _ in range(1000):
        kept.trail.write(REFUSED)
    kept.trail.write(OPENED)
    assert len(kept.written()) == REFUSED_A_SECOND + 1
    kept.clock.advance(1)
    kept.trail.write(REFUSED)
    assert kept.written()[-1]["unwritten"] == 1000 - REFUSED_A_SECOND
    for _ in range(ACCEPTED_A_SECOND + 5):
        kept.trail.write(OPENED)
    kept.clock.advance(1)
    kept.trail.write(OPENED)
    assert kept.written()[-1]["unwritten"] == 5


def test_long_user_name_is_truncated_to_one_line(kept: Trail) -> None:
    kept.trail.write(REFUSED | {"user": "m\n" * 1000})
    (record,) = kept.written()
    assert len(record["who"]) == 500


def test_login_trail_continues_after_a_failed_write(kept: Trail, tmp_path: Path) -> None:
    (tmp_path / "logins.log").mkdir()
    kept.trail.write(OPENED)
    (tmp_path / "logins.log").rmdir()
    kept.trail.write(OPENED)
    assert len(kept.written()) == 1


async def test_login_trail_is_readable_over_the_api(served: Served, logins: RotatedFile) -> None:
    LoginTrail(logins, served.clock).write(OPENED)
    answer = await served.http.get(PATH, params={"of": "logins"})
    assert [json.loads(line)["who"] for line in answer.text.splitlines()] == ["alice"]
    assert '"alice"' not in (await served.http.get(PATH)).text
    wrong = await served.http.get(PATH, params={"of": "all"})
    assert wrong.status_code == 422


def test_refused_attach_is_recorded_with_its_address(kept: Trail) -> None:
    kept.trail.write(LINK)
    assert kept.written() == [
        {
            "time": "2026-01-01T00:00:02Z",
            "who": "alice",
            "from": "192.0.2.7",
            "verb": "attach",
            "space": "shop.north",
            "address": "orders",
            "decision": "refused",
            "condition": "amqp:unauthorized-access",
            "why": "no right to receive",
        }
    ]


def test_refused_links_beyond_the_rate_are_counted_and_hide_no_login(kept: Trail) -> None:
    for number in range(LINKS_A_SECOND + 90):
        kept.trail.write(LINK | {"address": f"a{number}" * 400})
    kept.trail.write(REFUSED)
    kept.clock.advance(1)
    kept.trail.write(LINK)
    written = kept.written()
    assert [one["verb"] for one in written] == [*["attach"] * LINKS_A_SECOND, "connect", "attach"]
    assert written[-1]["unwritten"] == 90
    assert "unwritten" not in written[-2]
    assert max(len(one["address"]) for one in written if "address" in one) == TEXT_MAX
