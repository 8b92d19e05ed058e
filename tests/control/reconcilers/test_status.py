"""The reconciler of statuses writes the reports of the other reconcilers in portions."""

import asyncio
from collections.abc import Sequence

import pytest

from doubles import address, space
from enmasse.base.errors import Code, Invalid
from enmasse.control.reconcilers import (
    AuthenticationServices,
    Exports,
    Nodes,
    PlanReconciler,
    SpaceCertificates,
    StatusReconciler,
    UsageReconciler,
)
from enmasse.control.reconcilers.status import Sources
from enmasse.control.work_queue import PORTION, Batch
from enmasse.resources import Declared, Event, Key, parse
from reconciler_setup import Surroundings, batch_of

ORDERS = Key("Address", "default", "default.orders")


@pytest.fixture
def given() -> Surroundings:
    return Surroundings()


@pytest.fixture
def sources(given: Surroundings) -> Sources:
    store, engine, clock = given.store, given.engine, given.clock
    inventory, queue = given.inventory, given.queue
    plan = PlanReconciler(store, given.computed, engine, *given.compiling(), inventory, queue)
    return Sources(
        plan,
        UsageReconciler(store, engine, clock, plan.allowance_of, queue, asyncio.Lock()),
        SpaceCertificates(store, engine, clock, inventory, queue),
        Exports(store, inventory, queue),
        AuthenticationServices(inventory, queue),
        Nodes(clock, queue),
    )


@pytest.fixture
def status(given: Surroundings, sources: Sources) -> StatusReconciler:
    return StatusReconciler(
        given.store, given.computed, given.clock, sources, given.queue, asyncio.Lock()
    )


async def served(given: Surroundings, sources: Sources, *addresses: Key) -> Batch:
    """Serve a space with addresses, and return the batch whose statuses are due."""
    declared = [address(key.name) for key in addresses]
    changes = await given.declare(space(), *declared)
    for change in changes:
        sources.plan.declare(change)
    sources.plan.compile()
    batch = batch_of(changes)
    await sources.plan.serve(batch, 1)
    return batch


def phase(given: Surroundings, key: Key = ORDERS) -> str:
    found = given.store.get(key)
    assert isinstance(found, Declared)
    return found.status.phase


async def test_a_confirmed_resource_is_active_and_has_an_event(
    given: Surroundings, sources: Sources, status: StatusReconciler
) -> None:
    await status.reconcile(await served(given, sources, ORDERS), 1)
    assert phase(given) == "Active"
    events = [one for one in given.computed.list("Event") if isinstance(one, Event)]
    assert ("default.orders", "Served") in {
        (one.involved_object.name, one.reason) for one in events
    }


async def test_a_refusal_is_in_the_status(
    given: Surroundings, sources: Sources, status: StatusReconciler
) -> None:
    given.engine.refusals = [Invalid(Code.FIELD_INVALID, "no such thing")]
    await status.reconcile(await served(given, sources, ORDERS), 1)
    found = given.store.get(ORDERS)
    assert isinstance(found, Declared)
    assert found.status.messages == ("the node does not serve it yet: no such thing",)


async def test_a_pipeline_has_a_condition_that_nothing_runs_it(
    given: Surroundings, sources: Sources, status: StatusReconciler
) -> None:
    source = {"name": "s", "url": "amqp://h", "address": "a", "value": "value"}
    pipeline = {"apiVersion": "enmasse.io/v1beta1", "kind": "Pipeline", "metadata": {"name": "p"}}
    changes = await given.declare(parse(pipeline | {"spec": {"sources": [source]}}))
    await status.reconcile(batch_of(changes), 1)
    found = given.store.get(Key("Pipeline", "default", "p"))
    assert isinstance(found, Declared)
    (condition,) = found.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Ready", "False", "NotRun")
    assert "enmasse pipeline run" in condition.message


async def test_failed_portion_delays_no_other_portion(
    given: Surroundings,
    sources: Sources,
    status: StatusReconciler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [Key("Address", "default", f"default.a{number:03}") for number in range(PORTION + 1)]
    batch = await served(given, sources, *keys)
    put_status = given.store.put_status

    async def refuses(resources: Sequence[Declared]) -> None:
        if any(one.key == keys[0] for one in resources):
            raise Invalid(Code.FIELD_INVALID, "the definition does not allow it")
        await put_status(resources)

    monkeypatch.setattr(given.store, "put_status", refuses)
    with pytest.raises(Invalid, match="does not allow"):
        await status.reconcile(batch, 1)
    assert (phase(given, keys[0]), phase(given, keys[-1])) == ("Pending", "Active")
