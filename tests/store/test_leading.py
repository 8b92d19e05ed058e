"""How long a leader leads without an answer of the store."""

import asyncio

import pytest

from doubles import TestClock
from enmasse.base.errors import Code, Unavailable
from enmasse.store.leading import LEASE_S, RENEW_S, Leading

GRACE_S = 60.0
AWAY = Unavailable(Code.STORE_UNUSABLE, "the link is down")


class Scripted(Leading):
    """A leader that renews by a script; the lease is lost at the end of the script."""

    def __init__(self, clock: TestClock, *script: bool | Unavailable) -> None:
        super().__init__(clock)
        self.script = [True, *script]

        self.given_back = 0

    async def _give_back(self) -> None:
        self.given_back += 1

    async def _take(self) -> bool:
        answer = self.script.pop(0) if self.script else False
        if isinstance(answer, Unavailable):
            raise answer
        self._term = 1
        return answer


async def led(clock: TestClock, grace_s: float | None, *script: bool | Unavailable) -> Unavailable:
    """Lead by a script until the lease is lost; return the error."""
    one = Scripted(clock, *script)
    assert await one.take()
    with pytest.raises(Unavailable) as lost:
        await one.keep(grace_s)
    assert lost.value.code == Code.STANDING_BY
    return lost.value


async def test_leader_renews_its_lease_until_another_process_leads() -> None:
    clock = TestClock()
    lost = await led(clock, 0, *[True] * 100)
    assert "another process of the same database leads" in lost.message
    assert clock.elapsed_s == 101 * RENEW_S


async def test_process_that_must_not_lead_does_not_ask_for_the_lease() -> None:
    one, refusals = Scripted(TestClock()), 3
    script = [*one.script]

    async def may_lead() -> bool:
        nonlocal refusals
        refusals -= 1
        assert one.script == script and not one.leads
        return refusals < 0

    await one.gain(may_lead)
    assert one.leads and refusals == -1


@pytest.mark.parametrize("grace_s", [0, GRACE_S])
async def test_leader_without_answers_stops_at_the_end_of_its_grace(grace_s: float) -> None:
    clock = TestClock()
    lost = await led(clock, grace_s, *[AWAY] * 1000)
    assert "leader-grace-s" in lost.message and AWAY.message in lost.message
    # Without a grace, the leader stops before another process can take the lease.
    assert grace_s <= clock.elapsed_s < LEASE_S + grace_s


async def test_grace_restarts_with_each_renewal() -> None:
    clock = TestClock()
    away = [AWAY] * int(GRACE_S / 2)
    lost = await led(clock, GRACE_S, *away, True, *away, True, *away)
    assert "another process of the same database leads" in lost.message
    assert clock.elapsed_s > GRACE_S + LEASE_S


async def test_keep_renews_at_the_time_that_the_acquisition_set() -> None:
    clock = TestClock()
    one = Scripted(clock)
    assert await one.take()
    clock.advance(RENEW_S - 1)
    with pytest.raises(Unavailable, match="another process of the same database leads"):
        await one.keep(0)
    assert clock.elapsed_s == RENEW_S


async def test_leader_without_a_grace_limit_leads_until_another_takes_over() -> None:
    clock = TestClock()
    lost = await led(clock, None, *[AWAY] * 10_000)
    assert "another process of the same database leads" in lost.message
    assert clock.elapsed_s > 10_000


async def test_leader_renews_first_after_a_suspended_machine_resumes() -> None:
    clock = TestClock()
    one = Scripted(clock, True, True)
    assert await one.take()
    clock.advance(3600)
    with pytest.raises(Unavailable, match="another process of the same database leads"):
        await one.keep(0)
    assert not one.script


async def test_former_leader_does_not_release_the_lease_on_close() -> None:
    one = Scripted(TestClock(), *[AWAY] * 100)
    assert await one.take() and one.leads
    with pytest.raises(Unavailable, match="leader-grace-s"):
        await one.keep(0)
    await one.close()
    assert not one.leads and not one.given_back


async def test_leader_releases_its_lease_on_close() -> None:
    one = Scripted(TestClock())
    await one.close()
    assert not one.given_back
    assert await one.take()
    await one.close()
    assert one.given_back == 1


async def test_close_gives_up_on_a_lease_release_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("enmasse.store.leading.GIVE_BACK_S", 0.05)

    class HangingLeader(Scripted):
        async def _give_back(self) -> None:
            await asyncio.Event().wait()

    one = HangingLeader(TestClock())
    assert await one.take()
    async with asyncio.timeout(20):
        await one.close()


async def test_acquisition_that_hangs_raises_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enmasse.store.leading.LEASE_S", 0.05)

    class HangingLeader(Scripted):
        async def _take(self) -> bool:
            await asyncio.Event().wait()
            return True

    with pytest.raises(Unavailable, match=r"the store has not answered for 0\.05 s") as refusal:
        await HangingLeader(TestClock()).take()
    assert refusal.value.code == Code.STORE_UNUSABLE
