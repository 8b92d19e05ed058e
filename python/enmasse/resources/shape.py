"""Size limits of a document, checked before its content. Pure."""

import json
from collections.abc import Mapping

NESTING_MAX = 100
"""Maximum nesting; a pod template has fewer than twenty levels."""

RESOURCE_VALUES_MAX = 50_000
"""Maximum values of a document of one resource, field names included. A ConfigMap with 12,000 keys
reaches it with its managed fields; a user with the maximum of addresses has about one per cent.
"""

RESOURCE_BYTES_MAX = 8 << 20
"""Maximum JSON bytes of a document of one resource, also after patches: six times a request of 1
MiB whose characters are all escaped.
"""

ALIASED_MAX = 1 << 20
"""Maximum characters that aliases of a YAML text may repeat."""


def excess(data: object, values_max: int = RESOURCE_VALUES_MAX) -> str:
    """Return which limit plain data exceeds, levels (NESTING_MAX) or values; empty if none.

    Takes at most `values_max` steps and no recursion: cyclic data exceeds the nesting limit, and
    shared data counts once per occurrence.
    """
    values = 1
    level = [data]
    for _ in range(NESTING_MAX):
        below: list[object] = []
        for one in level:
            if isinstance(one, Mapping):
                values += 2 * len(one)
                inner = one.values()
            elif isinstance(one, list | tuple):
                values += len(one)
                inner = one  # type: ignore[assignment]
            else:
                continue
            if values > values_max:
                return too_many(values_max)
            below += [each for each in inner if isinstance(each, Mapping | list | tuple)]
        if not below:
            return ""
        level = below
    return TOO_DEEP


def unwritable(data: object, bytes_max: int | None = None) -> str:
    """Return why data within the limits of `excess` cannot be written as JSON of the given size;
    empty if it can. JSON has no numbers beyond 64-bit floats (RFC 8259, 6) and no lone surrogates.
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, skipkeys=True, default=str)
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        return "it contains a lone surrogate (U+D800 to U+DFFF)"
    except ValueError:
        return "it contains a number that JSON cannot represent: NaN, or beyond 1.8e308"
    if bytes_max is not None and size_bytes > bytes_max:
        return f"it has more than {bytes_max:,} bytes"
    return ""


TOO_MUCH_ALIASED = f"its aliases repeat more than {ALIASED_MAX:,} characters"
TOO_DEEP = f"it is nested more than {NESTING_MAX} levels deep"


def too_many(values_max: int) -> str:
    """Return the error for a document with too many values."""
    return f"it has more than {values_max:,} values, counting field names and expanded aliases"
