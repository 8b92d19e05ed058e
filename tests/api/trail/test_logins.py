"""The trail of logins: what is written of those who come in and of those who are refused."""

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


def test_it_says_who_where_how_and_from_where(kept: Trail) -> None:
    kept.trail.tell(OPENED)
    kept.trail.tell(REFUSED)
    kept.trail.tell(OPENED | {"user": None, "mechanism": None, "peer": None})
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


def test_what_is_no_login_is_not_written(kept: Trail) -> None:
    kept.trail.tell({"atMs": 0, "event": "closed", "condition": None})
    kept.trail.tell(OPENED | {"transport": "local"})
    assert kept.written() == []


def test_a_flood_of_refusals_is_counted_and_keeps_nobody_out_of_the_trail(kept: Trail) -> None:
    for _ in range(1000):
        kept.trail.tell(REFUSED)
    kept.trail.tell(OPENED)
    assert len(kept.written()) == REFUSED_A_SECOND + 1
    kept.clock.advance(1)
    kept.trail.tell(REFUSED)
    assert kept.written()[-1]["unwritten"] == 1000 - REFUSED_A_SECOND
    for _ in range(ACCEPTED_A_SECOND + 5):
        kept.trail.tell(OPENED)
    kept.clock.advance(1)
    kept.trail.tell(OPENED)
    assert kept.written()[-1]["unwritten"] == 5


def test_a_name_is_cut_and_stays_one_line(kept: Trail) -> None:
    kept.trail.tell(REFUSED | {"user": "m\n" * 1000})
    (record,) = kept.written()
    assert len(record["who"]) == 500


def test_a_disk_that_refuses_stops_nobody(kept: Trail, tmp_path: Path) -> None:
    (tmp_path / "logins.log").mkdir()
    kept.trail.tell(OPENED)
    (tmp_path / "logins.log").rmdir()
    kept.trail.tell(OPENED)
    assert len(kept.written()) == 1


async def test_it_is_read_over_the_api(served: Served, logins: RotatedFile) -> None:
    LoginTrail(logins, served.clock).tell(OPENED)
    answer = await served.http.get(PATH, params={"of": "logins"})
    assert [json.loads(line)["who"] for line in answer.text.splitlines()] == ["alice"]
    assert '"alice"' not in (await served.http.get(PATH)).text
    wrong = await served.http.get(PATH, params={"of": "all"})
    assert wrong.status_code == 422


def test_refused_links_are_written_with_their_address(kept: Trail) -> None:
    kept.trail.tell(LINK)
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


def test_a_flood_of_refused_links_is_counted_and_hides_no_login(kept: Trail) -> None:
    for number in range(LINKS_A_SECOND + 90):
        kept.trail.tell(LINK | {"address": f"a{number}" * 400})
    kept.trail.tell(REFUSED)
    kept.clock.advance(1)
    kept.trail.tell(LINK)
    written = kept.written()
    assert [one["verb"] for one in written] == [*["attach"] * LINKS_A_SECOND, "connect", "attach"]
    assert written[-1]["unwritten"] == 90
    assert "unwritten" not in written[-2]
    assert max(len(one["address"]) for one in written if "address" in one) == TEXT_MAX
