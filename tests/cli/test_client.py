"""The commands' client of the API: what it makes of refusals and of silence."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enmasse.api.errors import status_object
from enmasse.base.errors import (
    Code,
    Conflict,
    Denied,
    EnMasseError,
    Fault,
    Invalid,
    Missing,
    PeerError,
    Unavailable,
)
from enmasse.cli.client import Api


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that gives the answers it was told to give, one after the other."""

    answers: list[tuple[int, bytes]]
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        status, body = self.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[tuple[type[Answers], str]]:
    handler = type("Handler", (Answers,), {"answers": [], "asked": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as http_server:
        thread = threading.Thread(target=http_server.serve_forever)
        thread.start()
        yield handler, f"http://127.0.0.1:{http_server.server_port}"
        http_server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "error",
    [
        Invalid(Code.FIELD_INVALID, "bad", faults=[Fault("spec.type", "is required")]),
        Denied(Code.TOKEN_REQUIRED, "no token"),
        Missing(Code.RESOURCE_MISSING, "gone"),
        Conflict(Code.ALREADY_EXISTS, "there already"),
        Unavailable(Code.NOT_AVAILABLE, "later"),
    ],
)
def test_a_refusal_is_the_error_it_was_on_the_other_side(
    server: tuple[type[Answers], str], error: EnMasseError
) -> None:
    handler, url = server
    status = status_object(error)
    handler.answers = [(status["code"], json.dumps(status).encode())]
    with Api(url, "token") as api, pytest.raises(type(error)) as refusal:
        api.list("addresses", None)
    assert refusal.value.message == error.message
    assert refusal.value.code == error.code
    assert refusal.value.faults == error.faults


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", b'{"details": {"code": 3}}'])
def test_a_server_that_is_not_ours_is_named(server: tuple[type[Answers], str], body: bytes) -> None:
    handler, url = server
    handler.answers = [(404, body)]
    with Api(url, "token") as api, pytest.raises(PeerError, match=url):
        api.connections()


def test_a_server_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with Api(url, "token") as api, pytest.raises(Unavailable, match=f"{url} does not answer"):
        api.connections()


def test_waiting_ends_with_what_it_waits_for(server: tuple[type[Answers], str]) -> None:
    handler, url = server
    document = {
        "kind": "Address",
        "apiVersion": "enmasse.io/v1beta1",
        "metadata": {"name": "default.a", "namespace": "default", "uid": "u",
                     "resourceVersion": "5"},
        "status": {"isReady": False},
    }  # fmt: skip
    said = document | {"status": {"isReady": False, "messages": ["the disk is full"]}}
    other = {"metadata": {"uid": "other"}, "status": {"isReady": True}}
    events = [{"type": "MODIFIED", "object": one} for one in (other, said)]
    handler.answers = [(200, "\n".join(map(json.dumps, events)).encode())]
    with Api(url, "token") as api, pytest.raises(Unavailable, match="not ready: the disk is full"):
        api.wait_ready("addresses", document)
    assert "resourceVersion=5" in handler.asked[0]

    handler.answers = [(200, json.dumps({"type": "DELETED", "object": document}).encode())]
    with Api(url, "token") as api, pytest.raises(Missing, match="deleted meanwhile"):
        api.wait_ready("addresses", document)


def test_the_platform_is_found_through_its_folder(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="start one with `enmasse up`"):
        Api.find(tmp_path, None, None)
    (tmp_path / "endpoint.json").write_text('{"endpoints": {"amqp": {}}}')
    with pytest.raises(Missing, match="--http-port off"):
        Api.find(tmp_path, None, None)
    with pytest.raises(Missing, match="cannot read the API's token"):
        Api.find(tmp_path, "http://192.0.2.1:8080", None)
    (tmp_path / "token").write_text("secret\n")
    Api.find(tmp_path, "http://192.0.2.1:8080", None).__exit__(None, None, None)
