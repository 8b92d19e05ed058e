"""The back-off of sources that try wrong API tokens."""

import itertools

import pytest

from enmasse.auth.guesses import ENTRIES, FREE, KNOWN_S, Guesses

HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


def guess(guesses: Guesses, name: str, source: str, now_s: float) -> bool:
    """Try a wrong token; return whether it was checked."""
    begun = not guesses.begin(name, source, now_s).wait_s
    if begun:
        guesses.failed(name, source, now_s)
    return begun


def test_wrong_tokens_back_off_exponentially_per_source_and_name() -> None:
    guesses = Guesses()
    begun = [t / 10 for t in range(4_000) if guess(guesses, "ci", HERE, t / 10)]
    waits = [round(b - a, 1) for a, b in itertools.pairwise(begun)]
    assert waits[:10] == [0.1] * 4 + [1, 2, 4, 8, 16, 32]
    assert set(waits[10:]) == {60.0}
    for name, source in (("cd", HERE), ("ci", ELSEWHERE)):
        assert guesses.begin(name, source, 400.0).wait_s == 0


def test_known_source_waits_at_most_2_s_and_stays_known_for_a_day() -> None:
    guesses = Guesses()
    guesses.succeeded("ci", HERE, 0.0)
    for second in range(0, 600, 2):
        assert guess(guesses, "ci", HERE, float(second)), second
    assert guesses.begin("ci", HERE, 598.5) == (True, 1.5)
    assert not guesses.begin("ci", HERE, KNOWN_S).known


def test_addresses_of_one_ipv6_network_are_one_source() -> None:
    guesses = Guesses()
    tried = [guess(guesses, "ci", f"2001:db8::{n}", 0.0) for n in range(FREE + 2)]
    assert tried == [True] * FREE + [False] * 2
    assert guess(guesses, "ci", "2001:db8:1::1", 0.0)
    assert guess(guesses, "ci", "::ffff:192.0.2.1", 0.0)


@pytest.mark.parametrize("begins_s", [0.0, 0.5, 5.0, 60.0])
def test_new_source_is_admitted_within_10_s_beside_1000_guessing_sources(
    begins_s: float,
) -> None:
    guesses = Guesses()
    for tick in range(1_000):
        now_s = tick / 10
        for number in range(1_000):
            guess(guesses, "ci", f"198.18.{number // 250}.{number % 250}", now_s)
        if now_s >= begins_s and not guesses.begin("ci", HERE, now_s).wait_s:
            assert now_s - begins_s <= 10
            return
    pytest.fail("the new source was never admitted")


def test_guess_history_is_bounded_and_keeps_successful_sources() -> None:
    guesses = Guesses()
    guesses.succeeded("ci", HERE, 0.0)
    for number in range(3 * ENTRIES):
        source = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        guess(guesses, f"nobody-{number}", source, 0.0)
    assert guesses.begin("ci", HERE, 0.0).known
    for kept in (guesses._failures, guesses._names):
        assert len(kept.newer) <= ENTRIES
        assert len(kept.older) <= ENTRIES
