"""Past values from a Prometheus that scrapes `/metrics`, instead of the platform's own history.

The query is parsed as for the own history, so that a caller can ask no more than there, and is then
written anew with the namespace as a matcher. `/metrics` has no label `namespace`: it is the end of
`space`, which is NAME.NAMESPACE. Labels that Prometheus adds (`job`, `instance`) are summed away.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from enmasse.api.history.query import Matcher, Query, refused
from enmasse.auth.fetching import Change, Fetch, fetch
from enmasse.auth.grants import Unanswered
from enmasse.base.errors import Code, Unavailable

PATH = "/api/v1/query_range"
TIMEOUT_S = 20.0
BYTES_MAX = 32 << 20
"""Maximum size of an answer."""

_SPACE_NAME = "[^.]+[.]"
_OPPOSITE = {"=": "=~", "!=": "!~", "=~": "=~", "!~": "!~"}
"""The operator of a pattern by the operator of a matcher."""


class Period(NamedTuple):
    """The times of a query, in seconds."""

    start_s: float
    end_s: float
    step_s: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server of Prometheus, or one with its API."""

    url: str
    """Without the path of the API."""

    token: str | None = field(default=None, repr=False)
    """Bearer token, if it needs one."""

    ca: str | None = field(default=None, repr=False)
    """The CA to trust, as PEM; None: those of the system."""

    fetch: Fetch | None = None
    """Sends requests; by default `fetching.fetch`."""

    async def query_range(
        self, query: Query, namespace: str | None, period: Period
    ) -> list[dict[str, Any]]:
        """Return the series of a query, of a namespace or of all.

        Raises: Unavailable if the server does not answer; Invalid if it refuses the query.
        """
        asked = {
            "query": promql(query, namespace),
            "start": f"{period.start_s:.3f}",
            "end": f"{period.end_s:.3f}",
            "step": f"{period.step_s:g}",
        }
        url = f"{self.url.rstrip('/')}{PATH}?{urlencode(asked)}"
        try:
            answer = await (self.fetch or self._get)(url, ca=self.ca)
        except Unanswered as error:
            raise _unavailable(str(error).replace(f"?{urlencode(asked)}", "")) from None
        document = answer.document()
        if document.get("status") == "error" and answer.status in (400, 422):
            raise refused(f"the Prometheus server refuses it: {str(document.get('error'))[:500]}")
        if answer.status != 200 or document.get("status") != "success":
            raise _unavailable(f"{self.url} answers {answer.status}")
        result = document.get("data", {}).get("result")
        if not isinstance(result, list):
            raise _unavailable(f"{self.url} answers with something other than series")
        return [_series(one, query) for one in result]

    async def _get(
        self, url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
    ) -> Any:
        change = Change("GET", self.token) if self.token else None
        return await fetch(
            url, form=form, ca=ca, change=change, timeout_s=TIMEOUT_S, bytes_max=BYTES_MAX
        )


def promql(query: Query, namespace: str | None) -> str:
    """Return a query in PromQL over the labels of `/metrics`."""
    selector = query.selector
    matchers = [_matcher(one) for one in selector.matchers]
    if namespace is not None:
        matchers.append(_quoted("space", "=~", f"{_SPACE_NAME}{re.escape(namespace)}"))
    text = f"{selector.metric}{{{','.join(matchers)}}}"
    if query.function:
        text = f"{query.function}({text}[{query.range_s}s])"
    own = "space, address" if selector.metric.startswith("enmasse_address_") else "space"
    labelled = (
        f'label_replace(sum by ({own}) ({text}), "namespace", "$1", "space", "{_SPACE_NAME}(.*)")'
    )
    if query.aggregate is None:
        return labelled
    return f"{query.aggregate} by ({', '.join(query.by)}) ({labelled})"


def _matcher(one: Matcher) -> str:
    if one.label != "namespace":
        return _quoted(one.label, one.operator, one.text)
    pattern = re.escape(one.text) if one.operator in ("=", "!=") else f"(?:{one.text})"
    return _quoted("space", _OPPOSITE[one.operator], f"{_SPACE_NAME}{pattern}")


def _quoted(label: str, operator: str, text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}{operator}"{escaped}"'


def _series(one: Mapping[str, Any], query: Query) -> dict[str, Any]:
    """Return a series as the own history writes it: a plain selector has its name."""
    labels = dict(one.get("metric", {}))
    if query.aggregate is None and query.function is None:
        labels = {"__name__": query.selector.metric, **labels}
    values: Sequence[Any] = one.get("values", [])
    return {"metric": labels, "values": values}


def _unavailable(reason: str) -> Unavailable:
    return Unavailable(
        Code.NOT_AVAILABLE, f"past values come from a Prometheus server, and it failed: {reason}"
    )
