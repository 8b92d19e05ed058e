"""The back-off between attempts."""

from enmasse.base.tasks import Backoff


def test_waits_double_up_to_the_limit() -> None:
    backoff = Backoff(first_s=0.5, limit_s=3.0)
    assert [backoff.delay_s(failures) for failures in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_backoff_of_many_failures_does_not_overflow() -> None:
    assert Backoff().delay_s(1_000_000) == 30.0
