"""Detection: incidents in the readings of one device, by rules that know no clock of their own.

A detector follows each device with a small state. Readings come in the order of their times; one
older than the last is passed over here (gold counts it all the same). An incident begins once and
ends once; for the cool-down after its beginning no other one of the device begins. The same
readings in the same portions give the same incidents, and an incident is named by who, what and
when, so that a repeated one is known.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from enmasse.resources.pipeline import Detector, Ewma

US_A_MS = 1000
NEVER_US = -(1 << 62)


@dataclass(frozen=True, slots=True)
class State:
    """What a detector remembers of one device: all times in microseconds since 1970."""

    time_us: int = NEVER_US
    """The last reading; of a heartbeat the last sign of life."""

    value: float = 0.0
    is_open: bool = False
    """Whether an incident lasts."""

    began_us: int = NEVER_US
    """When the last incident began."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """An incident begins or ends."""

    what: Literal["began", "ended"]
    time_us: int
    value: float | None
    """What was measured, or nothing for silence."""

    began_us: int
    """When the incident began."""

    reason: str = ""
    """For people: what is wrong; of a beginning only."""


def incident_id(detector: str, source: str, device: str, metric: str | None, began_us: int) -> str:
    """Return the name of an incident, the same whenever it is found again."""
    words = "\0".join([detector, source, device, metric or "", str(began_us)])
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def is_quiet(detector: Detector, state: State | None, least: float, most: float) -> bool:
    """Whether readings between two values can change nothing, so that none need be followed."""
    limit = detector.threshold
    if limit is None or (state is not None and state.is_open):
        return False
    if limit.above is not None:
        return most <= limit.above
    return limit.below is not None and least >= limit.below


def follow(
    detector: Detector, state: State, series: Iterable[tuple[int, float]]
) -> tuple[State, list[Change]]:
    """Return the state after readings (time in microseconds, value), and what changed."""
    changes: list[Change] = []
    for time_us, value in series:
        if time_us < state.time_us:
            continue
        beyond, back, reason = _judged(detector, state, time_us, value)
        state = _turned(detector, state, beyond, back, time_us, value, reason, changes)
        state = replace(state, time_us=time_us, value=value, count=state.count + 1)
        if detector.ewma is not None:
            state = _averaged(detector.ewma, state, value)
    return state, changes


def follow_silence(
    detector: Detector, state: State, arrivals: Sequence[int], now_us: int
) -> tuple[State, list[Change]]:
    """The same for a heartbeat: when messages of a device came, and up to when all are known."""
    assert detector.heartbeat is not None
    timeout_us = detector.heartbeat.timeout * US_A_MS
    changes: list[Change] = []
    for time_us, is_arrival in [*((one, True) for one in arrivals), (now_us, False)]:
        if state.count and time_us - state.time_us > timeout_us:
            reason = f"nothing for more than {detector.heartbeat.timeout / 1000:g} s"
            due_us = state.time_us + timeout_us
            if state.began_us != NEVER_US:
                # silence that goes on when the cool-down ends is an incident from there on
                due_us = max(due_us, state.began_us + detector.cooldown * US_A_MS)
            if time_us > due_us:
                state = _turned(detector, state, True, False, due_us, None, reason, changes)
        if is_arrival:
            state = _turned(detector, state, False, True, time_us, None, "", changes)
            state = replace(state, time_us=max(time_us, state.time_us), count=state.count + 1)
    return state, changes


def _turned(
    detector: Detector,
    state: State,
    beyond: bool,
    back: bool,
    time_us: int,
    value: float | None,
    reason: str,
    changes: list[Change],
) -> State:
    if state.is_open and back:
        changes.append(Change("ended", time_us, value, state.began_us))
        return replace(state, is_open=False)
    is_cool = state.began_us == NEVER_US or (
        time_us - state.began_us >= detector.cooldown * US_A_MS and time_us > state.began_us
    )
    if beyond and not state.is_open and is_cool:
        changes.append(Change("began", time_us, value, time_us, reason))
        return replace(state, is_open=True, began_us=time_us)
    return state


def _judged(detector: Detector, state: State, time_us: int, value: float) -> tuple[bool, bool, str]:
    """Whether a value is beyond what is right, whether it is back, and how to say it."""
    if (limit := detector.threshold) is not None:
        if limit.above is not None:
            clear = limit.above if limit.clear is None else limit.clear
            return value > limit.above, value <= clear, f"{value:g} is above {limit.above:g}"
        assert limit.below is not None
        clear = limit.below if limit.clear is None else limit.clear
        return value < limit.below, value >= clear, f"{value:g} is below {limit.below:g}"
    if (rate := detector.rate) is not None:
        span_us = time_us - state.time_us
        if not state.count or not span_us:
            return False, False, ""
        change = abs(value - state.value) * rate.per * US_A_MS / span_us
        said = f"changes by {change:g} in {rate.per / 1000:g} s, more than {rate.above:g}"
        return change > rate.above, change <= rate.above, said
    assert detector.ewma is not None
    if state.count < detector.ewma.warmup:
        return False, True, ""
    deviation = math.sqrt(state.variance)
    away = abs(value - state.mean)
    beyond = away > detector.ewma.deviations * deviation
    many = f"{away / deviation:.1f}" if deviation else "infinitely many"
    return beyond, not beyond, f"{value:g} is {many} deviations from the mean {state.mean:g}"


def _averaged(rule: Ewma, state: State, value: float) -> State:
    """The mean and variance with one more value, which does not pull further than is usual."""
    weight = max(rule.alpha, 1 / state.count)
    reach = rule.deviations * math.sqrt(state.variance)
    if state.count > rule.warmup and reach:
        value = min(max(value, state.mean - reach), state.mean + reach)
    step = value - state.mean
    variance = (1 - weight) * (state.variance + weight * step * step)
    return replace(state, mean=state.mean + weight * step, variance=variance)
