"""What handlers read from a request."""

import json
from typing import Any

from starlette.requests import Request

from enmasse.base.errors import Code, Invalid


async def object_body(request: Request) -> dict[str, Any]:
    """Return the body, which must be a JSON object.

    Raises: Invalid if it is none.
    """
    try:
        data = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise Invalid(Code.DOCUMENT_UNREADABLE, "the body must be a JSON object")
    return data
