"""A password goes in and never comes out: not in logs, answers or files. Contracts, section 5."""

import base64
from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException
from proton.utils import BlockingConnection

from running import running

RIGHT, WRONG = "tumble-down-wonderland", "through-the-looking-glass"


def written(password: str) -> list[bytes]:
    """What would show the password: itself and its base64 form, alone or within a PLAIN message."""
    plain = f"\0alice\0{password}".encode()
    # Base64 depends on the place in a group of three, and at both ends on the neighbours.
    shifted = [base64.b64encode(b"\0" * shift + password.encode())[4:-4] for shift in range(3)]
    return [password.encode(), base64.b64encode(plain)[8:-4], *shifted]


def test_no_password_is_shown_anywhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path, "--log-level", "debug") as up:
        shown = up.enmasse("create", "user", "alice", "--password", RIGHT)
        shown += up.enmasse("get", "users", "--output", "yaml")
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            options: dict[str, Any] = {"user": "alice", "allowed_mechs": mechanism, "timeout": 10}
            BlockingConnection(up.url(), password=RIGHT, **options).close()
            with pytest.raises(ConnectionException):
                BlockingConnection(up.url(), password=WRONG, **options)
    log = capfd.readouterr().err
    for event in ("opened", "login-refused"):
        assert event in log, "the log tells of what happened at all"
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for password in (RIGHT, WRONG):
        for secret in written(password):
            assert secret.decode() not in log + shown
            assert secret not in kept
    for keys in ("verifiers", "storedKey", "serverKey"):
        assert keys not in log + shown, "keys invite guessing"
