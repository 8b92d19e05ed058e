"""The succession of the authorities of a space, in their stored form."""

from datetime import UTC, datetime, timedelta

import pytest

from enmasse.auth.succession import PUBLISHED_BEFORE, SUCCESSOR_BEFORE, followed, from_texts

NOW = datetime(2026, 11, 1, tzinfo=UTC)
SPACE = "a" * 63 + "." + "b" * 63


def test_authorities_round_trip_through_their_texts_in_every_state() -> None:
    first = followed(None, SPACE, NOW)
    assert followed(first, SPACE, first.next_step - timedelta(seconds=1)) is first
    told = followed(first, SPACE, first.next_step + timedelta(seconds=1))
    assert told.following is not None and told.current is first.current
    assert followed(told, SPACE, told.next_step - timedelta(seconds=1)) is told
    after = followed(told, SPACE, told.next_step)
    assert (after.current, after.former) == (told.following, first.current.certificate)
    alone = followed(after, SPACE, after.next_step)
    assert alone.former is None and alone.current is after.current
    assert first.current.ends - told.next_step >= SUCCESSOR_BEFORE - PUBLISHED_BEFORE - timedelta(
        days=1
    )
    for state in (first, told, after, alone):
        again = from_texts(state.texts())
        assert (again.texts(), again.next_step) == (state.texts(), state.next_step)
        assert again.trusted == state.trusted
    names = {one.subject.rfc4514_string() for one in (*told.trusted, *first.trusted)}
    assert len(names) == 2 and all(len(name) <= len("CN=") + 64 for name in names)


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "next.crt", "former.crt"])
def test_unreadable_authority_is_an_error_and_is_not_replaced(name: str) -> None:
    first = followed(None, SPACE, NOW)
    told = followed(first, SPACE, first.next_step + timedelta(seconds=1))
    texts = told.texts() | {"former.crt": told.texts()["ca.crt"]}
    with pytest.raises(ValueError):
        from_texts(texts | {name: "nonsense"})
    with pytest.raises(ValueError, match="does not belong"):
        from_texts(texts | {"ca.key": texts["next.key"]})
    with pytest.raises(ValueError, match="it has no"):
        from_texts({})
