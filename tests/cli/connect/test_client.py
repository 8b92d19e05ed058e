"""The API client of the commands: refusals, timeouts, waits and retries."""

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
from enmasse.cli.connect.client import Api


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that returns prepared responses in order."""

    answers: list[tuple[int, bytes]]
    asked: list[str]
    sent: list[bytes]

    def do_PUT(self) -> None:
        self.sent.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.do_GET()

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
    handler = type("Handler", (Answers,), {"answers": [], "asked": [], "sent": []})
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
def test_api_client_raises_the_error_of_the_server(
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
def test_api_client_names_a_server_that_is_not_enmasse(
    server: tuple[type[Answers], str], body: bytes
) -> None:
    handler, url = server
    handler.answers = [(404, body)]
    with Api(url, "token") as api, pytest.raises(PeerError, match=url):
        api.connections()


def test_api_client_names_an_unreachable_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with Api(url, "token") as api, pytest.raises(Unavailable, match=f"{url} does not answer"):
        api.connections()


def test_wait_ready_fails_with_the_status_messages_or_on_deletion(
    server: tuple[type[Answers], str],
) -> None:
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
    with Api(url, "token") as api, pytest.raises(Missing, match="deleted concurrently"):
        api.wait_ready("addresses", document)


def test_wait_continues_from_the_present_state_when_its_version_is_too_old(
    server: tuple[type[Answers], str],
) -> None:
    handler, url = server
    document = {
        "kind": "Address",
        "apiVersion": "enmasse.io/v1beta1",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "5"},
        "status": {"isReady": False},
    }
    ready = document | {"status": {"isReady": True}}
    gone = status_object(Conflict(Code.VERSION_EXPIRED, "too old"))
    expired = (200, json.dumps({"type": "ERROR", "object": gone}).encode())

    def listing(*items: dict[str, Any]) -> tuple[int, bytes]:
        found = {"metadata": {"resourceVersion": "95"}, "items": list(items)}
        return 200, json.dumps(found).encode()

    event = (200, json.dumps({"type": "MODIFIED", "object": ready}).encode())
    handler.answers = [expired, listing(document), event]
    with Api(url, "token") as api:
        assert api.wait_ready("addresses", document) == ready
    assert "resourceVersion=5" in handler.asked[0]
    assert "resourceVersion=95" in handler.asked[2]

    handler.answers = [expired, listing(ready)]
    with Api(url, "token") as api:
        assert api.wait_ready("addresses", document) == ready

    again = document | {"metadata": {**document["metadata"], "uid": "another"}}  # type: ignore[dict-item]
    handler.answers = [expired, listing(again)]
    with Api(url, "token") as api, pytest.raises(Missing, match="deleted concurrently"):
        api.wait_ready("addresses", document)


def test_the_platform_is_found_through_its_folder(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="start one with `enmasse up`"):
        Api.find(tmp_path, None, None)
    (tmp_path / "endpoint.json").write_text('{"endpoints": {"amqp": {}}}')
    with pytest.raises(Missing, match="--http-port off"):
        Api.find(tmp_path, None, None)
    with pytest.raises(Missing, match="cannot read the API token"):
        Api.find(tmp_path, "http://192.0.2.1:8080", None)
    (tmp_path / "token").write_text("secret\n")
    Api.find(tmp_path, "http://192.0.2.1:8080", None).__exit__(None, None, None)


def a_status(code: int, reason: str, **details: Any) -> bytes:
    """The status of a Kubernetes server, without the codes of EnMasse."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "so it is",
              "reason": reason, "code": code} | details  # fmt: skip
    return json.dumps(status).encode()


@pytest.mark.parametrize(
    ("status", "reason", "kind", "code"),
    [
        (401, "Unauthorized", Denied, Code.ACCESS_DENIED),
        (403, "Forbidden", Denied, Code.ACCESS_DENIED),
        (404, "NotFound", Missing, Code.NOT_FOUND),
        (409, "Conflict", Conflict, Code.STATE_CONFLICT),
        (409, "AlreadyExists", Conflict, Code.ALREADY_EXISTS),
        (422, "Invalid", Invalid, Code.REQUEST_INVALID),
        (500, "InternalError", Unavailable, Code.NOT_AVAILABLE),
    ],
)
def test_status_of_a_kubernetes_server_maps_to_an_error(
    server: tuple[type[Answers], str],
    status: int,
    reason: str,
    kind: type[EnMasseError],
    code: Code,
) -> None:
    handler, url = server
    causes = [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.type"}]
    handler.answers = [(status, a_status(status, reason, details={"causes": causes}))]
    with Api(url, "token") as api, pytest.raises(kind, match="so it is") as refusal:
        api.list("addresses", None)
    assert refusal.value.code == code
    assert [str(fault) for fault in refusal.value.faults] == ["spec.type: bad"]


def test_kind_and_version_of_kubernetes_list_items_are_added(
    server: tuple[type[Answers], str],
) -> None:
    handler, url = server
    item = {"metadata": {"name": "default.a", "namespace": "default"}, "spec": {}}
    listed = {"kind": "AddressList", "apiVersion": "enmasse.io/v1beta1", "items": [item]}
    handler.answers = [(200, json.dumps(listed).encode())]
    with Api(url, "token") as api:
        (found,) = api.list("addresses", "default", selector="team=north")["items"]
    assert (found["kind"], found["apiVersion"]) == ("Address", "enmasse.io/v1beta1")
    assert handler.asked == [
        "GET /apis/enmasse.io/v1beta1/namespaces/default/addresses?labelSelector=team%3Dnorth"
    ]


def a_document(version: str, **metadata: str) -> dict[str, Any]:
    return {
        "kind": "Address",
        "apiVersion": "enmasse.io/v1beta1",
        "metadata": {"name": "default.a", "namespace": "default", "resourceVersion": version}
        | metadata,
        "spec": {},
    }


def test_apply_sends_the_version_it_read_and_retries_on_conflict(
    server: tuple[type[Answers], str],
) -> None:
    handler, url = server
    document = a_document("")
    del document["metadata"]["resourceVersion"]
    handler.answers = [
        (200, json.dumps(a_document("5")).encode()),
        (409, a_status(409, "Conflict")),
        (200, json.dumps(a_document("6")).encode()),
        (200, json.dumps(a_document("7")).encode()),
    ]
    with Api(url, "token") as api:
        now, change = api.apply("addresses", document)
    assert (now["metadata"]["resourceVersion"], change) == ("7", "configured")
    assert [one.split()[0] for one in handler.asked] == ["GET", "PUT", "GET", "PUT"]
    versions = [json.loads(body)["metadata"]["resourceVersion"] for body in handler.sent]
    assert versions == ["5", "6"]
    # A document with a version is not retried with another one.
    handler.answers = [
        (200, json.dumps(a_document("8")).encode()),
        (409, a_status(409, "Conflict")),
    ]
    with Api(url, "token") as api, pytest.raises(Conflict):
        api.apply("addresses", a_document("5"))


def test_error_event_of_a_watch_is_raised(
    server: tuple[type[Answers], str],
) -> None:
    handler, url = server
    failed = {"type": "ERROR", "object": json.loads(a_status(500, "InternalError"))}
    handler.answers = [(200, json.dumps(failed).encode())]
    document = a_document("5", uid="u")
    with Api(url, "token") as api, pytest.raises(Unavailable, match="so it is"):
        api.wait_ready("addresses", document)


def test_wait_ready_requires_the_current_generation(
    server: tuple[type[Answers], str],
) -> None:
    handler, url = server
    before = a_document("5", uid="u") | {"status": {"isReady": True, "observedGeneration": 1}}
    before["metadata"]["generation"] = 2
    after = before | {"status": {"isReady": True, "observedGeneration": 2}}
    handler.answers = [(200, json.dumps({"type": "MODIFIED", "object": after}).encode())]
    with Api(url, "token") as api:
        assert api.wait_ready("addresses", before) == after
    assert len(handler.asked) == 1
