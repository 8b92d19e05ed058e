"""Incidents: when they begin and end, and that each is told once."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from enmasse.pipeline.detect.detectors import (
    Change,
    State,
    follow,
    follow_silence,
    incident_id,
    is_quiet,
)
from enmasse.resources.pipeline import Detector

S = 1_000_000


def detector(**rule: Any) -> Detector:
    chosen = {"name": "d", "metric": "m", "cooldown": 0}
    return Detector.model_validate(chosen | rule, by_alias=True)


def told(changes: list[Change]) -> list[tuple[str, int]]:
    return [(change.what, change.time_us // S) for change in changes]


def each_second(*values: float) -> list[tuple[int, float]]:
    return [(second * S, value) for second, value in enumerate(values)]


def test_a_threshold_has_hysteresis() -> None:
    hot = detector(threshold={"above": 30, "clear": 28})
    _, changes = follow(hot, State(), each_second(29, 31, 29, 32, 28, 29, 30, 30.5))
    assert told(changes) == [("began", 1), ("ended", 4), ("began", 7)]
    assert changes[0].reason == "31 is above 30"
    assert changes[1].began_us == 1 * S
    low = detector(threshold={"below": 3})
    assert told(follow(low, State(), each_second(4, 3, 2.5, 3))[1]) == [("began", 2), ("ended", 3)]


def test_no_incident_begins_while_it_is_to_cool_down() -> None:
    hot = detector(threshold={"above": 30}, cooldown="5s")
    values = (31, 20, 31, 20, 31, 31, 31, 20, 31)
    _, changes = follow(hot, State(), each_second(*values))
    assert told(changes) == [("began", 0), ("ended", 1), ("began", 5), ("ended", 7)]


def test_a_rate_is_of_change_in_time_up_or_down() -> None:
    jump = detector(rate={"above": 5, "per": "1m"})
    _, changes = follow(jump, State(), [(0, 20.0), (60 * S, 25.0), (70 * S, 24.0), (130 * S, 24.5)])
    assert told(changes) == [("began", 70), ("ended", 130)]
    assert changes[0].reason == "changes by 6 in 60 s, more than 5"
    # two values of one time say nothing of a rate
    assert follow(jump, State(), [(0, 1.0), (0, 100.0)])[1] == []


def test_a_value_far_from_the_mean_is_told_after_the_warm_up() -> None:
    odd = detector(ewma={"deviations": 4, "warmup": 20, "alpha": 0.1})
    usual = [20 + 0.1 * (number % 5) for number in range(40)]
    _, changes = follow(odd, State(), each_second(*usual, 30, *usual))
    assert told(changes) == [("began", 40), ("ended", 41)]
    assert follow(odd, State(), each_second(*usual[:10], 30))[1] == []


def test_a_level_that_stays_becomes_the_usual_one() -> None:
    odd = detector(ewma={"deviations": 4, "warmup": 20, "alpha": 0.1})
    usual = [20 + 0.1 * (number % 5) for number in range(200)]
    _, changes = follow(odd, State(), each_second(*usual, *(value + 5 for value in usual)))
    assert [what for what, _ in told(changes)][:2] == ["began", "ended"]
    assert told(changes)[-1][0] == "ended"


def test_any_change_of_what_never_changed_is_unusual() -> None:
    odd = detector(ewma={"warmup": 5})
    _, changes = follow(odd, State(), each_second(*([7.0] * 10), 7.5))
    assert told(changes) == [("began", 10)]
    assert "infinitely many" in changes[0].reason


def test_readings_older_than_the_last_are_passed_over() -> None:
    hot = detector(threshold={"above": 30})
    state, _ = follow(hot, State(), [(10 * S, 20.0)])
    assert follow(hot, state, [(5 * S, 99.0)]) == (state, [])


def test_silence_is_told_when_it_is_due_and_ends_with_a_message() -> None:
    silent = detector(heartbeat={"timeout": "10s"}, metric=None)
    state, changes = follow_silence(silent, State(), [0, 5 * S], 15 * S)
    assert changes == []
    state, changes = follow_silence(silent, state, [], 16 * S)
    assert told(changes) == [("began", 15)]
    state, again = follow_silence(silent, state, [], 100 * S)
    assert again == []
    state, changes = follow_silence(silent, state, [120 * S], 121 * S)
    assert told(changes) == [("ended", 120)]
    assert changes[0].began_us == 15 * S


def test_silence_that_nobody_watched_is_told_as_if_somebody_had() -> None:
    silent = detector(heartbeat={"timeout": "10s"}, metric=None)
    watched, ticked = follow_silence(silent, State(count=1, time_us=5 * S), [], 16 * S)
    watched, more = follow_silence(silent, watched, [120 * S], 121 * S)
    alone, at_once = follow_silence(silent, State(count=1, time_us=5 * S), [120 * S], 121 * S)
    assert ticked + more == at_once
    assert (alone.is_open, alone.began_us) == (watched.is_open, watched.began_us)


def test_silence_that_outlasts_the_cool_down_is_told_at_its_end() -> None:
    silent = detector(heartbeat={"timeout": "10s"}, metric=None, cooldown="100s")
    state, changes = follow_silence(silent, State(), [0, 20 * S], 21 * S)
    assert told(changes) == [("began", 10), ("ended", 20)]
    before = state
    for second in range(22, 111):
        state, changes = follow_silence(silent, state, [], second * S)
        assert (state, changes) == (before, [])
    state, changes = follow_silence(silent, state, [], 111 * S)
    assert told(changes) == [("began", 110)]
    # nobody watched
    assert follow_silence(silent, before, [], 10**6 * S) == (state, changes)
    returned, changes = follow_silence(silent, before, [300 * S], 301 * S)
    assert told(changes) == [("began", 110), ("ended", 300)]
    # back before the cool-down ends
    assert follow_silence(silent, before, [109 * S], 112 * S)[1] == []


def test_who_was_never_seen_is_not_missed() -> None:
    silent = detector(heartbeat={"timeout": "10s"}, metric=None)
    assert follow_silence(silent, State(), [], 10**18) == (State(), [])


def test_an_incident_is_named_by_who_what_and_when() -> None:
    one = incident_id("d", "s", "dev", "m", 5)
    assert one == incident_id("d", "s", "dev", "m", 5)
    others = {
        incident_id("d", "s", "dev", "m", 6),
        incident_id("d", "s", "dev", None, 5),
        incident_id("d", "s", "devm", "", 5),
    }
    assert len(others | {one}) == 4


RULES = [
    {"threshold": {"above": 1.0, "clear": -1.0}},
    {"threshold": {"below": 0.0}, "cooldown": "30s"},
    {"rate": {"above": 2.0, "per": "1s"}, "cooldown": "5s"},
    {"ewma": {"deviations": 1.5, "warmup": 3}, "cooldown": "10s"},
]
SERIES = st.lists(st.tuples(st.integers(0, 3), st.floats(-3, 3)), max_size=40)


@settings(deadline=None)
@given(st.sampled_from(RULES), SERIES, st.integers(0, 40))
def test_incidents_are_the_same_in_any_portions_and_keep_their_order(
    rule: dict[str, Any], steps: list[tuple[int, float]], cut: int
) -> None:
    rules = detector(**rule)
    time_us, series = 0, []
    for step, value in steps:
        time_us += step * S
        series.append((time_us, value))
    state, changes = follow(rules, State(), series)
    half, first = follow(rules, State(), series[:cut])
    whole, second = follow(rules, half, series[cut:])
    assert (whole, first + second) == (state, changes)
    # they take turns, and beginnings keep their distance
    assert [change.what for change in changes] == (["began", "ended"] * 40)[: len(changes)]
    began = [change.time_us for change in changes if change.what == "began"]
    assert len(set(began)) == len(began)
    assert all(
        later - earlier >= rules.cooldown * 1000
        for earlier, later in zip(began, began[1:], strict=False)
    )
    assert state.is_open == (bool(changes) and changes[-1].what == "began")


@settings(deadline=None)
@given(st.sampled_from(RULES[:2]), SERIES)
def test_what_is_called_quiet_changes_nothing(
    rule: dict[str, Any], steps: list[tuple[int, float]]
) -> None:
    rules = detector(**rule)
    series = [(number * S, value) for number, (_, value) in enumerate(steps)]
    values = [value for _, value in series]
    if series and is_quiet(rules, None, min(values), max(values)):
        assert follow(rules, State(), series)[1] == []
