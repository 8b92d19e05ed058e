"""OpenAPI v3 of the paths of `enmasse.io` that are no resources: messages, connections, live and
past values.
"""

from typing import Any, NamedTuple

from enmasse.api.access.message_rights import ReviewRequest
from enmasse.api.console.web_socket import TokenRequest
from enmasse.api.http.bodies import YAML
from enmasse.api.messages.answers import DeadLettersAnswer, OperationAnswer, SendAnswer
from enmasse.api.messages.dead_letters import DeadLettersRequest
from enmasse.api.messages.operations import OperationRequest
from enmasse.api.messages.send import SendRequest
from enmasse.api.messages.streams import StreamPeek
from enmasse.engines import Operation, SessionKind
from enmasse.resources import API_VERSION
from enmasse.resources.model import Model
from enmasse.resources.schema import schema

Document = dict[str, Any]

BASE = f"/apis/{API_VERSION}"
INSIDE = f"{BASE}/namespaces/{{namespace}}"
_TEXT: Document = {"type": "string"}
_SESSION_KIND: Document = {"type": "string", "enum": list(SessionKind)}
# A query has texts only, so `boolean` would exclude 1 and 0, which are accepted as in Kubernetes.
_FLAG: Document = {"type": "string", "enum": ["true", "false", "1", "0"]}
_COUNT: Document = {"type": "integer", "minimum": 0}
_OBJECT: Document = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LIST: Document = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "kind": _TEXT,
        "apiVersion": _TEXT,
        "metadata": _OBJECT,
        "items": {"type": "array", "items": _OBJECT},
    },
}


_MESSAGES: tuple[type[Model], ...] = (
    *(OperationRequest, StreamPeek, SendRequest, DeadLettersRequest),
    *(OperationAnswer, SendAnswer, DeadLettersAnswer),
)
"""Models with a component of their own, by which generated clients name them."""


def _component(model: type[Model]) -> str:
    group, _, version = API_VERSION.partition("/")
    return f"{'.'.join(reversed(group.split('.')))}.{version}.{model.__name__}"


def _reference(model: type[Model]) -> Document:
    return {"$ref": f"#/components/schemas/{_component(model)}"}


def components() -> Document:
    """Return the schemas of operations on messages by their names."""
    return {_component(one): schema(one) for one in _MESSAGES}


class ReviewedDocument(Model):
    """The document of an address plan, address space plan, infra config or authentication
    service, as it would be written.
    """

    api_version: str
    kind: str
    metadata: dict[str, Any]
    spec: dict[str, Any]


class Described(NamedTuple):
    """One request."""

    path: str
    method: str
    summary: str
    answer: Document
    body: type[Model] | tuple[type[Model], ...] | None = None
    """One of several by what the path names."""

    parameters: tuple[tuple[str, Document], ...] = ()


SORTING: tuple[tuple[str, Document], ...] = (
    ("sortBy", _TEXT),
    ("contains", _TEXT),
    ("offset", _COUNT),
    ("statistics", _FLAG),
)
"""Parameters of lists, besides those of Kubernetes."""

_PAGING: tuple[tuple[str, Document], ...] = (("limit", _COUNT), ("continue", _TEXT))
_RANGE: tuple[tuple[str, Document], ...] = tuple(
    (name, _TEXT) for name in ("query", "start", "end", "step")
)
_ADDRESS = f"{INSIDE}/addresses/{{name}}"


def described() -> list[Described]:
    """Return every request."""
    done = _reference(OperationAnswer)
    messages = [
        Described(
            f"{_ADDRESS}/{one}",
            "post",
            f"{one} messages",
            done,
            # Of a stream a peek begins at an offset or a time.
            (OperationRequest, StreamPeek) if one is Operation.PEEK else OperationRequest,
        )
        for one in Operation
    ]
    live = [
        Described(f"{base}/{name}", "get", summary, _OBJECT, None, parameters)
        for name, summary, parameters in (
            ("samples", "Live values of addresses and spaces", (("address", _TEXT),)),
            ("overview", "Counts, and what is not ready", ()),
            ("query_range", "Past values", _RANGE),
        )
        for base in (BASE, INSIDE)
    ]
    selecting = (("space", _TEXT), ("address", _TEXT), *_PAGING)
    return [
        *messages,
        Described(
            f"{_ADDRESS}/send", "post", "Send a message", _reference(SendAnswer), SendRequest
        ),
        Described(
            f"{_ADDRESS}/deadletters",
            "post",
            "Dead letters by cause",
            _reference(DeadLettersAnswer),
            DeadLettersRequest,
        ),
        Described(f"{_ADDRESS}/links", "get", "Links at an address", _LIST),
        Described(f"{INSIDE}/pipelines/{{name}}/report", "get", "State of a pipeline", _OBJECT),
        *live,
        Described(f"{INSIDE}/connections", "get", "Connections", _LIST, None, selecting),
        Described(f"{INSIDE}/connections/{{id}}", "get", "A connection with its links", _OBJECT),
        Described(f"{INSIDE}/connections/{{id}}", "delete", "Close a connection", _OBJECT),
        *_mqtt(),
        Described(
            f"{INSIDE}/addressspaces/{{name}}/accessreviews",
            "post",
            "Whether a messaging user may do something",
            _OBJECT,
            ReviewRequest,
        ),
        Described(
            f"{BASE}/changereviews", "post", "What a change would change", _OBJECT, ReviewedDocument
        ),
        Described(
            f"{INSIDE}/addressspaces/{{name}}/connectiontokens",
            "post",
            "A token for one messaging connection of a page",
            _OBJECT,
            TokenRequest,
        ),
    ]


def _mqtt() -> list[Described]:
    space = f"{INSIDE}/addressspaces/{{name}}"
    retained, sessions = f"{space}/retained", f"{space}/mqttsessions"
    clearing = (("filter", _TEXT), *_PAGING)
    name = (("clientId", _TEXT), ("user", _TEXT), ("kind", _SESSION_KIND), ("link", _TEXT))
    return [
        Described(retained, "get", "Retained messages", _LIST, None, clearing),
        Described(retained, "delete", "Delete retained messages", _OBJECT, None, clearing),
        Described(sessions, "get", "MQTT sessions", _LIST, None, _PAGING),
        Described(sessions, "delete", "End an MQTT session", _OBJECT, None, name),
    ]


def paths(refused: Document) -> Document:
    """Return the paths; `refused` is the response to every refused request."""
    found: Document = {}
    for one in described():
        item = found.setdefault(one.path, {"parameters": _in_path(one.path)})
        operation: Document = {
            "tags": [API_VERSION.replace("/", "_")],
            "description": one.summary,
            "parameters": [
                {"name": name, "in": "query", "schema": of} for name, of in one.parameters
            ],
            "responses": {
                "200": {
                    "description": "Done",
                    "content": {"application/json": {"schema": one.answer}},
                },
                "default": refused,
            },
        }
        if one.body is not None:
            content = {media: {"schema": _body(one.body)} for media in ("application/json", YAML)}
            operation["requestBody"] = {"required": True, "content": content}
        item[one.method] = operation
    return found


def _body(model: type[Model] | tuple[type[Model], ...]) -> Document:
    if isinstance(model, tuple):
        return {"anyOf": [_body(one) for one in model]}
    return _reference(model) if model in _MESSAGES else schema(model)


def _in_path(path: str) -> list[Document]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _TEXT}
        for name in ("namespace", "name", "id")
        if f"{{{name}}}" in path
    ]
