"""Commands trust only the authority of the address space."""

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from enmasse.auth import authority as signing
from enmasse.auth.authority import Authority
from enmasse.cli.connect.trust import handshake_problem, of_space

NOW = datetime.now(UTC)


def space(authority: Authority, port: int) -> dict[str, Any]:
    trusted = base64.b64encode(signing.chain_pem([authority.certificate]).encode()).decode()
    place = {"serviceHost": "127.0.0.1", "servicePorts": [{"name": "amqps", "port": port}]}
    return {
        "metadata": {"name": "shop", "namespace": "north"},
        "status": {"caCert": trusted, "endpointStatuses": [place]},
    }


@contextmanager
def serving(folder: Path, authority: Authority, name: str, made: datetime) -> Iterator[int]:
    """A TLS server for one client; yields the number of its listener."""
    key = signing.new_key()
    chain_file, key_file = folder / "chain.pem", folder / "key.pem"
    chain_file.write_text(
        signing.chain_pem([signing.issue(authority, key, "server", [name], made)])
    )
    key_file.write_text(signing.key_pem(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain_file, key_file)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                accepted, _ = listener.accept()
                with context.wrap_socket(accepted, server_side=True) as secured:
                    secured.recv(1)
            except OSError:
                return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("name", "days", "trusted", "words"),
    [
        ("shop.north", 0, True, None),
        ("shop.south", 0, True, "match"),
        ("shop.north", 500, True, "expired"),
        ("shop.north", 0, False, "verify failed"),
    ],
)
def test_handshake_check_trusts_only_the_authority_of_the_space(
    tmp_path: Path, name: str, days: int, trusted: bool, words: str | None
) -> None:
    authority = signing.new_authority("of the space", NOW - timedelta(days=600))
    told = authority if trusted else signing.new_authority("another", NOW)
    with serving(tmp_path, authority, name, NOW - timedelta(days=days)) as port:
        problem = handshake_problem(space(told, port))
    assert (problem is None) if words is None else (problem and words in problem)


def test_unreachable_endpoint_or_empty_status_is_no_handshake_problem() -> None:
    authority = signing.new_authority("of the space", NOW)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert handshake_problem(space(authority, port)) is None
    silent = {"metadata": {"name": "shop"}, "status": {}}
    assert of_space(silent) is None and handshake_problem(silent) is None


def test_authority_file_exists_only_within_its_context() -> None:
    trust = of_space(space(signing.new_authority("of the space", NOW), 1))
    assert trust is not None and trust.server_name == "shop.north"
    with trust.file() as file:
        assert file.read_text() == trust.authorities
    assert not file.exists()
