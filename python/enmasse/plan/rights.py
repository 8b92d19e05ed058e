"""What the rights of a user allow, by the rules of the node (`crates/router/src/table/pattern.rs`).
Pure.

A name has levels, separated by `/`. `+` and `*` match one level, `#` any number; `*` alone matches
every name, and `ord*` at the end every name with that prefix.
"""

from collections.abc import Iterable

from enmasse.plan.model import Right

NAME_BYTES_MAX = 1024
"""Longest name that a pattern with wildcards matches."""

WITHOUT_ADDRESS = ("view", "manage")
"""Operations that a right on any address allows on all."""

_ONE, _ANY = ("+", "*"), "#"


def allowing(rights: Iterable[Right], operation: str, name: str) -> str | None:
    """Return the pattern of the first right that allows an operation on an address, or None."""
    for right in rights:
        if operation not in right.operations:
            continue
        if operation in WITHOUT_ADDRESS or matches(right.pattern, name):
            return right.pattern
    return None


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name."""
    if pattern == name:
        return True
    if len(name.encode()) > NAME_BYTES_MAX:
        return False
    tokens, prefix = _tokens(pattern)
    # The positions in the pattern that the levels so far can have reached.
    positions = _skipping({0}, tokens)
    for level in name.split("/"):
        reached = set()
        for at in positions:
            if at == len(tokens):
                continue
            token = tokens[at]
            if token == _ANY:
                reached.add(at)
            elif at == prefix:
                if level.startswith(token):
                    reached.add(at + 1)
            elif token in _ONE or token == level:
                reached.add(at + 1)
        positions = _skipping(reached, tokens)
    return len(tokens) in positions


def _tokens(pattern: str) -> tuple[list[str], int | None]:
    """Return the levels of a pattern, and the position of one that is a prefix."""
    if pattern == "*":
        return [_ANY], None
    tokens = pattern.split("/")
    last = tokens[-1]
    if last.endswith("*") and last != "*":
        return [*tokens[:-1], last.removesuffix("*"), _ANY], len(tokens) - 1
    return tokens, None


def _skipping(positions: set[int], tokens: list[str]) -> set[int]:
    """Add the positions after levels `#` that match nothing."""
    found = set(positions)
    for at in sorted(positions):
        while at < len(tokens) and tokens[at] == _ANY:
            at += 1
            found.add(at)
    return found
