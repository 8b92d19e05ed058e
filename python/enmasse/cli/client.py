"""The commands' client of the HTTP API: finds the platform, asks, turns refusals into errors."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from enmasse.base.data_dir import DataDir, default_data_dir
from enmasse.base.errors import KINDS, Code, Fault, Missing, PeerError, Unavailable
from enmasse.cli import network
from enmasse.resources import API_VERSION

BASE = f"/apis/{API_VERSION}"
TIMEOUT_S = 30.0
READY_TIMEOUT_S = 30

Document = dict[str, Any]


class Api:
    """The HTTP API of a running platform."""

    def __init__(self, url: str, token: str) -> None:
        self._http = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
            trust_env=False,
        )

    @classmethod
    def find(cls, data: Path | None, server: str | None, token_file: Path | None) -> Self:
        """Return the API at `server`, else of the platform on this machine that uses `data`.

        Raises: Missing if there is no such platform or no token.
        """
        url = server
        if url is None:
            http = network.running(data)["endpoints"].get("http")
            if http is None:
                raise Missing(
                    Code.SERVER_MISSING, "the platform was started with --http-port off: no API"
                )
            url = network.url("http", http["host"], http["port"])
        file = token_file or DataDir(data or default_data_dir()).token
        try:
            token = file.read_text().strip()
        except OSError as error:
            raise Missing(
                Code.SERVER_MISSING,
                f"cannot read the API's token from {file}: {error.strerror};"
                " name it with --token-file",
            ) from None
        return cls(url.rstrip("/"), token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def list(self, plural: str, namespace: str | None, *, statistics: bool = False) -> Document:
        """Return the list of a kind, of one namespace or of all."""
        path = f"{BASE}/namespaces/{namespace}/{plural}" if namespace else f"{BASE}/{plural}"
        listed = self._ask("GET", path, parameters={"statistics": "true"} if statistics else None)
        for item in listed["items"]:
            # Who has set which field is for programs; kubectl leaves it out too.
            item["metadata"].pop("managedFields", None)
        return listed

    def create(self, plural: str, document: Document) -> Document:
        """Create a resource and return it as it is now."""
        return self._ask("POST", _collection(plural, document), document)

    def apply(self, plural: str, document: Document) -> tuple[Document, str]:
        """Create or replace a resource; return it and what became of it."""
        path = f"{_collection(plural, document)}/{document['metadata']['name']}"
        try:
            before = self._ask("GET", path)
        except Missing:
            return self.create(plural, document), "created"
        now = self._ask("PUT", path, document)
        versions = [one["metadata"]["resourceVersion"] for one in (before, now)]
        return now, "unchanged" if versions[0] == versions[1] else "configured"

    def delete(self, plural: str, namespace: str, name: str) -> Document:
        """Delete a resource."""
        return self._ask("DELETE", _path(plural, namespace, name))

    def operate(
        self, operation: str, namespace: str, name: str, request: Document
    ) -> Iterator[Document]:
        """Do an operation on the messages of an address, slice by slice, and yield each answer.

        `limit` of the request is for all slices together.
        """
        path = f"{_path('addresses', namespace, name)}/{operation}"
        limit = request.get("limit")
        while True:
            answer = self._ask("POST", path, request)
            yield answer
            if limit is not None:
                limit -= answer["messages"]
                request = request | {"limit": limit}
            if "continue" not in answer or limit == 0:
                return
            request = request | {"continue": answer["continue"]}

    def connections(self) -> Document:
        """Return the open connections."""
        return self._ask("GET", f"{BASE}/connections")

    def trace(self, connection: int, *, on: bool) -> None:
        """Switch the protocol trace of a connection."""
        self._ask("POST" if on else "DELETE", f"{BASE}/connections/{connection}/trace")

    def wait_ready(self, plural: str, document: Document) -> Document:
        """Return the resource once it is ready.

        Raises: Unavailable with what it waits for, if that takes longer than 30 s; Missing if it
            is deleted meanwhile.
        """
        if _is_ready(document):
            return document
        uid = document["metadata"]["uid"]
        for event in self._watch(plural, document):
            if event["object"].get("metadata", {}).get("uid") != uid:
                continue
            document = event["object"]
            if event["type"] == "DELETED":
                name = document["metadata"]["name"]
                raise Missing(Code.RESOURCE_MISSING, f"{name} was deleted meanwhile")
            if _is_ready(document):
                return document
        name = document["metadata"]["name"]
        reason = "; ".join(document["status"].get("messages", [])) or "no answer from the node"
        raise Unavailable(Code.NOT_AVAILABLE, f"{name} is not ready: {reason}")

    def _watch(self, plural: str, document: Document) -> Iterator[Document]:
        metadata = document["metadata"]
        parameters = {
            "watch": "true",
            "resourceVersion": metadata["resourceVersion"],
            "timeoutSeconds": str(READY_TIMEOUT_S),
        }
        path = _collection(plural, document)
        with self._reached(), self._http.stream("GET", path, params=parameters) as answer:
            if answer.status_code != 200:
                answer.read()
            _check(answer)
            for line in answer.iter_lines():
                yield json.loads(line)

    def _ask(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> Document:
        with self._reached():
            answer = self._http.request(method, path, json=body, params=parameters)
        _check(answer)
        document: Document = answer.json()
        return document

    def _reached(self) -> "_Reached":
        return _Reached(str(self._http.base_url))


class _Reached:
    """Turns a server that does not answer into our error."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, httpx2.HTTPError):
            reason = str(error) or type(error).__name__
            raise Unavailable(
                Code.SERVER_UNREACHABLE,
                f"the platform at {self._url} does not answer ({reason}); is it running?",
            ) from None


def _check(answer: httpx2.Response) -> None:
    """Raise the error that a refusal stands for."""
    if answer.is_success:
        return
    try:
        status = answer.json()
        details = status["details"]
        code, message = details["code"], status["message"]
        faults = [Fault(cause["field"], cause["message"]) for cause in details.get("causes", [])]
    except (ValueError, KeyError, TypeError):
        raise PeerError(
            Code.PROTOCOL_BROKEN,
            f"{answer.url} answered {answer.status_code} and not as EnMasse does",
        ) from None
    kind = list(KINDS.values())[int(code[1]) - 1]
    raise kind(code, message, faults=faults)


def _is_ready(document: Document) -> bool:
    return bool(document["status"].get("isReady"))


def _path(plural: str, namespace: str, name: str) -> str:
    return f"{BASE}/namespaces/{namespace}/{plural}/{name}"


def _collection(plural: str, document: Document) -> str:
    """Return the path of all resources beside a document's."""
    version = document["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = document["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"
