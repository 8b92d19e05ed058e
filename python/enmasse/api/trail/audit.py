"""The audit trail: every caller, request and decision. Plain ASGI.

A record is one JSON line. It covers requests that change something, reads of confidential data
(Secrets, messages, backups, logs, the trail itself), and every refusal. Other permitted reads are
not recorded. The record is written before the response; if the disk refuses it, the platform
continues and logs the error. A record contains nothing of the request body, and of the response
only code, reason and the fields at fault.
"""

import json
from collections.abc import Mapping
from typing import Any

import structlog
from starlette.datastructures import Headers, QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from enmasse.api.http.attributes import attributes_of, version_of
from enmasse.base.bounded import Bounded
from enmasse.base.clock import Clock, rfc3339
from enmasse.base.rotated import RotatedFile
from enmasse.resources import API_VERSION
from enmasse.resources.model import NAME_LENGTH_MAX

log = structlog.get_logger(__name__)

FILE_BYTES_MAX = 10 << 20
FILES = 5
"""Maximum files of the trail, including the current one."""

TEXT_MAX = 500
"""Maximum characters of a client-supplied text in a record."""

ANSWER_BYTES_MAX = 1 << 16
"""Maximum bytes of a response that are searched for a name or reason."""

REFUSED_A_SECOND = 10
"""Refused and failed requests recorded per second for one token, and for all callers without a
valid token together. The others are counted, so that one caller cannot displace the records of
others.
"""

WHO = "enmasse.who"
"""Scope key of the caller, set by the guard."""

AS = "enmasse.as"
"""Scope key of the impersonated caller."""

STRANGER = "system:anonymous"

_READING = ("get", "list", "watch")
_CONFIDENTIAL = ("secrets", "logs", "audit", "backup")
_LONG = ("backup",)
"""Recorded when the response begins: a client that received a part of it has seen data."""

_REVIEWS_PREFIX = "selfsubject"
"""Prefix of the review kinds, which are answered and not stored."""


_RIGHTS_QUESTION = "accessreviews"
"""Subresource of questions about messaging users, which are answered and not stored."""


class Audit:
    """Records requests and their results."""

    def __init__(self, app: ASGIApp, file: RotatedFile, clock: Clock) -> None:
        self._app = app
        self._file = file
        self._clock = clock
        self._refused = Bounded(clock, REFUSED_A_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request and record the result."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = _asked(scope)
        answer = _Answer(send, lambda status, body: self._record(scope, asked, status, body))
        if asked["verb"] == "watch" or asked.get("resource") in _LONG:
            answer.records_at_start = True
        await self._app(scope, receive, answer)

    def _record(self, scope: Scope, asked: Mapping[str, Any], status: int, body: bytes) -> None:
        refused = status >= 400
        resource = asked.get("resource", "")
        reads = asked["verb"] in _READING and resource not in _CONFIDENTIAL
        reads = reads or resource.startswith(_REVIEWS_PREFIX)
        reads = reads or asked.get("subresource") == _RIGHTS_QUESTION
        # A permitted read of a missing resource reveals nothing; only a refused one is recorded.
        if reads and (not refused or status == 404):
            return
        who = scope.get(WHO, STRANGER)
        if refused and not self._refused.may_write(who):
            return
        document = _parsed(body)
        details = document.get("details") or {}
        name = asked.get("name") or _short(details.get("name") or _name(document) or "")
        record = {
            "time": rfc3339(self._clock.now()),
            "who": who,
            "as": scope.get(AS),
            "from": (scope.get("client") or ("",))[0],
            **asked,
            "name": name,
            "decision": "refused" if 400 <= status < 500 else "failed" if refused else "allowed",
            "status": status,
        }
        if refused:
            causes = details.get("causes") or []
            record |= {
                "code": details.get("code"),
                "reason": document.get("reason"),
                "fields": [_short(cause.get("field", "")) for cause in causes][:10] or None,
            }
        append(self._file, record | {"unwritten": self._refused.unwritten()})


def append(file: RotatedFile, record: Mapping[str, Any]) -> None:
    """Write a record without empty fields; log an error if the disk refuses it."""
    kept = {field: value for field, value in record.items() if value not in (None, "")}
    try:
        file.append(json.dumps(kept, ensure_ascii=False))
    except OSError as error:
        log.error("the audit trail cannot be written", reason=error.strerror or str(error))


class _Answer:
    """Forwards a response and writes the record before its last part."""

    def __init__(self, send: Send, done: Any) -> None:
        self._send = send
        self._done = done
        self._status = 0
        self._body = b""
        self._recorded = False
        self.records_at_start = False
        """Whether it is recorded when it begins: a watch has no defined end."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            if self.records_at_start and self._status < 400:
                self._record_once()
        elif message["type"] == "http.response.body" and not self._recorded:
            room = ANSWER_BYTES_MAX - len(self._body)
            self._body += message.get("body", b"")[: max(room, 0)]
            if not message.get("more_body"):
                self._record_once()
        await self._send(message)

    def _record_once(self) -> None:
        self._recorded = True
        self._done(self._status, self._body)


def _asked(scope: Scope) -> dict[str, Any]:
    """Return the attributes of a request from its request line: verb, resource, name.

    Each text is truncated to the maximum length of a resource name.
    """
    headers, query = Headers(scope=scope), QueryParams(scope.get("query_string", b""))
    about = attributes_of(scope)
    asked: dict[str, Any] = {"verb": _short(about.verb), "path": _short(about.path)}
    if about.resource:
        group = f"{about.group}/" if about.group else ""
        names = {
            "namespace": about.namespace if about.resource != "namespaces" else "",
            "resource": about.resource,
            "name": about.name,
            "subresource": about.subresource,
            "group": f"{group}{version_of(about.path)}",
        }
        asked |= {name: _short(text) for name, text in names.items() if text}
        asked["dryRun"] = True if query.get("dryRun") else None
    return asked | {"agent": _short(headers.get("user-agent", ""))}


def _parsed(body: bytes) -> dict[str, Any]:
    if len(body) >= ANSWER_BYTES_MAX:
        return {}
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _name(document: Mapping[str, Any]) -> str | None:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else None


def _short(text: object) -> str:
    return str(text)[:NAME_LENGTH_MAX]


PATH = f"/apis/{API_VERSION}/audit"
"""Path of the trail itself."""
