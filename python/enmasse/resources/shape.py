"""How much one document may be, counted before anything looks at what it says. Pure."""

from collections.abc import Mapping

NESTING_MAX = 100
"""Levels of a document; what a pod template nests to is below twenty."""

RESOURCE_VALUES_MAX = 50_000
"""Values of a document that stands for one resource, names of fields among them. A ConfigMap of
12,000 keys has that many with the list of who has set which; a user with all the addresses that it
may have has a tenth of a tenth."""


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


TOO_DEEP = f"it is nested more than {NESTING_MAX} levels deep"


def too_many(values_max: int) -> str:
    """Return what is said of a document with more than so many values."""
    return f"it has more than {values_max:,} values, names of fields and what aliases repeat too"
