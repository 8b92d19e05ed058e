"""What handlers read from a request."""

import json
from typing import Any

from starlette.requests import Request

from enmasse.api import protobuf
from enmasse.base.errors import Code, Invalid


async def json_body(request: Request) -> Any:
    """Return the body, which must be JSON, or protobuf where a kind is read from it.

    Raises: Invalid if it is none, or gives a member of an object twice.
    """
    if media_type(request) == protobuf.MEDIA_TYPE:
        return protobuf.document(await request.body())
    try:
        return json.loads(await request.body(), object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"the body is not JSON: {error}") from None


async def object_body(request: Request) -> dict[str, Any]:
    """Return the body, which must be a JSON object.

    Raises: Invalid if it is none.
    """
    data = await json_body(request)
    if not isinstance(data, dict):
        raise Invalid(Code.DOCUMENT_UNREADABLE, "the body must be a JSON object")
    return data


def media_type(request: Request) -> str:
    """Return the media type of the body, without its options."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice in one object; keep one of the two")
        found[name] = value
    return found
