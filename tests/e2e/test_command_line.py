"""The command line against the platform as a user starts it, by contexts, over TLS."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from platform_process import ENMASSE, Platform

TIMEOUT_S = 60.0
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def enmasse(platform: Platform, tmp_path: Path) -> "Command":
    return Command(tmp_path)


class Command:
    """The command line with its own home folder and no settings of EnMasse."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if "ENMASSE" not in name}
        self._environment = kept | {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [ENMASSE, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


def test_commands_use_a_kubeconfig_context_over_tls(platform: Platform, enmasse: Command) -> None:
    enmasse("context", "set", "tls", "--kubeconfig", str(platform.data / "kubeconfig"))
    enmasse("context", "set", "tls", "--url", platform.url("amqp"))
    shown = json.loads(enmasse("context", "list", "--output", "json"))
    assert shown["contexts"]["tls"]["server"].startswith("https://")
    enmasse("create", "address", "jobs", "--type", "queue")
    enmasse("send", "jobs", "--body", "hello", "--durable")
    assert json.loads(enmasse("top", "--sort", "depth", "-o", "json"))["items"][0]["depth"] == 1
    assert "there is no receiver" in enmasse("doctor", "jobs")
    assert enmasse("receive", "jobs", "--count", "1") == "hello\n"
    assert "Served" in enmasse("describe", "address", "jobs")
    assert '"event": "ready"' in enmasse("logs", "--output", "json")
    assert "standard-unlimited" in enmasse("plan", "usage")
    enmasse("delete", "address", "jobs", "--force")
    assert "addresses.enmasse.io 'jobs' not found" in enmasse("wait", "address", "jobs", code=3)


def test_untrusted_authority_is_reported_with_a_remedy(
    platform: Platform, enmasse: Command
) -> None:
    server, token = platform.url("https"), str(platform.data / "token")
    said = enmasse("get", "addresses", "--server", server, "--token-file", token, code=7)
    assert "is it running" not in said
    assert f"enmasse context set NAME --server {server} --ca FILE" in said


def test_create_address_beyond_the_quota_exits_6(platform: Platform, enmasse: Command) -> None:
    enmasse("context", "set", "here", "--data", str(platform.data))
    enmasse("create", "addressspace", "small", "--plan", "standard-small")
    wide = ("--type", "queue", "--plan", "standard-large-queue", "--space", "small")
    enmasse("create", "address", "a", *wide)
    assert "exceeded quota" in enmasse("create", "address", "b", *wide, code=6)
    assert "1 of 1" in enmasse("plan", "usage", "small")
    enmasse("delete", "addressspace", "small")
