"""Why an address is not ready: one case for each check."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli_platform import Obeying
from doubles import address, address_plan, infra, queue, space, space_plan, subscription
from enmasse.base.data_dir import DataDir, Leftovers, left_by_platform
from enmasse.cli import app
from enmasse.cli.resources.diagnosis import CHECKS, Facts, State, diagnose, explain_stopped
from enmasse.engines import AddressStatistics
from enmasse.plan import Compiler
from enmasse.plan.reasons import REMEDIES
from enmasse.resources import Address, Resource

SMALL = address_plan("small", "queue", router=0.01, broker=0.1)
LARGE = address_plan("large", "queue", router=0.01, broker=1)
PLANS = [infra(), SMALL, LARGE, space_plan("p", [LARGE], (1, 1, 2))]


def condition(reason: str, status: str = "False", message: str = "") -> dict[str, Any]:
    moment = "2026-01-01T00:00:00Z"
    return {"type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": moment}  # fmt: skip


SERVED = {"isReady": True, "observedGeneration": 1, "conditions": [condition("Served", "True")]}


def facts(
    one: Address | None = None,
    status: dict[str, Any] | None = None,
    **changes: Any,
) -> Facts:
    """The facts of a healthy address, with changes."""
    one = one or queue()
    shown = one.document() | {"status": status or SERVED}
    shown["metadata"] = shown["metadata"] | {"generation": 1} | changes.pop("metadata", {})
    home = space().document() | {"status": {"isReady": True}}
    return Facts(shown, **({"space": home} | changes))


def compiled(one: Address, *others: Resource) -> Facts:
    """The facts of an address that the control plane compiled with other resources."""
    compiler = Compiler()
    for resource in (*others, one):
        compiler.put(resource.key, resource)
    compiler.refresh()
    outcome = compiler.outcome(one.key)
    why = outcome.excluded or outcome.waiting
    assert why is not None
    status = SERVED | {"conditions": [condition(why.reason, message=why.message)]}
    return facts(one, status)


def named(name: str, created: str, **spec: Any) -> Address:
    """A queue `orders` by the name of its resource and the time of its creation."""
    return address(name, "queue", "orders", spec or None).with_metadata(creation_timestamp=created)


def statistics(**values: Any) -> dict[str, Any]:
    return SERVED | {"statistics": values}


NOT_SERVED = condition("NotServed", message="certBundle: kept and not served")

CASES: dict[str, tuple[Facts, str, State, str, str]] = {
    "a certificate that cannot be served": (
        facts(space=space().document() | {"status": {
            "isReady": True, "conditions": [NOT_SERVED | {"type": "CertificateProvided"}],
        }}),
        "certificate", State.NOTE, "kept and not served", "spec.endpoints[].cert",
    ),
    "a certificate that nobody trusts": (
        facts(handshake="TLS with 127.0.0.1:5671 as default.default fails: expired"),
        "certificate", State.ERROR, "as default.default fails", "enmasse logs",
    ),
    "no space": (
        facts(space=None), "address space", State.ERROR,
        "address space 'default' not found", "enmasse create addressspace default",
    ),
    "a space that is not ready": (
        facts(space=space().document() | {"status": {"phase": "Configuring"}}),
        "address space", State.ERROR, "is not ready: Configuring", "describe addressspace",
    ),
    "a name that another one has": (
        compiled(named("default.twin", "2"), space(), named("default.orders", "1")),
        "name", State.ERROR, "already declared by default.orders", "delete one",
    ),
    "a plan that is gone": (
        compiled(queue(plan="gone"), space(), *PLANS),
        "plan", State.ERROR, "AddressPlan 'gone' not found", "enmasse edit address orders",
    ),
    "a plan that the space does not offer": (
        compiled(queue(plan="small"), space(plan="p"), *PLANS),
        "plan", State.ERROR, "does not offer 'small'", "enmasse edit address orders",
    ),
    "no room in the quota": (
        compiled(queue(plan="large"), space(plan="p"), queue("default.b", plan="large"), *PLANS),
        "quota", State.ERROR, "broker 2 of 1", "enmasse plan usage",
    ),
    "a reference that is gone": (
        compiled(queue(deadletter="dead"), space()),
        "references", State.ERROR, "'dead' that does not exist", "declare it first",
    ),
    "a reference of another type": (
        compiled(subscription(topic="tasks"), space(), queue("default.tasks")),
        "references", State.ERROR, "not of type topic but queue", "name one of type topic",
    ),
    "no status at all": (
        facts(status={"phase": "Pending"}),
        "control", State.ERROR, "has not processed the last change yet", "enmasse logs",
    ),
    "a plan that the node refuses": (
        facts(status=SERVED | {"conditions": [condition("PlanRefused", message="no room")]}),
        "control", State.ERROR,
        "not ready since 2026-01-01T00:00:00Z: PlanRefused: no room", "enmasse logs",
    ),
    "one that was deleted": (
        facts(metadata={"deletionTimestamp": "now", "finalizers": ["x/keep"]}),
        "control", State.ERROR, "waits for finalizers: x/keep", "enmasse edit",
    ),
    "a disk that has failed": (
        facts(health="ok; the journal has stopped: no space left"),
        "node", State.ERROR, "the journal has stopped: no space left", "restart the platform",
    ),
    "a disk that a direct address does not need": (
        facts(address(), health="ok; the journal has stopped"),
        "node", State.NOTE, "the journal has stopped", "",
    ),
    "a platform that is starting": (
        facts(health="starting or stopping"), "node", State.ERROR, "starting", "wait",
    ),
    "a full queue": (
        facts(status=statistics(stored={"messages": 10}) | {
            "limits": {"messages": 10, "onFull": "reject"}}),
        "room", State.ERROR, "it is full (10 of 10 messages): new messages refused", "purge",
    ),
    "messages lost": (
        facts(status=statistics(damaged=3)), "room", State.NOTE, "3 messages were lost", "disk",
    ),
    "messages without a declared address": (
        facts(space=space().document() | {"status": {"isReady": True, "conditions": [
            {"type": "MessagesIntact", "status": "False", "message": "5 stored messages belong"},
        ]}}),
        "room", State.NOTE, "5 stored messages belong", "enmasse up --discard-unnamed",
    ),
    "senders without a receiver": (
        facts(address(), status=statistics(senders=2)),
        "clients", State.NOTE, "2 senders wait", "enmasse receive orders",
    ),
    "messages without a receiver": (
        facts(status=statistics(stored={"messages": 5})),
        "clients", State.NOTE, '5 messages are stored and there is no receiver', "",
    ),
    "an allowance that is used up": (
        facts(space=space().document() | {"status": {"isReady": True, "conditions": [
            {"type": "Sending", "status": "False", "message": "9 of 9 messages of 2026-11"},
        ]}}),
        "allowance", State.ERROR, 'senders of the space get no credit: 9 of 9', "larger plan",
    ),
    "a closed space without users": (
        facts(space=space().document() | {"status": {"isReady": True, "conditions": [
            {"type": "LoginPossible", "status": "False", "message": "it has no users"},
        ]}}),
        "access", State.NOTE, "has no users", "enmasse user create NAME --space default",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_diagnosis_finds_each_problem_with_its_remedy(name: str) -> None:
    known, check, state, message, remedy = CASES[name]
    (found,) = [one for one in diagnose(known) if one.check == check and message in one.message]
    assert found.state is state
    assert remedy in found.remedy


def test_every_check_passes_for_a_healthy_address() -> None:
    found = diagnose(facts())
    assert [one.check for one in found] == list(CHECKS)
    assert {one.state for one in found} == {State.OK}


def test_every_reason_belongs_to_a_check() -> None:
    assert {remedy.about for remedy in REMEDIES.values()} <= CHECKS.keys()


def test_doctor_lists_all_checks_and_exits_1_on_an_error(shop: Obeying) -> None:
    assert shop.enmasse("wait", "address", "--all").exit_code == 0
    well = shop.enmasse("doctor", "orders")
    assert well.exit_code == 0, well.output
    assert [line.split()[0] for line in well.stdout.splitlines()[1:3]] == ["address", "name"]
    assert "mends" not in well.stdout
    uid = shop.address("orders").metadata.uid or ""
    shop.engine.statistics = [AddressStatistics(uid, "default", "orders", stored=3)]
    shop.engine.troubled = "the journal has stopped"
    ill = shop.enmasse("doctor", "orders", "--output", "json")
    assert ill.exit_code == 1
    found = {one["check"]: one for one in json.loads(ill.stdout)["findings"]}
    assert found["node"]["state"] == "trouble"
    assert found["clients"]["message"] == "3 messages are stored and there is no receiver"
    assert "Remedies:" in shop.enmasse("doctor", "orders").stdout
    assert "did you mean 'orders'" in shop.enmasse("doctor", "order").stderr


@pytest.mark.parametrize(
    ("left", "check", "state", "message", "remedy"),
    [
        (
            Leftovers(False, False, False, None),
            "data",
            State.NOTE,
            "no platform has used",
            "--data",
        ),
        (Leftovers(True, True, False, None), "data", State.ERROR, "not restored", "restore"),
        (Leftovers(True, False, True, "7"), "process", State.ERROR, "process 7 uses", "wait"),
        (Leftovers(True, False, True, None), "process", State.NOTE, "ended without", "output"),
    ],
)
def test_a_platform_that_does_not_run_is_explained_by_its_folder(
    left: Leftovers, check: str, state: State, message: str, remedy: str
) -> None:
    first, second = explain_stopped("no platform runs", left)
    assert (first.check, first.state, first.remedy) == ("platform", State.ERROR, "enmasse up")
    assert (second.check, second.state) == (check, state)
    assert message in second.message and remedy in second.remedy


def test_a_folder_tells_what_a_platform_left_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert left_by_platform(folder) == Leftovers(False, False, False, None)
    with DataDir(folder) as data:
        data.write_endpoint({})
        assert left_by_platform(folder) == Leftovers(True, False, True, str(os.getpid()))
    assert left_by_platform(folder) == Leftovers(True, False, False, None)


def test_without_a_platform_the_command_shows_the_findings_and_ends_with_7(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["doctor", "orders", "--data", str(tmp_path), "-o", "json"])
    assert ended.exit_code == 7
    assert "no platform runs on data folder" in ended.stderr
    found = json.loads(ended.stdout)["findings"]
    assert [one["check"] for one in found] == ["platform", "data"]


def test_nodes_that_are_not_ready_or_cordoned_are_named_with_the_remedy() -> None:
    def node(name: str, *, is_ready: bool = True, cordoned: bool = False) -> dict[str, Any]:
        messages = [] if is_ready else ["no heartbeat for 15 s; check its process"]
        return {
            "metadata": {"name": name},
            "spec": {"cordoned": cordoned},
            "status": {"isReady": is_ready, "messages": messages},
        }

    nodes = [node("a"), node("b", is_ready=False), node("c", cordoned=True)]
    found = [one for one in diagnose(facts(nodes=nodes)) if one.check == "nodes"]
    assert [(one.state, one.message, one.remedy) for one in found] == [
        (State.NOTE, "node b is not ready: no heartbeat for 15 s", "check its process"),
        (
            State.NOTE,
            "node c is cordoned: it admits no new connections",
            "enmasse node uncordon c",
        ),
    ]
    (fine,) = [one for one in diagnose(facts(nodes=nodes[:1])) if one.check == "nodes"]
    assert fine.state is State.OK
