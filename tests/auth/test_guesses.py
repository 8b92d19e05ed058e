"""How long somebody who tries wrong API tokens has to wait."""

import itertools

import pytest

from enmasse.auth.guesses import ENTRIES, FREE, KNOWN_S, Guesses

HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


def guess(guesses: Guesses, name: str, source: str, now_s: float) -> bool:
    """Try a wrong token; return whether it was looked at."""
    begun = not guesses.begin(name, source, now_s).wait_s
    if begun:
        guesses.failed(name, source, now_s)
    return begun


def test_after_a_few_wrong_tokens_a_source_waits_longer_and_longer_for_that_name_only() -> None:
    guesses = Guesses()
    begun = [t / 10 for t in range(4_000) if guess(guesses, "ci", HERE, t / 10)]
    waits = [round(b - a, 1) for a, b in itertools.pairwise(begun)]
    assert waits[:10] == [0.1] * 4 + [1, 2, 4, 8, 16, 32]
    assert set(waits[10:]) == {60.0}
    for name, source in (("cd", HERE), ("ci", ELSEWHERE)):
        assert guesses.begin(name, source, 400.0).wait_s == 0


def test_a_known_source_waits_for_two_seconds_at_most_and_counts_for_a_day() -> None:
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
def test_beside_a_thousand_guessing_sources_a_new_one_comes_in_within_ten_seconds(
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
    pytest.fail("never came in")


def test_what_is_kept_is_bounded_and_successes_are_not_pushed_out() -> None:
    guesses = Guesses()
    guesses.succeeded("ci", HERE, 0.0)
    for number in range(3 * ENTRIES):
        source = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        guess(guesses, f"nobody-{number}", source, 0.0)
    assert guesses.begin("ci", HERE, 0.0).known
    for kept in (guesses._failures, guesses._names):
        assert len(kept.newer) <= ENTRIES
        assert len(kept.older) <= ENTRIES
