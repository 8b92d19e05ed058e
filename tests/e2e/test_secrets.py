"""Passwords never appear in logs, responses or files. Contracts, section 5."""

import base64
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException
from proton.utils import BlockingConnection

from platform_process import running

# Commands and restarts take long on a busy machine.
pytestmark = pytest.mark.timeout(120)

ALICE = """
apiVersion: enmasse.io/v1beta1
kind: MessagingUser
metadata: {{name: default.alice}}
spec: {{username: alice, authentication: {{type: password, password: {password}}}}}
"""
RIGHT, WRONG = "tumble-down-wonderland", "through-the-looking-glass"


def alice(folder: Path) -> str:
    """A file that declares the user alice."""
    file = folder / "alice.yaml"
    file.write_text(ALICE.format(password=base64.b64encode(RIGHT.encode()).decode()))
    return str(file)


def written(password: str) -> list[bytes]:
    """Forms that reveal a password: plain and base64, alone or within a PLAIN message."""
    plain = f"\0alice\0{password}".encode()
    # Base64 depends on the position in a group of three bytes, and at both ends on the neighbours.
    shifted = [base64.b64encode(b"\0" * shift + password.encode())[4:-4] for shift in range(3)]
    return [password.encode(), base64.b64encode(plain)[8:-4], *shifted]


def test_password_appears_in_no_log_response_or_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with running(data, "--log-level", "debug", "-f", alice(tmp_path)) as up:
        shown = up.enmasse("get", "users", "--output", "yaml")
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            options: dict[str, Any] = {"user": "alice", "allowed_mechs": mechanism, "timeout": 10}
            BlockingConnection(up.url(), password=RIGHT, **options).close()
            with pytest.raises(ConnectionException):
                BlockingConnection(up.url(), password=WRONG, **options)
    log = capfd.readouterr().err
    for event in ("opened", "login-refused"):
        assert event in log, "the log must have this event"
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    for password in (RIGHT, WRONG):
        for secret in written(password):
            assert secret.decode() not in log + shown
            assert secret not in kept
    for keys in ("verifiers", "storedKey", "serverKey"):
        assert keys not in log + shown, "keys allow offline guessing"


def salt(port: int, user: str) -> bytes:
    """The salt that the node sends to a client that starts a SCRAM login as `user`."""
    mechanism, message = b"SCRAM-SHA-256", f"n,,n={user},r=abc".encode()
    fields = b"\xa3%c%b\xa0%c%b" % (len(mechanism), mechanism, len(message), message)
    body = b"\x00\x53\x41\xc0%c\x02%b" % (len(fields) + 1, fields)
    frame = (len(body) + 8).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(b"AMQP\x03\x01\x00\x00" + frame)
        seen = b""
        while not (found := re.search(rb",s=([^,]+),i=", seen)):
            piece = peer.recv(4096)
            assert piece, seen
            seen += piece
        return found[1]


def test_scram_salts_of_unknown_users_are_stable_across_restarts(tmp_path: Path) -> None:
    def shown() -> list[bytes]:
        return [salt(up.port(), user) for user in ("alice", "mallory", "malfoy")]

    data = tmp_path / "data"
    with running(data, "-f", alice(tmp_path)) as up:
        before = shown()
    assert len(set(before)) == 3
    with running(data) as up:
        assert shown() == before
