"""The engine of a stand-by process."""

import pytest

from enmasse.base.errors import Code, Unavailable
from enmasse.engines import Connection, Observed, Operation, Slice, SliceDone
from enmasse.engines.standby import Standby
from enmasse.plan import Plan
from fake_engine import FakeEngine


async def test_standby_engine_observes_no_addresses_and_no_connections() -> None:
    engine = Standby()
    assert await engine.observe() == Observed(0, ())
    assert await engine.connections() == ()
    assert "stand-by" in (engine.problem() or "")


async def test_standby_engine_refuses_every_operation() -> None:
    engine = Standby()
    for step in (
        engine.apply(Plan(version=1, spaces=())),
        engine.trace(1, on=True),
        engine.show_certificates({}),
        engine.manage("uid", Operation.PURGE, Slice()),
    ):
        with pytest.raises(Unavailable, match="send the request to that process") as refusal:
            await step
        assert refusal.value.code == Code.STANDING_BY


async def test_standby_engine_delegates_to_the_real_engine_after_takeover() -> None:
    engine, real = Standby(), FakeEngine()
    real.open = [Connection(1, "default", None, None, None, "amqp", 0)]
    real.answers = [SliceDone(1, 2)]
    engine.activate(real)
    assert (await engine.apply(Plan(version=7, spaces=()))).version == 7
    assert await engine.connections() == real.open
    assert (await engine.observe()).connections == 1
    assert await engine.manage("uid", Operation.PURGE, Slice()) == SliceDone(1, 2)
    await engine.trace(1, on=True)
    assert real.traced == {1: True}
    assert await engine.show_certificates({"uid": ()}) == [] and real.shown == {"uid": ()}
    assert engine.problem() is None
