"""Attributes of a request, derived from its request line as in Kubernetes."""

from starlette.datastructures import QueryParams
from starlette.types import Scope

from enmasse.auth.roles import Attributes

_ATTRIBUTES = "enmasse.attributes"
"""Key of a scope for the attributes of its request."""

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_NAMESPACES = ("status", "finalize")
"""Subresources of a namespace; other paths below it are namespaced resources."""


def attributes_of(scope: Scope) -> Attributes:
    """Return the attributes of a request. A non-resource path has only the path."""
    # The audit trail and the access check both ask.
    found: Attributes | None = scope.get(_ATTRIBUTES)
    if found is None:
        found = scope[_ATTRIBUTES] = _attributes_of(scope)
    return found


def _attributes_of(scope: Scope) -> Attributes:
    path, method = scope["path"], scope["method"]
    verb = _VERBS.get(method, method.lower())
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Attributes(verb, path=path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and not (len(rest) == 3 and rest[2] in _OF_NAMESPACES):
            rest = rest[2:]
    resource, name, below = (*rest, "", "")[:3]
    if not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    if verb in ("get", "list") and scope.get("query_string"):
        query = QueryParams(scope["query_string"])
        if {query.get("watch"), query.get("follow")} & {"true", "1"}:
            verb = "watch"
    return Attributes(verb, group, resource, below, namespace, name, path)


def version_of(path: str) -> str:
    """Return the API version in the path of a resource."""
    parts = path.strip("/").split("/")
    return parts[1] if parts[0] == "api" else parts[2]
