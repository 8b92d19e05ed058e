"""Shell completion of kinds and resource names.

A failed completion is empty and silent, and takes at most one second.
"""

from collections.abc import Callable, Iterator
from typing import Any

from enmasse.base.errors import EnMasseError

TIMEOUT_S = 1.0

Completer = Callable[[Any, str], list[str]]


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


def of(kind: str, type_: str | None = None, namespace: str | None = None) -> Completer:
    """Return a function that completes the names of a kind.

    With `type_`, of that type only; with `namespace`, of that one instead of the command's.
    """

    def complete(ctx: Any, incomplete: str) -> list[str]:
        return [one for one in _names(ctx, kind, type_, namespace) if one.startswith(incomplete)]

    return complete


def tokens(ctx: Any, incomplete: str) -> list[str]:
    """Complete the name of an API token."""
    from enmasse.resources.api_token import TOKEN_TYPE, TOKENS_NAMESPACE

    return of("secret", TOKEN_TYPE, TOKENS_NAMESPACE)(ctx, incomplete)


def _names(
    ctx: Any, kind: str, type_: str | None = None, namespace: str | None = None
) -> list[str]:
    """Return the names of a kind for users; empty on failure."""
    from enmasse.cli.resources import kinds

    found = kinds.find(kind)
    try:
        return sorted(set(_listed(ctx, found, type_, namespace))) if found else []
    except EnMasseError:
        return []


def _listed(ctx: Any, kind: Any, type_: str | None, namespace: str | None) -> Iterator[str]:
    from enmasse.cli.connect.client import Api
    from enmasse.cli.resources.names import FIELDS, client_names, is_in_space

    options = ctx.params
    where = (options.get("data"), options.get("server"), options.get("token_file"))
    space = str(options.get("space") or "").partition(".")[0]
    with Api.find(*where, timeout_s=TIMEOUT_S) as api:
        field = FIELDS.get(kind.plural)
        if namespace is None and kind.namespaced and not kind.unique:
            namespace = options.get("namespace")
        for one in api.list(kind.plural, namespace)["items"]:
            is_wanted = type_ in (None, one.get("type") or one.get("spec", {}).get("type"))
            if is_wanted and (not space or is_in_space(kind, one, space)):
                yield client_names(one, field)[0] if field else one["metadata"]["name"]
