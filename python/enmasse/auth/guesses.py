"""How long a client with wrong API tokens has to wait. Pure: time is an argument.

The rules and bounds are those of passwords in the node (`crates/router/src/shard/guesses.rs`), with
one difference: a token is 256 random bits, so the right one is accepted at once from a source that
used it within a day, however many wrong ones come from there. Attempts count by the name in front
of a token's secret; tokens without one count for the owner.
"""

import ipaddress
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

FREE = 5
"""Wrong tokens of one source for one name without a wait."""

FIRST_WAIT_S = 1.0
WAIT_MAX_S = 60.0
KNOWN_WAIT_MAX_S = 2.0
"""The longest wait of a source from which the name has been let in."""

KNOWN_S = 24 * 3600.0
FAILED_S = 600.0
"""How long wrong tokens count after the last one."""

MANY = 100
MANY_S = 60.0
"""So many wrong tokens for one name within so many seconds, from sources that are not known."""

NAME_PER_SECOND = 200
"""Attempts for one name, from all sources that are not known."""

ENTRIES = 16_384
"""Entries of one generation of each kind."""

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Attempt(NamedTuple):
    """What came of an attempt to begin."""

    known: bool
    """Whether the name was let in from this source within a day."""

    wait_s: float = 0.0
    """How long to wait; 0: it is not too early."""


@dataclass
class _Recent(Generic[_K, _V]):
    """A mapping of bounded size: of two generations the older goes when the newer is full."""

    newer: dict[_K, _V] = field(default_factory=dict)
    older: dict[_K, _V] = field(default_factory=dict)

    def get(self, key: _K) -> _V | None:
        return self.newer.get(key, self.older.get(key))

    def put(self, key: _K, value: _V) -> None:
        self.older.pop(key, None)
        if key not in self.newer and len(self.newer) >= ENTRIES:
            self.newer, self.older = {}, self.newer
        self.newer[key] = value

    def remove(self, key: _K) -> None:
        self.newer.pop(key, None)
        self.older.pop(key, None)


class _Failures(NamedTuple):
    number: int = 0
    last_s: float = 0.0


class _Tried(NamedTuple):
    """What a name has been tried for from sources that are not known."""

    failures: int = 0
    since_s: float = 0.0
    begun: int = 0
    second_s: float = 0.0


_Pair = tuple[int, str]


class Guesses:
    """Wrong and right tokens of late."""

    def __init__(self) -> None:
        """Know nothing."""
        self._failures: _Recent[_Pair, _Failures] = _Recent()
        self._known: _Recent[_Pair, float] = _Recent()
        self._names: _Recent[int, _Tried] = _Recent()

    def begin(self, name: str, source: str, now_s: float) -> Attempt:
        """Begin an attempt for a name from a source address."""
        pair = _pair(name, source)
        failures = self._failures_of(pair, now_s)
        if self._is_known(pair, now_s):
            wait_s = min(_backed_off(failures.number), KNOWN_WAIT_MAX_S)
            return Attempt(True, _left(failures, wait_s, now_s))
        tried = self._names.get(pair[0]) or _Tried(0, now_s, 0, now_s)
        many = tried.failures >= MANY and now_s < tried.since_s + MANY_S
        wait_s = WAIT_MAX_S if many and failures.number else _backed_off(failures.number)
        if left := _left(failures, wait_s, now_s):
            return Attempt(False, left)
        if now_s >= tried.second_s + 1:
            tried = tried._replace(begun=0, second_s=now_s)
        self._names.put(pair[0], tried._replace(begun=tried.begun + 1))
        return Attempt(False, 1.0 if tried.begun >= NAME_PER_SECOND else 0.0)

    def failed(self, name: str, source: str, now_s: float) -> None:
        """The token was wrong."""
        pair = _pair(name, source)
        failures = self._failures_of(pair, now_s)
        self._failures.put(pair, _Failures(failures.number + 1, now_s))
        if not self._is_known(pair, now_s):
            tried = self._names.get(pair[0]) or _Tried(0, now_s, 0, now_s)
            if now_s >= tried.since_s + MANY_S:
                tried = tried._replace(failures=0, since_s=now_s)
            self._names.put(pair[0], tried._replace(failures=tried.failures + 1))

    def succeeded(self, name: str, source: str, now_s: float) -> None:
        """The token was right."""
        self._known.put(_pair(name, source), now_s)

    def _failures_of(self, pair: _Pair, now_s: float) -> _Failures:
        failures = self._failures.get(pair)
        return failures if failures and now_s < failures.last_s + FAILED_S else _Failures()

    def _is_known(self, pair: _Pair, now_s: float) -> bool:
        since_s = self._known.get(pair)
        return since_s is not None and now_s < since_s + KNOWN_S


def _pair(name: str, source: str) -> _Pair:
    # Hashes of text are keyed in each process: no client can aim at one, with names of any length.
    return hash(name), _network(source)


def _network(source: str) -> str:
    """Return an address; of IPv6 its network of 64 bits, which one host may have all of."""
    try:
        address = ipaddress.ip_address(source.partition("%")[0])
    except ValueError:
        return source
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _backed_off(count: int) -> float:
    """Return the wait after so many wrong tokens."""
    return 0.0 if count < FREE else min(FIRST_WAIT_S * 2 ** min(count - FREE, 16), WAIT_MAX_S)


def _left(failures: _Failures, wait_s: float, now_s: float) -> float:
    return max(failures.last_s + wait_s - now_s, 0.0) if failures.number else 0.0
