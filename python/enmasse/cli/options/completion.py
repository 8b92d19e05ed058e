"""Shell completion of kinds and resource names.

A failed completion is empty and silent, and takes at most one second.
"""

from collections.abc import Iterator
from typing import Any

from enmasse.base.errors import EnMasseError

TIMEOUT_S = 1.0


def words(ctx: Any, incomplete: str) -> list[str]:
    """Complete `KIND[,KIND] [NAME...]` and `KIND/NAME...`."""
    from enmasse.cli.resources import kinds

    given = list(ctx.params.get("words") or [])
    if "/" in incomplete:
        kind, _, name = incomplete.partition("/")
        return [f"{kind}/{one}" for one in _names(ctx, kind) if one.startswith(name)]
    if given and "/" not in given[0]:
        first = given[0].rpartition(",")[2]
        return [one for one in _names(ctx, first) if one.startswith(incomplete)]
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{one}" for one in sorted(kinds.NAMES) if one.startswith(last)]


def addresses(ctx: Any, incomplete: str) -> list[str]:
    """Complete the name of an address."""
    return [one for one in _names(ctx, "address") if one.startswith(incomplete)]


def _names(ctx: Any, kind: str) -> list[str]:
    """Return the names of a kind for users; empty on failure."""
    from enmasse.cli.resources import kinds

    found = kinds.find(kind)
    try:
        return sorted(set(_listed(ctx, found))) if found else []
    except EnMasseError:
        return []


def _listed(ctx: Any, kind: Any) -> Iterator[str]:
    from enmasse.cli.connect.client import Api
    from enmasse.cli.resources.names import FIELDS, client_names, is_in_space

    options = ctx.params
    where = (options.get("data"), options.get("server"), options.get("token_file"))
    space = str(options.get("space") or "").partition(".")[0]
    with Api.find(*where, timeout_s=TIMEOUT_S) as api:
        field = FIELDS.get(kind.plural)
        for one in api.list(kind.plural, options.get("namespace"))["items"]:
            if not space or is_in_space(kind, one, space):
                yield client_names(one, field)[0] if field else one["metadata"]["name"]
