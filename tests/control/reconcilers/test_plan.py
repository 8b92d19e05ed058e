"""The reconciler of the Plan: compile, apply once, confirm, report a refusal."""

import asyncio
import base64
from collections.abc import Iterable

import pytest

from doubles import address, document, space, space_plan
from enmasse.base.errors import Code, Unavailable
from enmasse.control.inventory import Change
from enmasse.control.reconcilers import PlanReconciler
from enmasse.control.work_queue import Batch
from enmasse.engines import Failure
from enmasse.plan import Plan
from enmasse.resources import Key, Secret, parse
from enmasse.resources.core import NamedMetadata
from reconciler_setup import Surroundings, batch_of

ORDERS = Key("Address", "default", "default.orders")
BUSY = Unavailable(Code.NOT_AVAILABLE, "busy")


@pytest.fixture
def given() -> Surroundings:
    return Surroundings()


@pytest.fixture
def plan(given: Surroundings) -> PlanReconciler:
    return PlanReconciler(
        given.store, given.computed, given.engine, *given.compiling(), given.inventory, given.queue
    )


async def serve(plan: PlanReconciler, changes: Iterable[Change], version: int = 1) -> Batch:
    """Run the steps of a pass that concern the Plan; return the batch."""
    changes = list(changes)
    for change in changes:
        plan.declare(change)
    batch = batch_of(changes)
    batch.keys |= await plan.derive_passwords(batch)
    batch.keys |= plan.compile()
    await plan.serve(batch, version)
    return batch


async def test_a_plan_is_applied_once(given: Surroundings, plan: PlanReconciler) -> None:
    await serve(plan, await given.declare(space(), address()))
    assert [one.names[0] for one in given.engine.plan.spaces] == ["default"]
    assert plan.applied_version(0) == 1
    assert plan.proof and plan.proof.active == {given.uid(ORDERS)}
    await serve(plan, [], version=2)
    assert len(given.engine.applied) == 1, "the same content is not applied again"


async def test_a_refusal_is_kept_until_the_engine_accepts(
    given: Surroundings, plan: PlanReconciler
) -> None:
    given.engine.refusals = [BUSY]
    await serve(plan, await given.declare(space(), address()))
    assert (plan.refusal, plan.proof, plan.applied_version(7)) == (BUSY, None, 7)
    batch = await serve(plan, [], version=2)
    assert plan.refusal is None
    assert ORDERS in batch.keys, "its proof is new"


async def test_doubted_proof_is_queried_again(given: Surroundings, plan: PlanReconciler) -> None:
    await serve(plan, await given.declare(space(), address()))
    uid = given.uid(ORDERS)
    given.engine.failed = {uid: Failure("NotOpened", "no room")}
    assert (await serve(plan, [])).keys == set(), "the engine is not queried without an event"
    plan.request_confirmation()
    await asyncio.wait_for(given.queue.wait(60), 1)
    assert (await serve(plan, [])).keys == {ORDERS}
    assert plan.proof and plan.proof.failed == given.engine.failed
    assert not plan.is_served, "the next pass applies the Plan again"


async def test_full_pass_reapplies_a_plan_that_the_engine_lost(
    given: Surroundings, plan: PlanReconciler
) -> None:
    await serve(plan, await given.declare(space(), address()))
    given.engine.applied.append(Plan(version=0, spaces=()))
    batch = Batch(is_full=True)
    await plan.serve(batch, 2)
    assert given.engine.plan.version == 2
    assert [one.names[0] for one in given.engine.plan.spaces] == ["default"]


async def test_a_password_in_a_secret_is_derived_before_the_plan(
    given: Surroundings, plan: PlanReconciler
) -> None:
    authentication = {"type": "password", "passwordSecret": {"name": "login"}}
    spec = {"username": "alice", "authentication": authentication, "authorization": []}
    alice = parse(document("MessagingUser", "default.alice", spec))
    data = {"password": base64.b64encode(b"a-long-password").decode()}
    secret = Secret(metadata=NamedMetadata(name="login", namespace="default"), data=data)
    changes = await given.declare(space(), alice, secret)
    assert alice.key not in plan.waiting
    plan.declare(next(change for change in changes if change.key == alice.key))
    assert alice.key in plan.waiting
    await serve(plan, changes)
    assert plan.waiting == set()
    assert plan.outcome(alice.key).excluded is None
    [planned] = given.engine.plan.spaces
    assert [one.name for one in planned.users] == ["alice"] and planned.users[0].verifiers


async def test_schemas_are_published_when_plans_change(
    given: Surroundings, plan: PlanReconciler
) -> None:
    await plan.publish()
    version = given.computed.version
    assert version > 0
    await plan.publish()
    assert given.computed.version == version
    await serve(plan, await given.declare(space_plan("small", [], (1, 1, 2))))
    await plan.publish()
    assert given.computed.version > version
