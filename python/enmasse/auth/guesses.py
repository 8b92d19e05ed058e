"""The wait of a client after wrong API tokens. Pure: time is an argument.

The rules and bounds are those of passwords in the node (`crates/router/src/shard/guesses.rs`), with
one difference. A token is 256 random bits, so the right one is accepted at once from a source that
used it within a day, regardless of wrong ones from that source. Attempts count by the name in front
of a token's secret; tokens without a name count for the owner.
"""

import ipaddress
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

FREE = 5
"""Wrong tokens of one source for one name that cause no wait."""

FIRST_WAIT_S = 1.0
WAIT_MAX_S = 60.0
KNOWN_WAIT_MAX_S = 2.0
"""Maximum wait of a known source: one that has used a right token of the name."""

KNOWN_S = 24 * 3600.0
FAILED_S = 600.0
"""Time after the last wrong token until the count of a source is reset."""

MANY = 100
MANY_S = 60.0
"""Limit of wrong tokens for one name from unknown sources, and its period in seconds."""

NAME_PER_SECOND = 200
"""Maximum attempts per second for one name from all unknown sources."""

ENTRIES = 16_384
"""Maximum entries of one generation of each table."""

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Attempt(NamedTuple):
    """Decision on a new attempt."""

    known: bool
    """Whether the source has used a right token of this name within a day."""

    wait_s: float = 0.0
    """Seconds to wait; 0 allows the attempt."""


@dataclass
class _Recent(Generic[_K, _V]):
    """A mapping of bounded size: two generations; a full one replaces the older one."""

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


class _NameAttempts(NamedTuple):
    """Attempts for one name from unknown sources."""

    failures: int = 0
    since_s: float = 0.0
    begun: int = 0
    second_s: float = 0.0


_Pair = tuple[int, str]


class Guesses:
    """Recent wrong and right tokens, by name and source."""

    def __init__(self) -> None:
        """Start without recorded attempts."""
        self._failures: _Recent[_Pair, _Failures] = _Recent()
        self._known: _Recent[_Pair, float] = _Recent()
        self._names: _Recent[int, _NameAttempts] = _Recent()

    def begin(self, name: str, source: str, now_s: float) -> Attempt:
        """Begin an attempt for a name from a source address."""
        pair = _pair(name, source)
        failures = self._failures_of(pair, now_s)
        if self._is_known(pair, now_s):
            wait_s = min(_backoff_s(failures.number), KNOWN_WAIT_MAX_S)
            return Attempt(True, _remaining_s(failures, wait_s, now_s))
        tried = self._names.get(pair[0]) or _NameAttempts(0, now_s, 0, now_s)
        many = tried.failures >= MANY and now_s < tried.since_s + MANY_S
        wait_s = WAIT_MAX_S if many and failures.number else _backoff_s(failures.number)
        if left := _remaining_s(failures, wait_s, now_s):
            return Attempt(False, left)
        if now_s >= tried.second_s + 1:
            tried = tried._replace(begun=0, second_s=now_s)
        self._names.put(pair[0], tried._replace(begun=tried.begun + 1))
        return Attempt(False, 1.0 if tried.begun >= NAME_PER_SECOND else 0.0)

    def failed(self, name: str, source: str, now_s: float) -> None:
        """Record a wrong token."""
        pair = _pair(name, source)
        failures = self._failures_of(pair, now_s)
        self._failures.put(pair, _Failures(failures.number + 1, now_s))
        if not self._is_known(pair, now_s):
            tried = self._names.get(pair[0]) or _NameAttempts(0, now_s, 0, now_s)
            if now_s >= tried.since_s + MANY_S:
                tried = tried._replace(failures=0, since_s=now_s)
            self._names.put(pair[0], tried._replace(failures=tried.failures + 1))

    def succeeded(self, name: str, source: str, now_s: float) -> None:
        """Record a right token."""
        self._known.put(_pair(name, source), now_s)

    def _failures_of(self, pair: _Pair, now_s: float) -> _Failures:
        failures = self._failures.get(pair)
        return failures if failures and now_s < failures.last_s + FAILED_S else _Failures()

    def _is_known(self, pair: _Pair, now_s: float) -> bool:
        since_s = self._known.get(pair)
        return since_s is not None and now_s < since_s + KNOWN_S


def _pair(name: str, source: str) -> _Pair:
    # Python randomises text hashes per process, so a client cannot cause collisions on purpose.
    return hash(name), _network(source)


def _network(source: str) -> str:
    """Return an address; for IPv6 its /64 network, because one host may own all of it."""
    try:
        address = ipaddress.ip_address(source.partition("%")[0])
    except ValueError:
        return source
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _backoff_s(count: int) -> float:
    """Return the wait after `count` wrong tokens."""
    return 0.0 if count < FREE else min(FIRST_WAIT_S * 2 ** min(count - FREE, 16), WAIT_MAX_S)


def _remaining_s(failures: _Failures, wait_s: float, now_s: float) -> float:
    return max(failures.last_s + wait_s - now_s, 0.0) if failures.number else 0.0
