"""The edge's table: from our errors to HTTP statuses and Kubernetes `Status` objects."""

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.base import errors
from enmasse.base.errors import Code, EnMasseError


class Answer(NamedTuple):
    """An HTTP status, and the reason word of Kubernetes that goes with it."""

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
"""What every kind of error becomes."""

BY_CODE: dict[str, Answer] = {
    Code.FIELD_INVALID: Answer(422, "Invalid"),
    Code.FIELD_IMMUTABLE: Answer(422, "Invalid"),
    Code.KIND_UNKNOWN: Answer(422, "Invalid"),
    Code.SPACE_ABSENT: Answer(422, "Invalid"),
    Code.SPACE_EXPOSED: Answer(422, "Invalid"),
    Code.REFERENCE_INVALID: Answer(422, "Invalid"),
    Code.OPERATION_UNFIT: Answer(422, "Invalid"),
    Code.PATCH_UNSUPPORTED: Answer(415, "UnsupportedMediaType"),
    Code.TOKEN_REQUIRED: Answer(401, "Unauthorized"),
    Code.VERB_REFUSED: Answer(405, "MethodNotAllowed"),
    Code.ALREADY_EXISTS: Answer(409, "AlreadyExists"),
    Code.VERSION_EXPIRED: Answer(410, "Expired"),
    Code.REQUEST_TOO_LARGE: Answer(413, "RequestEntityTooLarge"),
    Code.OPERATION_UNSUPPORTED: Answer(501, "NotImplemented"),
}
"""Where Kubernetes has a word of its own for one of our codes."""


def answer_to(error: EnMasseError) -> Answer:
    """Return the HTTP status and reason of an error."""
    return BY_CODE.get(error.code) or BY_KIND[type(error)]


def status_object(error: EnMasseError) -> dict[str, Any]:
    """Return the Kubernetes `Status` of an error, with a cause for each field at fault."""
    answer = answer_to(error)
    details: dict[str, Any] = {"code": str(error.code)}
    if error.faults:
        details["causes"] = [
            {"reason": "FieldValueInvalid", "field": fault.field, "message": fault.message}
            for fault in error.faults
        ]
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


def error_response(error: EnMasseError) -> Response:
    """Return the response that tells an error."""
    status = answer_to(error).status
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(round(error.retry_after_s))
    return JSONResponse(status_object(error), status, headers)


async def handle_error(_request: Request, error: Exception) -> Response:
    """Answer with an error that a handler raised on purpose."""
    assert isinstance(error, EnMasseError)
    return error_response(error)
