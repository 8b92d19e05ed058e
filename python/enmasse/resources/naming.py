"""Resource names for addresses and users."""

import re

from enmasse.base.ids import short_hash

_PART_MAX = 50


def resource_name(space: str, text: str) -> str:
    """Return a deterministic resource name for any address or user name.

    A valid text is unchanged; from others the valid characters are kept and a hash of the whole
    makes the name unique.
    """
    cleaned = _cleaned(text)
    return f"{space}.{text}" if cleaned == text else hashed_name(space, text)


def hashed_name(space: str, text: str) -> str:
    """Return the resource name with a hash, whether the text is valid or not."""
    return f"{space}.{'-'.join(filter(None, [_cleaned(text), short_hash(text)]))}"


def _cleaned(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_PART_MAX].strip("-")
