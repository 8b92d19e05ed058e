"""How much one document may be, counted before anything looks at what it says. Pure."""

import json
from collections.abc import Mapping

NESTING_MAX = 100
"""Levels of a document; what a pod template nests to is below twenty."""

RESOURCE_VALUES_MAX = 50_000
"""Values of a document that stands for one resource, names of fields among them. A ConfigMap of
12,000 keys has that many with the list of who has set which; a user with all the addresses that it
may have has a tenth of a tenth."""

RESOURCE_BYTES_MAX = 8 << 20
"""Bytes of a document that stands for one resource, as JSON, however often it is patched: what one
request of 1 MiB can say has six times as many, if all of it has to be escaped."""

ALIASED_MAX = 1 << 20
"""Characters that the aliases of a YAML text may repeat."""


def excess(data: object, values_max: int = RESOURCE_VALUES_MAX) -> str:
    """Return what plain data has too much of, levels (NESTING_MAX) or values; empty: it fits.

    Takes as many steps as there are values, at most `values_max`, and no stack: data that holds
    itself is nested too deeply, and data that is in several places counts in each.
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
    """Return why what `excess` lets through cannot be written as JSON of so many bytes; empty: it
    can. JSON has no number beyond those of 64 bits (RFC 8259, 6), and no half of a character."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, skipkeys=True, default=str)
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        return "it has half of a surrogate pair (U+D800 to U+DFFF), which is no character"
    except ValueError:
        return "it has a number that is none in JSON: NaN, or beyond 1.8e308"
    if bytes_max is not None and size_bytes > bytes_max:
        return f"it has more than {bytes_max:,} bytes"
    return ""


TOO_MUCH_ALIASED = f"its aliases repeat more than {ALIASED_MAX:,} characters"
TOO_DEEP = f"it is nested more than {NESTING_MAX} levels deep"


def too_many(values_max: int) -> str:
    """Return what is said of a document with more than so many values."""
    return f"it has more than {values_max:,} values, names of fields and what aliases repeat too"
