"""What handlers read from a request."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.requests import Request

from enmasse.api import protobuf
from enmasse.base.errors import Code, Invalid
from enmasse.resources import one_document
from enmasse.resources.shape import TOO_DEEP, excess, unwritable

YAML = "application/yaml"

TURN = "enmasse.turn"
"""Where in a scope the guard says how what is large is worked on."""

BYTES_AT_ONCE_MAX = 64 << 10
"""Bytes of a body that is worked on at once. A larger one waits for a turn beside the event loop,
so that nobody else waits for it; the bytes bound the values of those that do not."""

_Result = TypeVar("_Result")


async def in_turn(request: Request, work: Callable[[], _Result], *, large: bool) -> _Result:
    """Return what `work` returns, which has no side effects: of what is large in the turn of who
    asks."""
    if not large:
        return work()
    result: _Result = await request.scope[TURN](work)
    return result


async def is_large(request: Request) -> bool:
    """Whether the body is worked on in turns."""
    return len(await request.body()) > BYTES_AT_ONCE_MAX


async def json_body(request: Request) -> Any:
    """Return the body: JSON, unless its media type is that of YAML, or that of protobuf, from which
    some kinds are read.

    Raises: Invalid if it is none, gives a member of an object twice, has more than one resource
        has, or what JSON cannot say.
    """
    body = await request.body()
    read = _READERS.get(media_type(request), _json)
    return await in_turn(request, lambda: read(body), large=await is_large(request))


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


def _json(body: bytes) -> Any:
    try:
        data = json.loads(body, object_pairs_hook=_once_each)
    except ValueError as error:
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"the body is not read: {TOO_DEEP}") from None
    if problem := excess(data) or unwritable(data):
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"the body is not read: {problem}")
    return data


def _yaml(body: bytes) -> Any:
    return one_document(body.decode(errors="replace"))


_READERS: Mapping[str, Callable[[bytes], Any]] = {
    protobuf.MEDIA_TYPE: protobuf.document,
    YAML: _yaml,
}
"""How a body is read by its media type; any other one is JSON."""


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice in one object; keep one of the two")
        found[name] = value
    return found
