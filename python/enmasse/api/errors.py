"""Maps errors to HTTP statuses and Kubernetes `Status` objects."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.kinds import SERVED, Kind
from enmasse.base import errors
from enmasse.base.errors import Code, EnMasseError


class Answer(NamedTuple):
    """An HTTP status with its Kubernetes reason."""

    status: int
    reason: str


BY_KIND: dict[type[EnMasseError], Answer] = {
    errors.Invalid: Answer(400, "BadRequest"),
    errors.Denied: Answer(403, "Forbidden"),
    errors.Missing: Answer(404, "NotFound"),
    errors.Conflict: Answer(409, "Conflict"),
    errors.Exhausted: Answer(429, "TooManyRequests"),
    errors.Unavailable: Answer(503, "ServiceUnavailable"),
    errors.PeerError: Answer(502, "BadGateway"),
    errors.Misuse: Answer(500, "InternalError"),
}
"""The status of every error class."""

BY_CODE: dict[str, Answer] = {
    Code.FIELD_INVALID: Answer(422, "Invalid"),
    Code.FIELD_IMMUTABLE: Answer(422, "Invalid"),
    Code.KIND_UNKNOWN: Answer(422, "Invalid"),
    Code.SPACE_ABSENT: Answer(422, "Invalid"),
    Code.SPACE_EXPOSED: Answer(422, "Invalid"),
    Code.REFERENCE_INVALID: Answer(422, "Invalid"),
    Code.CHOICE_INVALID: Answer(422, "Invalid"),
    Code.OPERATION_UNFIT: Answer(422, "Invalid"),
    Code.PARAMETER_INVALID: Answer(422, "Invalid"),
    Code.PATCH_UNFIT: Answer(422, "Invalid"),
    Code.FORM_UNSUPPORTED: Answer(406, "NotAcceptable"),
    Code.VERSION_AHEAD: Answer(504, "Timeout"),
    Code.RECEIVER_ABSENT: Answer(504, "Timeout"),
    Code.PATCH_UNSUPPORTED: Answer(415, "UnsupportedMediaType"),
    Code.TOKEN_REQUIRED: Answer(401, "Unauthorized"),
    Code.LOGIN_REFUSED: Answer(401, "Unauthorized"),
    Code.VERB_REFUSED: Answer(405, "MethodNotAllowed"),
    Code.ALREADY_EXISTS: Answer(409, "AlreadyExists"),
    Code.VERSION_EXPIRED: Answer(410, "Expired"),
    Code.QUOTA_EXCEEDED: Answer(403, "Forbidden"),
    Code.REQUEST_TOO_LARGE: Answer(413, "RequestEntityTooLarge"),
    Code.OPERATION_UNSUPPORTED: Answer(501, "NotImplemented"),
}
"""Codes with a more specific Kubernetes reason."""


REASONS: dict[str, str] = {
    Code.FIELD_OWNED: "FieldManagerConflict",
    Code.QUOTA_EXCEEDED: "QuotaExceeded",
}
"""Cause of an error that is not an invalid field."""


def answer_to(error: EnMasseError) -> Answer:
    """Return the HTTP status and reason of an error."""
    return BY_CODE.get(error.code) or BY_KIND[type(error)]


def status_object(error: EnMasseError, about: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the Kubernetes `Status` of an error, with a cause per invalid field.

    `about` is the resource of the request: name, kind and group.
    """
    answer = answer_to(error)
    # kubectl prints the causes. The EnMasse code stays when the text of a message changes.
    details: dict[str, Any] = {**(about or {}), "code": str(error.code)}
    if error.faults:
        reason = REASONS.get(error.code, "FieldValueInvalid")
        details["causes"] = [
            {"reason": reason, "field": fault.field, "message": fault.message}
            for fault in error.faults
        ]
    if error.code == Code.VERSION_AHEAD:
        details["causes"] = [{"reason": "ResourceVersionTooLarge", "message": error.message}]
    if error.retry_after_s is not None:
        details["retryAfterSeconds"] = round(error.retry_after_s)
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": answer.reason,
        "details": details,
        "code": answer.status,
    }


def error_response(error: EnMasseError, about: Mapping[str, str] | None = None) -> Response:
    """Return the response for an error; `about` as in `status_object`."""
    status = answer_to(error).status
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(round(error.retry_after_s))
    return JSONResponse(status_object(error, about), status, headers)


async def handle_error(request: Request, error: Exception) -> Response:
    """Respond with an error that a handler raised."""
    assert isinstance(error, EnMasseError)
    return error_response(error, _about(request, error))


def _about(request: Request, error: EnMasseError) -> dict[str, str]:
    """Return the resource of a request, as far as its path determines it."""
    kind = next((kind for kind in SERVED if _is_about(kind, request.url.path)), None)
    if kind is None:
        return {}
    # Kubernetes names the kind of an invalid resource, and the plural in other errors.
    invalid = answer_to(error).reason == "Invalid"
    about = {"kind": kind.name if invalid else kind.model.plural}
    if name := request.path_params.get("name") or error.context.get("name"):
        about["name"] = name
    return about | ({"group": kind.group} if kind.group else {})


def _is_about(kind: Kind, path: str) -> bool:
    rest = path.removeprefix(f"{kind.base}/")
    if rest == path:
        return False
    parts = rest.split("/")
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return parts[0] == kind.model.plural
