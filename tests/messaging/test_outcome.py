"""Outcomes as values, and in their form for the native core."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enmasse.messaging import Accepted, Modified, Outcome, Rejected, Released
from enmasse.messaging.outcome import from_tuple, name_of, to_tuple

texts = st.none() | st.text()
all_outcomes = st.one_of(
    st.just(Accepted()),
    st.just(Released()),
    st.builds(Rejected, texts, texts),
    st.builds(Modified, st.booleans(), st.booleans()),
)


@given(all_outcomes)
def test_outcome_round_trips_through_its_native_tuple(outcome: Outcome) -> None:
    crossed = to_tuple(outcome)
    assert crossed[0] == name_of(outcome)
    assert from_tuple(crossed) == outcome


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Rejected(), "rejected"),
        (Rejected("amqp:not-found"), "rejected (amqp:not-found)"),
        (Rejected("my:own", "too red"), "rejected (my:own: too red)"),
    ],
)
def test_text_of_rejected_shows_condition_and_description(outcome: Rejected, text: str) -> None:
    assert str(outcome) == text
