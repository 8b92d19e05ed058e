"""Reading request bodies."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.requests import Request

from enmasse.api.http import protobuf
from enmasse.base.errors import Code, Invalid
from enmasse.resources import one_document
from enmasse.resources.shape import TOO_DEEP, excess, unwritable

YAML = "application/yaml"

TURN = "enmasse.turn"
"""Scope key of the turns for large bodies, set by the guard."""

BYTES_AT_ONCE_MAX = 64 << 10
"""Maximum body that is processed on the event loop. Larger ones take turns in threads, so that
other requests do not wait.
"""

_Result = TypeVar("_Result")


async def in_turn(request: Request, work: Callable[[], _Result], *, large: bool) -> _Result:
    """Return the result of `work`, without side effects; a large body takes the caller's turn."""
    if not large:
        return work()
    result: _Result = await request.scope[TURN](work)
    return result


async def is_large(request: Request) -> bool:
    """Whether the body is processed in turns."""
    return len(await request.body()) > BYTES_AT_ONCE_MAX


async def json_body(request: Request) -> Any:
    """Return the body: JSON, or YAML or protobuf by media type.

    Raises: Invalid if it is malformed, has a duplicate key, exceeds the limits of a resource, or
        contains a value that JSON cannot represent.
    """
    body = await request.body()
    read = _READERS.get(media_type(request), _json)
    return await in_turn(request, lambda: read(body), large=await is_large(request))


async def object_body(request: Request) -> dict[str, Any]:
    """Return the body, which must be a JSON object.

    Raises: Invalid if it is something else.
    """
    data = await json_body(request)
    if not isinstance(data, dict):
        raise Invalid(Code.DOCUMENT_UNREADABLE, "the body must be a JSON object")
    return data


def media_type(request: Request) -> str:
    """Return the media type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _json(body: bytes) -> Any:
    try:
        data = json.loads(body, object_pairs_hook=_once_each)
    except ValueError as error:
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"invalid body: {TOO_DEEP}") from None
    if problem := excess(data) or unwritable(data):
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"invalid body: {problem}")
    return data


def _yaml(body: bytes) -> Any:
    return one_document(body.decode(errors="replace"))


_READERS: Mapping[str, Callable[[bytes], Any]] = {
    protobuf.MEDIA_TYPE: protobuf.document,
    YAML: _yaml,
}
"""Decoders by media type; all others are JSON."""


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"duplicate key {name!r}; keep one of the two")
        found[name] = value
    return found
