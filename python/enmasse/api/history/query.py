"""The queries of `query_range`: a subset of PromQL. Pure.

QUERY    := AGGREGATE | FUNCTION | SELECTOR
AGGREGATE:= (sum | avg | max) [by (LABEL, ..)] (FUNCTION | SELECTOR), or with `by` at the end
FUNCTION := (rate | increase) (SELECTOR [DURATION])
SELECTOR := NAME [{LABEL OPERATOR "TEXT", ..}]
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from enmasse.base.errors import Code, Fault, Invalid

QUERY_LENGTH_MAX = 4096
MATCHER_LENGTH_MAX = 256
"""Maximum length of the pattern of `=~` and `!~`."""

LABELS = ("__name__", "namespace", "space", "address")
AGGREGATES = ("sum", "avg", "max")
FUNCTIONS = ("rate", "increase")

_TOKEN = re.compile(
    r'\s*(?:(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<text>"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')'
    r"|(?P<operator>=~|!~|!=|=)|(?P<duration>\[[^\]]*\])|(?P<mark>[(){},]))"
)
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label."""

    label: str
    operator: str
    text: str
    matches: Callable[[Labels], bool]


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric with matchers."""

    metric: str
    matchers: tuple[Matcher, ...]

    def selects(self, labels: Labels) -> bool:
        """Whether labels match."""
        return all(one.matches(labels) for one in self.matchers)


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query."""

    selector: Selector
    function: str | None = None
    range_s: int = 0
    aggregate: str | None = None
    by: tuple[str, ...] = ()


def parse(text: str) -> Query:
    """Parse a query.

    Raises: Invalid naming what is not supported, and where.
    """
    if len(text) > QUERY_LENGTH_MAX:
        raise refused(f"must have at most {QUERY_LENGTH_MAX} characters")
    return _Parser(text).query()


def seconds(text: str) -> int:
    """Return a duration such as `1h30m` in seconds.

    Raises: Invalid if it is malformed or zero.
    """
    found = _DURATION.fullmatch(text)
    units = (86_400, 3600, 60, 1)
    if found is None or len(text) > 20:
        raise refused(f"{text!r} is not a duration; write 30s, 5m, 1h or 7d")
    total = sum(int(one or 0) * unit for one, unit in zip(found.groups(), units, strict=True))
    if total == 0:
        raise refused(f"{text!r} is not a duration above zero")
    return total


def refused(problem: str) -> Invalid:
    """Return the refusal of a query, which is 400."""
    fault = Fault("query", problem)
    return Invalid(Code.REQUEST_INVALID, str(fault), faults=[fault])


class _Parser:
    """A recursive descent; each method consumes what it is named after."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def query(self) -> Query:
        query = self._expression()
        if self._text[self._at :].strip():
            rest = self._text[self._at :].strip()[:40]
            raise refused(f"{rest!r} after the query is not supported")
        return query

    def _expression(self) -> Query:
        start, name = self._at, self._take("name")
        if name in AGGREGATES:
            return self._aggregate(name)
        if name in FUNCTIONS:
            return self._function(name)
        if name is not None and self._peek_mark("("):
            supported = ", ".join((*AGGREGATES, *FUNCTIONS))
            raise refused(f"{name} is not supported; functions: {supported}")
        self._at = start
        return Query(self._selector())

    def _aggregate(self, name: str) -> Query:
        by = self._by()
        self._mark("(")
        inner = self._expression()
        if inner.aggregate is not None:
            raise refused("an aggregate of an aggregate is not supported")
        self._mark(")")
        by = by if by is not None else self._by()
        return Query(inner.selector, inner.function, inner.range_s, name, by or ())

    def _by(self) -> tuple[str, ...] | None:
        start, word = self._at, self._take("name")
        if word == "without":
            raise refused("`without` is not supported; list the labels with `by`")
        if word != "by":
            self._at = start
            return None
        self._mark("(")
        labels: list[str] = []
        while not self._peek_mark(")"):
            label = self._take("name")
            if label not in LABELS:
                raise refused(f"{label!r} is not a label; labels: {', '.join(LABELS[1:])}")
            labels.append(label)
            if not self._peek_mark(")"):
                self._mark(",")
        self._mark(")")
        return tuple(labels)

    def _function(self, name: str) -> Query:
        self._mark("(")
        selector = self._selector()
        duration = self._take("duration")
        if duration is None:
            raise refused(f"{name} needs a range, such as [5m]")
        self._mark(")")
        return Query(selector, name, seconds(duration[1:-1].strip()))

    def _selector(self) -> Selector:
        metric = self._take("name")
        if metric is None:
            rest = self._text[self._at :].strip()[:40]
            raise refused(f"expected the name of a metric at {rest!r}")
        matchers = []
        if self._peek_mark("{"):
            self._mark("{")
            while not self._peek_mark("}"):
                matchers.append(self._matcher())
                if not self._peek_mark("}"):
                    self._mark(",")
            self._mark("}")
        return Selector(metric, tuple(matchers))

    def _matcher(self) -> Matcher:
        label, operator, quoted = (self._take(kind) for kind in ("name", "operator", "text"))
        if label not in LABELS or operator is None or quoted is None:
            raise refused(
                f'a matcher is LABEL OPERATOR "TEXT", with one of {", ".join(LABELS[1:])}'
            )
        text = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted[1:-1])
        if operator in ("=", "!="):
            return Matcher(
                label,
                operator,
                text,
                lambda labels: (labels.get(label, "") == text) is (operator == "="),
            )
        if len(text) > MATCHER_LENGTH_MAX:
            raise refused(f"a pattern must have at most {MATCHER_LENGTH_MAX} characters")
        matches = linear_pattern(text)
        return Matcher(
            label,
            operator,
            text,
            lambda labels: matches(labels.get(label, "")) is (operator == "=~"),
        )

    def _take(self, kind: str) -> str | None:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup != kind:
            return None
        self._at = found.end()
        return found[kind]

    def _peek_mark(self, mark: str) -> bool:
        found = _TOKEN.match(self._text, self._at)
        return found is not None and found["mark"] == mark

    def _mark(self, mark: str) -> None:
        if not self._peek_mark(mark):
            rest = self._text[self._at :].strip()[:40]
            raise refused(f"expected {mark!r} at {rest!r}")
        self._take("mark")


_ATOM = re.compile(r"\.\*|\.\+|\.|\\[.*+?()\[\]{}|^$\\]|[^.*+?()\[\]{}|^$\\]")


def linear_pattern(text: str) -> Callable[[str], bool]:
    """Return the predicate of an anchored pattern: literals, `.`, `.*`, `.+` and `|` between whole
    alternatives. Other expressions could take exponential time.

    Raises: Invalid for other expressions.
    """
    alternatives = []
    for alternative in re.split(r"(?<!\\)\|", text):
        atoms = _ATOM.findall(alternative)
        if "".join(atoms) != alternative or sum(one in (".*", ".+") for one in atoms) > 4:
            raise refused(
                f"the pattern {text!r} is not supported; use literals, ., .*, .+ and |, with at"
                " most four of .* and .+ in an alternative"
            )
        alternatives.append(re.compile(alternative, re.DOTALL))
    return lambda value: any(one.fullmatch(value) is not None for one in alternatives)
