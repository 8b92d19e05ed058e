r"""Templates in the JSONPath of kubectl: `{.items[*].metadata.name}`. Pure.

Text outside braces is copied. Braces contain a path, a quoted text, or `range PATH` and `end`,
which repeat the part between them for each value. A path has `.name`, `['name']`, `[0]`, `[-1]`,
`[0:2]`, `[0,2]`, `[*]`, `.*`, `..name` and `[?(@.type=="Ready")]` with ==, !=, <, <=, >, >=; a dot
in a name is written `\.`. A missing value is printed as empty.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Step = Callable[[Any], list[Any]]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

_NAME = r"(?:\\.|[^.\[\]\s{}'\"()\\,])+"
_STEP = re.compile(
    rf"(?P<deep>\.\.)(?P<below>{_NAME})"
    rf"|\.(?P<field>\*|{_NAME})"
    r"|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]"
    r"|\[\?\((?P<test>.*?)\)\]"
    r"|\[(?P<places>\*|[-\d:, ]+)\]"
)
_TEST = re.compile(r"\s*(?P<path>@[^=!<>]*?)\s*(?:(?P<how>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*")
_SEGMENT = re.compile(r"\{((?:'[^']*'|\"[^\"]*\"|[^{}'\"])*)\}|([^{]+)")


@dataclass(frozen=True, slots=True)
class Path:
    """Locations of values in a document."""

    steps: tuple[Step, ...]

    def values(self, document: Any) -> list[Any]:
        """Return the values; empty if there are none."""
        found = [document]
        for step in self.steps:
            found = [inner for one in found for inner in step(one)]
        return found


@dataclass(frozen=True, slots=True)
class Loop:
    """A part that is repeated for each value of a path."""

    path: Path
    parts: "tuple[Part, ...]"


Part = str | Path | Loop


@dataclass(frozen=True, slots=True)
class Template:
    """Text with placeholders."""

    parts: tuple[Part, ...]

    def text(self, document: Any) -> str:
        """Return the expanded text; several values of a path are separated by spaces."""
        return _rendered(self.parts, document)


def template(text: str) -> Template:
    """Parse a template such as `{.metadata.name}`.

    Raises: ValueError with the reason.
    """
    # The open ranges, each with its parts so far; the template itself is at the bottom.
    stack: list[tuple[Path | None, list[Part]]] = [(None, [])]
    at = 0
    while at < len(text):
        if (found := _SEGMENT.match(text, at)) is None:
            raise ValueError(f"unclosed action in {text[at:]!r}")
        at = found.end()
        inside = found[1]
        if inside is None:
            stack[-1][1].append(found[2])
        elif (inside := inside.strip()) == "end":
            looped, parts = stack.pop()
            if looped is None:
                raise ValueError("there is an end without a range")
            stack[-1][1].append(Loop(looped, tuple(parts)))
        elif inside.startswith("range "):
            stack.append((path(inside.removeprefix("range ")), []))
        elif inside[:1] in ("'", '"'):
            stack[-1][1].append(_unescaped(inside[1:-1]))
        else:
            stack[-1][1].append(path(inside))
    if len(stack) > 1:
        raise ValueError("there is a range without an end")
    return Template(tuple(stack[0][1]))


def path(text: str) -> Path:
    """Parse a path in the unambiguous short forms of kubectl: `{.a.b}`, `.a.b`, `a.b`.

    Raises: ValueError with the reason.
    """
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    bare = text[1:] if text[:1] in ("$", "@") else text
    if bare[:1] not in ("", ".", "["):
        bare = f".{bare}"
    steps: list[Step] = []
    at = 1 if bare == "." else 0
    while at < len(bare):
        if (found := _STEP.match(bare, at)) is None:
            raise ValueError(f"unrecognized path {bare[at:]!r} in {text!r}")
        at = found.end()
        steps.append(_step(found))
    return Path(tuple(steps))


def _step(found: re.Match[str]) -> Step:
    if found["deep"]:
        name = _unslashed(found["below"])
        return lambda value: list(_below(value, name))
    if (test := found["test"]) is not None:
        holds = _filter(test)
        return lambda value: [one for one in _children(value) if holds(one)]
    if (field := found["field"]) is not None:
        return _children if field == "*" else _field(_unslashed(field))
    if (quoted := found["quoted"]) is not None:
        return _field(quoted)
    return _places(found["places"].strip())


def _field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _places(text: str) -> Step:
    if text == "*":
        return _children
    try:
        bounds = [
            [int(one) if one else None for one in part.split(":")] for part in text.split(",")
        ]
    except ValueError:
        raise ValueError(f"invalid array index {text}") from None
    if any(len(one) > 3 or one in ([None], []) or one[2:] == [0] for one in bounds):
        raise ValueError(f"invalid array index {text}")

    def step(value: Any) -> list[Any]:
        if not isinstance(value, list):
            return []
        found: list[Any] = []
        for first, *rest in bounds:
            if rest:
                found += value[slice(first, *rest)]
            elif first is not None and -len(value) <= first < len(value):
                found.append(value[first])
        return found

    return step


def _filter(test: str) -> Callable[[Any], bool]:
    if (found := _TEST.fullmatch(test)) is None:
        raise ValueError(f"unrecognized filter {test!r}")
    there, how = path(found["path"]), found["how"]
    if how is None:
        return lambda value: bool(there.values(value))
    wanted = _literal(found["value"])

    def holds(value: Any) -> bool:
        try:
            return any(_COMPARE[how](one, wanted) for one in there.values(value))
        except TypeError:
            return False

    return holds


def _literal(text: str) -> Any:
    if text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor a quoted text") from None


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _below(value: Any, name: str) -> Iterable[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    for one in _children(value):
        yield from _below(one, name)


def _rendered(parts: Sequence[Part], document: Any) -> str:
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Path):
            texts.append(" ".join(map(text_of, part.values(document))))
        else:
            texts += [_rendered(part.parts, one) for one in part.path.values(document)]
    return "".join(texts)


def text_of(value: Any) -> str:
    """Return a value as templates print it: text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


def _unslashed(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
