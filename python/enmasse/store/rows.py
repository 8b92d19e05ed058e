"""Resources as the text of a row."""

import json

from enmasse.resources import Resource, parse


def text_of(resource: Resource) -> str:
    """Return the stored text of a resource: its document in ASCII."""
    return json.dumps(resource.document(), separators=(",", ":"))


def resource_of(text: str) -> Resource:
    """Return the resource of a stored text.

    Raises: Invalid or ValueError if it is malformed.
    """
    return parse(json.loads(text), stored=True)
