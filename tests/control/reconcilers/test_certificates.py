"""The reconciler of certificates: activated before the Plan, renewed in time, removed with a space.

`tests/control/test_certificates.py` tests the content of certificates.
"""

from datetime import UTC, datetime

import pytest

from doubles import space
from enmasse.base.errors import Code, Unavailable
from enmasse.control.reconcilers import SpaceCertificates
from enmasse.control.work_queue import Batch
from enmasse.resources import Key
from fake_engine import node_identity
from reconciler_setup import Surroundings, batch_of

SPACE = Key("AddressSpace", "default", "default")
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)
YEAR_S = 366 * 86_400.0


@pytest.fixture
def given() -> Surroundings:
    surroundings = Surroundings()
    surroundings.clock.moment = NOVEMBER
    return surroundings


@pytest.fixture
def certificates(given: Surroundings) -> SpaceCertificates:
    return SpaceCertificates(given.store, given.engine, given.clock, given.inventory, given.queue)


async def test_no_certificate_is_activated_before_that_of_the_node_is_known(
    given: Surroundings, certificates: SpaceCertificates
) -> None:
    batch = batch_of(await given.declare(space()))
    assert await certificates.reconcile(batch) is None
    assert given.engine.shown == {}
    certificates.set_node(node_identity(NOVEMBER, "mq.example.com"))
    assert given.queue.take().keys == {SPACE}
    await certificates.reconcile(batch)
    assert list(given.engine.shown) == [given.uid(SPACE)]


async def test_activation_failure_is_returned_and_cleared_by_the_next_pass(
    given: Surroundings, certificates: SpaceCertificates
) -> None:
    certificates.set_node(node_identity(NOVEMBER, "mq.example.com"))
    failure = Unavailable(Code.NOT_AVAILABLE, "the engine is away")
    given.engine.show_refusals = [failure]
    batch = batch_of(await given.declare(space()))
    assert await certificates.reconcile(batch) is failure
    uid = given.uid(SPACE)
    shown = certificates.shown(uid)
    assert shown and shown.problem and "is retried" in shown.problem[1]
    assert await certificates.reconcile(batch) is None
    shown = certificates.shown(uid)
    assert shown and shown.problem is None


async def test_a_certificate_is_renewed_when_it_is_due(
    given: Surroundings, certificates: SpaceCertificates
) -> None:
    certificates.set_node(node_identity(NOVEMBER, "mq.example.com"))
    await certificates.reconcile(batch_of(await given.declare(space())))
    [before] = given.engine.shown.values()
    await certificates.reconcile(Batch())
    assert list(given.engine.shown.values()) == [before]
    given.clock.advance(YEAR_S)
    batch = Batch()
    await certificates.reconcile(batch)
    assert batch.keys == {SPACE}, "the status of the space must show the new certificate"
    assert list(given.engine.shown.values()) != [before]


async def test_the_certificates_of_a_deleted_space_are_removed(
    given: Surroundings, certificates: SpaceCertificates
) -> None:
    certificates.set_node(node_identity(NOVEMBER, "mq.example.com"))
    await certificates.reconcile(batch_of(await given.declare(space())))
    uid = given.uid(SPACE)
    await certificates.reconcile(batch_of(await given.delete(SPACE)))
    assert given.engine.shown[uid] == ()
    assert given.store.list("Secret") == []
