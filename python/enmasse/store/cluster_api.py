"""Requests to a Kubernetes API server, and the mapping of its errors."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2

from enmasse.base.errors import Code, Conflict, EnMasseError, Fault, Invalid, Missing, Unavailable
from enmasse.store.cluster import Cluster

MANAGER = "enmasse"
"""Field manager of our writes."""

REQUEST_TIMEOUT_S = 30.0
"""Maximum wait for a response; the server itself gives up after 60 s."""

SILENCE_S = 150.0
"""Maximum silence on a watch; the server sends a bookmark every minute."""

PAGE = 500
"""Resources per list page."""

LINE_BYTES_MAX = 16 << 20
"""Maximum line length of a watch; etcd stores no resource above 1.5 MiB."""

CONNECTIONS_MAX = 64
"""Maximum connections; each watched kind holds one permanently."""

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
_STRICT = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
_DRY_RUN = {"dryRun": "All"}
Document = dict[str, Any]


class ClusterApi:
    """The API server of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises: Invalid if a certificate is unusable."""
        self.name = cluster.name
        self.namespace = cluster.namespace
        name = {"sni_hostname": cluster.tls_name} if cluster.tls_name else {}
        self._extensions = name
        self._client = httpx2.AsyncClient(
            base_url=cluster.server,
            auth=cluster.credentials,
            verify=cluster.tls(),
            proxy=cluster.proxy,
            trust_env=False,
            timeout=REQUEST_TIMEOUT_S,
            limits=httpx2.Limits(max_connections=CONNECTIONS_MAX),
        )

    async def get(self, path: str, **params: str) -> Document:
        """Return one resource or a list.

        Raises: as `send`.
        """
        return await self.send("GET", path, params=params)

    async def write(
        self,
        method: str,
        path: str,
        body: object,
        *,
        dry_run: bool = False,
        media: str = JSON,
        strict: bool = True,
    ) -> Document:
        """Write a resource and return the server's version of it. A field unknown to the server is
        an error.

        Raises: as `send`.
        """
        params = (_STRICT if strict else {"fieldManager": MANAGER}) | (_DRY_RUN if dry_run else {})
        return await self.send(method, path, body, params=params, media=media)

    async def delete(
        self, path: str, uid: str | None, *, version: str | None = None, dry_run: bool = False
    ) -> Document:
        """Delete the resource with a uid, or in a version; the response may or may not be the
        resource.

        Raises: as `send`; Conflict if the name belongs to another resource, or it has changed.
        """
        body: Document = {"kind": "DeleteOptions", "apiVersion": "v1"}
        required = {"uid": uid, "resourceVersion": version}
        if wanted := {name: one for name, one in required.items() if one is not None}:
            body["preconditions"] = wanted
        return await self.send("DELETE", path, body, params=_DRY_RUN if dry_run else {})

    async def list(self, path: str, **params: str) -> tuple[list[Document], int]:
        """Return all resources of a path, page by page, and their version.

        Raises: as `send`; Conflict (VERSION_EXPIRED) if it takes too long.
        """
        found: list[Document] = []
        more: dict[str, str] = {}
        while True:
            page = await self.get(path, limit=str(PAGE), **params, **more)
            found += page.get("items") or ()
            if not (token := page["metadata"].get("continue")):
                return found, int(page["metadata"]["resourceVersion"])
            more = {"continue": token}

    async def revision(self, path: str) -> int:
        """Return a version at least as new as any completed write.

        Raises: as `send`.
        """
        return int((await self.get(path, limit="1"))["metadata"]["resourceVersion"])

    async def watch(self, path: str, since: int, **params: str) -> AsyncGenerator[Document, None]:
        """Yield the events of a watch until the server ends it, as it does every few minutes.

        Raises: as `send`; Conflict (VERSION_EXPIRED) if the version has been compacted.
        """
        asked = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": str(since)}
        timeout = httpx2.Timeout(REQUEST_TIMEOUT_S, read=SILENCE_S)
        try:
            async with self._client.stream(
                "GET", path, params=asked | params, timeout=timeout, extensions=self._extensions
            ) as response:
                if response.status_code >= 400:
                    raise self._error("GET", path, response.status_code, await response.aread())
                rest = b""
                async for part in response.aiter_bytes():
                    *lines, rest = (rest + part).split(b"\n")
                    if len(rest) > LINE_BYTES_MAX:
                        raise self._unusable("a line of a watch is too long")
                    for line in filter(None, lines):
                        yield self._event(path, line)
        except (httpx2.HTTPError, OSError) as error:
            raise self._unreached(error) from error

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str],
        media: str = JSON,
    ) -> Document:
        """Send one request and return the response document.

        Raises: Missing, Conflict, Invalid as the server reports; Unavailable if it does not
            respond, is overloaded, or denies access.
        """
        content = None if body is None else json.dumps(body).encode()
        try:
            # The client's time-outs bound each part of the response, this one the whole of it.
            async with asyncio.timeout(2 * REQUEST_TIMEOUT_S):
                response = await self._client.request(
                    method,
                    path,
                    params=dict(params),
                    content=content,
                    headers={"content-type": media, "accept": JSON},
                    extensions=self._extensions,
                )
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            raise self._unreached(error) from error
        if response.status_code >= 400:
            raise self._error(method, path, response.status_code, response.content)
        return self._document(response.content)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
        # The event loop releases sockets in its next iteration.
        await asyncio.sleep(0)

    def _event(self, path: str, line: bytes) -> Document:
        event = self._document(line)
        if event.get("type") == "ERROR":
            status = event.get("object") or {}
            code = int(status.get("code") or 500)
            raise self._error("GET", path, code, json.dumps(status).encode())
        return event

    def _document(self, text: bytes) -> Document:
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise self._unusable("a response is not a JSON object")
        return document

    def _error(self, method: str, path: str, code: int, text: bytes) -> EnMasseError:
        try:
            status = self._document(text)
        except Unavailable:
            status = {}
        # Missing rights and outdated definitions are for the operator of this process to correct;
        # all other refusals concern the request.
        detail = str(status.get("message") or f"HTTP {code}")
        reason, details = status.get("reason"), status.get("details") or {}
        if code == 404:
            return Missing(Code.RESOURCE_MISSING, detail)
        if code == 409:
            exists = reason == "AlreadyExists"
            return Conflict(Code.ALREADY_EXISTS if exists else Code.VERSION_CONFLICT, detail)
        if code == 410:
            return Conflict(Code.VERSION_EXPIRED, detail)
        if "strict decoding error" in detail:
            return self._unusable(
                f"{detail}; its definitions are outdated: run enmasse crds |"
                " kubectl apply --server-side -f -"
            )
        if code in (400, 413, 422):
            causes = details.get("causes") or ()
            faults = [Fault(one.get("field", ""), one.get("message", "")) for one in causes]
            return Invalid(Code.FIELD_INVALID, detail, faults=faults)
        if code in (401, 403):
            return self._unusable(f"{detail}; grant this process that right ({method} {path})")
        return self._unusable(detail)

    def _unreached(self, error: Exception) -> Unavailable:
        return self._unusable(f"{str(error) or type(error).__name__}; check the"
                              " server and --store")  # fmt: skip

    def _unusable(self, why: str) -> Unavailable:
        return Unavailable(Code.STORE_UNUSABLE, f"{self.name}: {why}", retry_after_s=1.0)
