"""Accepted and refused logins, as the operator reads them."""

import json
import subprocess
from typing import Any

from platform_process import ENMASSE, Platform

USER = ("user", "create", "alice", "--send", "anycast", "--receive", "anycast")


def written(platform: Platform) -> list[dict[str, Any]]:
    items = json.loads(platform.enmasse("audit", "--logins", "--output", "json"))["items"]
    return [one for one in items if one.get("who") == "alice"]


def test_T_AS_16_audit_lists_logins_without_their_secrets(platform: Platform) -> None:
    subprocess.run(
        [ENMASSE, *USER],
        env=platform.environment | {"ENMASSE_PASSWORD": "wonderland"},
        check=True,
        timeout=60,
    )
    place = platform.url("amqp").removeprefix("amqp://")
    for password, code in (("wonderland", 0), ("guess-again", 4)):
        url = f"amqp://alice:{password}@{place}"
        words = ("receive", "anycast", "--url", url, "--timeout", "0", "--mechanism", "PLAIN")
        done = subprocess.run([ENMASSE, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
    came, refused = written(platform)
    assert (came["decision"], refused["decision"]) == ("allowed", "refused")
    assert came["space"] == refused["space"] == "default.default"
    assert came["mechanism"] == refused["mechanism"] == "PLAIN"
    assert came["from"] == refused["from"] == "127.0.0.1"
    assert refused["why"] == "unknown user or wrong password"
    assert "alice" in platform.enmasse("audit", "--logins", "--refused")
    url = f"amqp://alice:wonderland@{place}"
    words = ("receive", "multicast", "--url", url, "--timeout", "0", "--mechanism", "PLAIN")
    done = subprocess.run([ENMASSE, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4, done.stderr
    link = written(platform)[-1]
    assert (link["verb"], link["address"], link["space"]) == (
        "attach", "multicast", "default.default",
    )  # fmt: skip
    assert link["condition"] == "amqp:unauthorized-access"
    assert "multicast in default.default" in platform.enmasse("audit", "--logins", "--refused")
    log = (platform.data / "logins.log").read_text()
    assert "wonderland" not in log
    assert "guess-again" not in log
