"""The commands' client of the HTTP API: finds the platform, sends requests, raises refusals."""

import json
import math
import os
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2

from enmasse.base.clock import Clock, SystemClock
from enmasse.base.data_dir import DataDir, default_data_dir
from enmasse.base.errors import (
    KINDS as ERRORS,
)
from enmasse.base.errors import (
    Code,
    Conflict,
    EnMasseError,
    Fault,
    Missing,
    PeerError,
    Unavailable,
)
from enmasse.base.kinds import API_VERSION, KINDS
from enmasse.cli.connect import contexts, network
from enmasse.cli.resources import kinds

BASE = f"/apis/{API_VERSION}"
TIMEOUT_S = 30.0
READY_TIMEOUT_S = 30.0
ATTEMPTS = 5
"""Attempts of a change on a concurrently changing resource."""

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

Document = dict[str, Any]


class Api:
    """The HTTP API of a running platform, or of a Kubernetes server with its kinds."""

    def __init__(
        self, url: str, token: str, ca: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.clock: Clock = SystemClock()
        self._http = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_s,
            trust_env=False,
            # Loading the system's CAs takes as long as a request: only for TLS.
            verify=_trusting(ca) if ca else not url.startswith("http:"),
        )

    @classmethod
    def find(
        cls,
        data: Path | None,
        server: str | None,
        token_file: Path | None,
        timeout_s: float = TIMEOUT_S,
    ) -> Self:
        """Return the API at `server`, else of the local platform with data folder `data`, else of
        the selected context, else of the default data folder.

        Raises: Unavailable if no such platform runs; Missing without a token; Denied if other users
            can read a context's token; Invalid if the contexts are malformed.
        """
        # An explicit option comes before the context.
        context = None
        if data is None and server is None:
            context = contexts.chosen()
        if context is not None and context.server is not None and context.token_file is not None:
            token = contexts.secret(token_file or Path(context.token_file))
            return cls(context.server.rstrip("/"), token, context.ca, timeout_s)
        if context is not None and context.data is not None:
            data = Path(context.data)
        url = server
        if url is None:
            http = network.running(data)["endpoints"].get("http")
            if http is None:
                raise Missing(
                    Code.SERVER_MISSING,
                    "the platform has no HTTP API: it was started with --http-port off",
                )
            url = network.url("http", http["host"], http["port"])
        folder = DataDir(data or default_data_dir())
        file = token_file or folder.token
        try:
            token = file.read_text().strip()
        except OSError as error:
            raise Missing(
                Code.SERVER_MISSING,
                f"cannot read the API token from {file}: {error.strerror}; set --token-file",
            ) from None
        own = folder.tls / "ca.crt"
        secured = url.startswith("https:") and own.exists()
        return cls(url.rstrip("/"), token, str(own) if secured else None, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def list(
        self,
        plural: str,
        namespace: str | None,
        *,
        statistics: bool = False,
        selector: str | None = None,
        fields: str | None = None,
    ) -> Document:
        """Return the list of a kind, in one namespace or all."""
        model = kinds.named(plural)
        parameters = _selecting(selector, fields) | ({"statistics": "true"} if statistics else {})
        listed = self._ask("GET", _path(model, namespace), parameters=parameters)
        for item in listed["items"]:
            # managedFields are for programs; kubectl omits them too.
            item["metadata"].pop("managedFields", None)
            # Kubernetes lists omit apiVersion and kind of their items.
            item.setdefault("kind", model.name)
            item.setdefault("apiVersion", listed["apiVersion"])
        return listed

    def table(
        self,
        model: kinds.Named,
        namespace: str | None,
        selector: str | None = None,
        fields: str | None = None,
    ) -> Document:
        """Return the server's table of a kind."""
        parameters = _selecting(selector, fields)
        path = _path(model, namespace)
        return self._ask("GET", path, parameters=parameters, headers={"Accept": AS_TABLE})

    def get(self, model: kinds.Named, namespace: str, name: str) -> Document:
        """Return one resource."""
        return self._ask("GET", _path(model, namespace, name))

    def create(self, plural: str, document: Document) -> Document:
        """Create a resource and return its new state."""
        return self._ask("POST", _collection(plural, document), document)

    def console_link(self) -> str:
        """Return a link that logs its first user into the console as the bearer of the token."""
        document = self._ask("POST", "/console/codes", {})
        return f"{str(self._http.base_url).rstrip('/')}{document['path']}"

    def apply(
        self, plural: str, document: Document, *, dry_run: bool = False
    ) -> tuple[Document, str]:
        """Create or replace a resource; return it and the effect.

        A document without a version applies to any version.
        """
        path = f"{_collection(plural, document)}/{document['metadata']['name']}"
        parameters = {"dryRun": "All"} if dry_run else None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                before = self._ask("GET", path)
            except Missing:
                collection = _collection(plural, document)
                return self._ask("POST", collection, document, parameters), "created"
            # With the version that was read, the PUT fails after a concurrent write, and a changed
            # version in the response shows that it had an effect.
            version = before["metadata"]["resourceVersion"]
            metadata = {"resourceVersion": version} | document["metadata"]
            try:
                now = self._ask("PUT", path, document | {"metadata": metadata}, parameters)
            except Conflict:
                if attempt == ATTEMPTS or "resourceVersion" in document["metadata"]:
                    raise
                continue
            unchanged = now["metadata"]["resourceVersion"] == version
            return now, "unchanged" if unchanged else "configured"
        raise AssertionError("the last attempt returns or raises")

    def patch(self, model: kinds.Named, namespace: str, name: str, patch: Document) -> Document:
        """Apply a JSON merge patch to a resource and return its new state."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._ask("PATCH", _path(model, namespace, name), patch, headers=headers)

    def delete(self, plural: str, namespace: str, name: str, *, dry_run: bool = False) -> Document:
        """Delete a resource."""
        parameters = {"dryRun": "All"} if dry_run else None
        path = _path(kinds.named(plural), namespace, name)
        return self._ask("DELETE", path, parameters=parameters)

    def events_of(self, document: Document) -> Sequence[Document]:
        """Return the events of a resource, oldest first."""
        metadata = document["metadata"]
        fields = {"involvedObject.uid": metadata["uid"], "involvedObject.kind": document["kind"]}
        selector = ",".join(f"{name}={value}" for name, value in fields.items())
        path = _path(KINDS["Event"], metadata.get("namespace"))
        found = self._ask("GET", path, parameters={"fieldSelector": selector})["items"]
        return sorted(found, key=lambda one: one.get("lastTimestamp") or "")

    def operate(
        self, operation: str, namespace: str, name: str, request: Document
    ) -> Iterator[Document]:
        """Run an operation on the messages of an address, slice by slice, and yield each response.

        `limit` of the request covers all slices together.
        """
        path = f"{_path(KINDS['Address'], namespace, name)}/{operation}"
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

    def download(self, what: str, parameters: Mapping[str, str], to: Path) -> None:
        """Write a response to a file that only its owner can read."""
        path = f"{BASE}/{what}"
        with (
            open(to, "wb", opener=_privately) as file,
            self._translated(),
            self._http.stream("GET", path, params=parameters) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
            _check(answer)
            for chunk in answer.iter_raw():
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def retained(self, namespace: str, space: str, topic_filter: str | None) -> Iterator[Document]:
        """Yield the retained messages of a space whose topic a filter matches; None: all."""
        query = {} if topic_filter is None else {"filter": topic_filter}
        for page in self._pages(f"{_space_path(namespace, space)}/retained", "GET", query):
            yield from page["items"]

    def delete_retained(self, namespace: str, space: str, topic_filter: str) -> int:
        """Delete retained messages; return their number."""
        path = f"{_space_path(namespace, space)}/retained"
        pages = self._pages(path, "DELETE", {"filter": topic_filter})
        return sum(page["messages"] for page in pages)

    def mqtt_sessions(self, namespace: str, space: str) -> Iterator[Document]:
        """Yield the MQTT sessions of a space."""
        for page in self._pages(f"{_space_path(namespace, space)}/mqttsessions", "GET", {}):
            yield from page["items"]

    def end_mqtt_session(self, namespace: str, space: str, name: dict[str, str]) -> None:
        """End the MQTT session of `clientId`, `kind`, `user` and `link`, as given."""
        self._ask("DELETE", f"{_space_path(namespace, space)}/mqttsessions", parameters=name)

    def _pages(self, path: str, method: str, query: dict[str, str]) -> Iterator[Document]:
        """Yield the pages of a list, or the responses of a deletion slice by slice."""
        query = dict(query)
        while True:
            page = self._ask(method, path, parameters=query)
            yield page
            if "continue" not in page["metadata"]:
                return
            query["continue"] = page["metadata"]["continue"]

    def connections(self) -> Document:
        """Return the open connections."""
        return self._ask("GET", f"{BASE}/connections")

    def connections_in(
        self, namespace: str, *, space: str | None, address: str | None
    ) -> Iterator[Document]:
        """Yield the connections of a namespace."""
        path = f"{BASE}/namespaces/{namespace}/connections"
        wanted = {"space": space, "address": address}
        query = {name: text for name, text in wanted.items() if text is not None}
        for page in self._pages(path, "GET", query):
            yield from page["items"]

    def connection_in(self, namespace: str, connection: str) -> Document:
        """Return a connection of a namespace with its links."""
        return self._ask("GET", _connection_path(namespace, connection))

    def close_connection(self, namespace: str, connection: str) -> None:
        """Close a connection of a namespace."""
        self._ask("DELETE", _connection_path(namespace, connection))

    def traced(
        self, namespace: str, connection: str, *, frames: int, seconds: int
    ) -> Iterator[Document]:
        """Yield the next frames of a connection of a namespace."""
        path = f"{_connection_path(namespace, connection)}/trace"
        query = {"follow": "true", "frames": str(frames), "seconds": str(seconds)}
        with (
            self._translated(),
            self._http.stream("GET", path, params=query, timeout=seconds + 10) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
            _check(answer)
            is_frame = False
            for line in answer.iter_lines():
                if line.startswith("event:"):
                    is_frame = line == "event: frame"
                elif line.startswith("data:") and is_frame:
                    yield json.loads(line.removeprefix("data:"))

    def report_pipeline(self, namespace: str, name: str, report: Document) -> None:
        """Report the state of a running pipeline."""
        path = f"{_path(KINDS['Pipeline'], namespace, name)}/report"
        self._ask("PUT", path, report)

    def review_change(self, document: Document) -> Document:
        """Return what a document of an operator would change for tenants."""
        return self._ask("POST", f"{BASE}/changereviews", document)

    def trace(self, connection: int, *, on: bool) -> None:
        """Start or stop the protocol trace of a connection."""
        self._ask("POST" if on else "DELETE", f"{BASE}/connections/{connection}/trace")

    def health(self) -> str:
        """Return the health report: `ok`, possibly with limitations.

        Raises: Unavailable while the platform starts or stops.
        """
        with self._translated():
            answer = self._http.get("/readyz")
        if answer.status_code == 503:
            raise Unavailable(Code.NOT_AVAILABLE, answer.text.strip())
        return answer.text.strip() if answer.is_success else "ok"

    def logs(self, tail: int, *, follow: bool) -> Iterator[str]:
        """Yield log records: the last `tail`, then new ones."""
        parameters = {"tail": str(tail), "follow": "true" if follow else "false"}
        timeout = httpx2.Timeout(TIMEOUT_S, read=None)
        with (
            self._translated(),
            self._http.stream("GET", f"{BASE}/logs", params=parameters, timeout=timeout) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
            _check(answer)
            yield from answer.iter_lines()

    def audit(self, tail: int, of: str = "requests") -> Sequence[Document]:
        """Return the latest records of the audit trail, oldest first: of requests or logins."""
        with self._translated():
            answer = self._http.get(f"{BASE}/audit", params={"tail": str(tail), "of": of})
        _check(answer)
        return [json.loads(line) for line in answer.text.splitlines()]

    def wait_ready(self, plural: str, document: Document) -> Document:
        """Return the resource once it is ready.

        Raises: Unavailable with the reason after 30 s; Missing if it is deleted.
        """
        return self.wait(plural, document, _is_ready, "ready", READY_TIMEOUT_S)

    def wait(
        self,
        plural: str,
        document: Document,
        is_met: Callable[[Document], bool],
        what: str,
        timeout_s: float,
    ) -> Document:
        """Return a resource once it meets a condition.

        Raises: Unavailable with the reason after `timeout_s`; Missing if it is deleted.
        """
        if is_met(document):
            return document
        uid, name = document["metadata"]["uid"], document["metadata"]["name"]
        for event in self._watch(plural, document, timeout_s):
            # Another resource may have the name by now.
            if event["object"].get("metadata", {}).get("uid") != uid:
                continue
            document = event["object"]
            if event["type"] == "DELETED":
                raise Missing(Code.RESOURCE_MISSING, f"{name} was deleted concurrently")
            if is_met(document):
                return document
        last_status = document.get("status", {}).get("messages", [])
        reason = "; ".join(last_status) or f"no response for {timeout_s:.1f} s"
        raise Unavailable(Code.NOT_AVAILABLE, f"{name} is not {what}: {reason}")

    def wait_deleted(self, plural: str, document: Document, timeout_s: float) -> None:
        """Return once a resource is deleted.

        Raises: Unavailable after `timeout_s`.
        """
        uid, name = document["metadata"]["uid"], document["metadata"]["name"]
        for event in self._watch(plural, document, timeout_s):
            metadata = event["object"].get("metadata", {})
            if event["type"] == "DELETED" and metadata.get("uid") == uid:
                return
        kept = ", ".join(document["metadata"].get("finalizers", [])) or "it is not being deleted"
        raise Unavailable(
            Code.NOT_AVAILABLE, f"{name} still exists after {timeout_s:.1f} s ({kept})"
        )

    def watch(
        self,
        model: kinds.Named,
        namespace: str | None,
        selector: str | None,
        fields: str | None,
        *,
        version: str,
        as_table: bool,
    ) -> Iterator[Document]:
        """Yield the changes of a kind after a version, until the server ends the watch.

        Raises: the server's error; VERSION_EXPIRED for a compacted version.
        """
        parameters = _selecting(selector, fields) | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
        }
        headers = {"Accept": AS_TABLE} if as_table else {}
        yield from self._events(_path(model, namespace), parameters, None, headers)

    def _watch(self, plural: str, document: Document, timeout_s: float) -> Iterator[Document]:
        """Yield the changes of a resource's collection from its version on, until the time-out."""
        deadline_s = self.clock.monotonic() + timeout_s
        path, selected = _collection(plural, document), _selecting_name(document)
        version = document["metadata"]["resourceVersion"]
        while (left_s := deadline_s - self.clock.monotonic()) > 0:
            parameters = selected | {
                "watch": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(max(math.ceil(left_s), 1)),
            }
            try:
                # A silent server must not extend the time-out of the command.
                yield from self._events(path, parameters, left_s + 1, {})
            except Conflict as error:
                if error.code != Code.VERSION_EXPIRED:
                    raise
                # The resource has not changed for long, or has changed a lot: its present state
                # counts.
                listed = self._ask("GET", path, parameters=selected)
                version = listed["metadata"]["resourceVersion"]
                yield _present(document, listed["items"])
                continue
            except Unavailable:
                if self.clock.monotonic() < deadline_s:
                    raise
            return

    def _events(
        self,
        path: str,
        parameters: Mapping[str, str],
        silence_s: float | None,
        headers: Mapping[str, str],
    ) -> Iterator[Document]:
        """Yield the events of a watch; `silence_s` is its maximum idle time."""
        timeout = httpx2.Timeout(TIMEOUT_S, read=silence_s)
        with (
            self._translated(),
            self._http.stream(
                "GET", path, params=parameters, timeout=timeout, headers=headers
            ) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
            _check(answer)
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _ended(event["object"])
                yield event

    def _ask(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        parameters: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Document:
        with self._translated():
            answer = self._http.request(method, path, json=body, params=parameters, headers=headers)
        _check(answer)
        document: Document = answer.json()
        return document

    def _translated(self) -> "_ConnectionErrors":
        return _ConnectionErrors(str(self._http.base_url))


class _ConnectionErrors:
    """Translates connection errors into Unavailable."""

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
            if _is_untrusted(error):
                message = (
                    f"the certificate of {self._url} is not trusted; set its CA:"
                    f" enmasse context set NAME --server {self._url} --ca FILE"
                    " --token-file FILE"
                )
            else:
                reason = str(error) or type(error).__name__
                message = f"the platform at {self._url} does not answer ({reason}); is it running?"
            raise Unavailable(Code.SERVER_UNREACHABLE, message) from None


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _trusting(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise Missing(Code.SERVER_MISSING, f"cannot read the CA {ca}: {error}") from None


_FOREIGN: dict[int, Code] = {
    401: Code.ACCESS_DENIED,
    403: Code.ACCESS_DENIED,
    404: Code.NOT_FOUND,
    409: Code.STATE_CONFLICT,
    410: Code.VERSION_EXPIRED,
    413: Code.REQUEST_TOO_LARGE,
    429: Code.LIMIT_REACHED,
    503: Code.NOT_AVAILABLE,
    504: Code.NOT_AVAILABLE,
}
"""Error codes for HTTP statuses of a Kubernetes server."""


def _foreign(answer: httpx2.Response, status: Document) -> str:
    """Return our code for an error without one.

    Raises: KeyError if the response is not a Kubernetes Status.
    """
    if status["kind"] != "Status":
        raise KeyError("kind")
    if status.get("reason") == "AlreadyExists":
        return Code.ALREADY_EXISTS
    other = Code.REQUEST_INVALID if answer.status_code < 500 else Code.NOT_AVAILABLE
    return _FOREIGN.get(answer.status_code, other)


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _check(answer: httpx2.Response) -> None:
    """Raise the error of a refusal."""
    if answer.is_success:
        return
    try:
        status = answer.json()
        message = status["message"]
        details = status.get("details") or {}
        code: str = details["code"] if "code" in details else _foreign(answer, status)
        causes = details.get("causes") or []
        faults = [Fault(cause.get("field", ""), cause["message"]) for cause in causes]
        kind = list(ERRORS.values())[int(code[1]) - 1]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise PeerError(
            Code.PROTOCOL_BROKEN,
            f"{answer.url} answered {answer.status_code}, which is not an EnMasse response",
        ) from None
    raise kind(code, message, faults=faults)


def _ended(status: Document) -> EnMasseError:
    """Return the error that ended a watch."""
    if status.get("code") == 410:
        return Conflict(Code.VERSION_EXPIRED, status["message"])
    return Unavailable(Code.NOT_AVAILABLE, status["message"])


def _selecting(selector: str | None, fields: str | None) -> dict[str, str]:
    given = {"labelSelector": selector, "fieldSelector": fields}
    return {name: value for name, value in given.items() if value}


def _is_ready(document: Document) -> bool:
    """Whether the present spec of a resource is served, not an earlier one."""
    status, generation = document.get("status", {}), document["metadata"].get("generation", 0)
    return bool(
        status.get("isReady") and status.get("observedGeneration", generation) >= generation
    )


def _path(model: kinds.Named, namespace: str | None, name: str | None = None) -> str:
    """Return the path of a kind in all namespaces or one, or of one resource."""
    version = model.api_versions[0]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{namespace}" if model.namespaced and namespace else ""
    return f"{base}{inside}/{model.plural}{f'/{name}' if name else ''}"


def _collection(plural: str, document: Document) -> str:
    """Return the collection path of a document."""
    version = document["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = document["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def _selecting_name(document: Document) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={document['metadata']['name']}"}


def _present(document: Document, listed: list[Document]) -> Document:
    """Return the event that tells what has become of a resource."""
    uid = document["metadata"]["uid"]
    for one in listed:
        if one["metadata"]["uid"] == uid:
            return {"type": "MODIFIED", "object": one}
    return {"type": "DELETED", "object": document}


def _space_path(namespace: str, space: str) -> str:
    return f"{BASE}/namespaces/{namespace}/addressspaces/{quote(space, safe='')}"


def _connection_path(namespace: str, connection: str) -> str:
    return f"{BASE}/namespaces/{namespace}/connections/{quote(connection, safe='')}"
