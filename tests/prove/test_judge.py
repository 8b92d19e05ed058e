"""The judge of histories finds each planted fault, and no other."""

import pytest

from prove.history import Event, What
from prove.judge import Verdict, judge

SENT, ACCEPTED, REFUSED = What.SENT, What.ACCEPTED, What.REFUSED
RECEIVED, TAKEN, CONFIRMED = What.RECEIVED, What.TAKEN, What.CONFIRMED
RETURNED, LEFT, SPOILED = What.RETURNED, What.LEFT, What.SPOILED

STORED: list[What | tuple[What, int]] = [SENT, ACCEPTED]


def verdict(*steps: What | tuple[What, int]) -> tuple[Verdict, str]:
    """The verdict on one message after these steps; a number is the connection, else it is 1."""
    pairs = [step if isinstance(step, tuple) else (step, 1) for step in steps]
    events = [
        Event(float(at), what, "" if what is LEFT else "m", link)
        for at, (what, link) in enumerate(pairs)
    ]
    judged = judge(events)["m"]
    return judged.verdict, judged.why


@pytest.mark.parametrize(
    "steps",
    [
        [RECEIVED, TAKEN, CONFIRMED],
        [RECEIVED, TAKEN],
        [RECEIVED, RETURNED, RECEIVED, TAKEN],
        [RECEIVED, RETURNED, (RECEIVED, 2), (TAKEN, 2)],
        [RECEIVED, LEFT, (RECEIVED, 2), (TAKEN, 2)],
        [RECEIVED, TAKEN, LEFT, (RECEIVED, 2), (TAKEN, 2), (CONFIRMED, 2)],
        [RECEIVED, TAKEN, LEFT, (RECEIVED, 2)],
    ],
)
def test_at_least_once_redelivery_is_ok(steps: list[What]) -> None:
    assert verdict(*STORED, *steps) == (Verdict.OK, "delivered")


@pytest.mark.parametrize("steps", [[], [RECEIVED], [RECEIVED, RETURNED], [RECEIVED, LEFT]])
def test_accepted_message_without_a_delivery_is_lost(steps: list[What]) -> None:
    assert verdict(*STORED, *steps)[0] is Verdict.LOST


def test_received_message_without_an_outcome_counts_as_stored() -> None:
    assert verdict(SENT, RECEIVED, LEFT)[0] is Verdict.LOST


def test_changed_content_counts_as_loss() -> None:
    assert verdict(*STORED, SPOILED, TAKEN) == (Verdict.LOST, "it came with another content")


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([RECEIVED, TAKEN, CONFIRMED, LEFT, (RECEIVED, 2)], "after the commit"),
        ([RECEIVED, TAKEN, (RECEIVED, 2)], "accepted by a connection that lives"),
        ([RECEIVED, (RECEIVED, 2)], "held by a connection that lives"),
        ([RECEIVED, RECEIVED, TAKEN], "held by a connection that lives"),
        ([RECEIVED, RETURNED, (RECEIVED, 2), RECEIVED], "held by a connection that lives"),
        ([RECEIVED, (LEFT, 2), (RECEIVED, 3)], "held by a connection that lives"),
    ],
)
def test_unexplained_redelivery_is_a_duplicate(steps: list[What], why: str) -> None:
    caught, reason = verdict(*STORED, *steps)
    assert caught is Verdict.DUPLICATE
    assert why in reason


def test_message_that_was_never_sent_is_a_duplicate() -> None:
    assert verdict(RECEIVED, TAKEN) == (Verdict.DUPLICATE, "nobody sent it")


def test_delivery_of_a_refused_message_is_a_duplicate() -> None:
    assert verdict(SENT, REFUSED) == (Verdict.OK, "refused")
    assert verdict(SENT, REFUSED, RECEIVED, TAKEN)[0] is Verdict.DUPLICATE


def test_refused_message_may_be_sent_again() -> None:
    assert verdict(SENT, REFUSED, SENT, ACCEPTED, RECEIVED, TAKEN)[0] is Verdict.OK


def test_message_without_outcome_and_delivery_is_unknown() -> None:
    assert verdict(SENT)[0] is Verdict.UNKNOWN
    assert verdict(SENT, RECEIVED, TAKEN)[0] is Verdict.OK


def test_each_message_has_its_own_verdict() -> None:
    events = [
        Event(0.0, SENT, "a"),
        Event(0.1, SENT, "b"),
        Event(0.2, ACCEPTED, "a"),
        Event(0.3, ACCEPTED, "b"),
        Event(0.4, RECEIVED, "b", 1),
        Event(0.5, TAKEN, "b", 1),
    ]
    verdicts = judge(events)
    assert {name: one.verdict for name, one in verdicts.items()} == {
        "a": Verdict.LOST,
        "b": Verdict.OK,
    }
    assert (verdicts["b"].began_s, verdicts["b"].ended_s, verdicts["b"].deliveries) == (0.1, 0.5, 1)
