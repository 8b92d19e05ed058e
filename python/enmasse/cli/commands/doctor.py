"""`enmasse doctor`: why an address is not ready, and the remedy."""

from typing import TYPE_CHECKING

import typer

from enmasse.cli.options.invocation import SpacedReporting
from enmasse.cli.options.shared import Address

if TYPE_CHECKING:
    from enmasse.cli.connect.client import Api
    from enmasse.cli.resources.diagnosis import Facts, Finding


def doctor(
    address: Address,
    *,
    call: SpacedReporting,
) -> None:
    """Explain why an address is not ready, or why no messages pass, with the remedy.

    It checks the address space, name, plan, quota, references, control loop, nodes, certificate,
    limits, clients and rights. The exit code is 1 if a check fails. If no platform runs, it
    checks the data folder; the exit code is 7.

    Example: enmasse doctor orders --space shop
    """
    from enmasse.base.data_dir import left_by_platform
    from enmasse.base.errors import Code, Unavailable
    from enmasse.cli import errors
    from enmasse.cli.output.printing import show
    from enmasse.cli.resources.diagnosis import State, diagnose, explain_stopped

    stopped: Unavailable | None = None
    try:
        with call.api() as api:
            found = diagnose(_facts(api, address, call.space, call.namespace))
    except Unavailable as error:
        folder = call.local_folder()
        if error.code != Code.SERVER_UNREACHABLE or folder is None:
            raise
        stopped = error
        found = explain_stopped(error.message, left_by_platform(folder))
    document = {"address": address, "findings": [_plain(one) for one in found]}
    show(document, call.output, lambda: _text(found))
    if stopped is not None:
        raise stopped
    if any(one.state is State.ERROR for one in found):
        raise typer.Exit(errors.FAILED)


def _facts(api: "Api", name: str, space: str, namespace: str) -> "Facts":
    from enmasse.base.errors import Denied, Missing, Unavailable
    from enmasse.base.kinds import KINDS
    from enmasse.cli.connect.trust import handshake_problem
    from enmasse.cli.resources.diagnosis import Facts
    from enmasse.cli.resources.names import find

    addresses = api.list("addresses", namespace, statistics=True)["items"]
    document = find(addresses, KINDS["Address"], name, space)
    own = document["metadata"]["name"].partition(".")[0]
    spaces = api.list("addressspaces", namespace)["items"]
    own_space = next((one for one in spaces if one["metadata"]["name"] == own), None)
    try:
        health = api.health()
    except Unavailable as error:
        health = error.message
    handshake = handshake_problem(own_space) if own_space else None
    try:
        nodes = api.list("messagingnodes", None)["items"]
    except (Denied, Missing):
        # Tenants do not see the machines of the platform, and an older platform has no nodes.
        nodes = []
    return Facts(document, own_space, health, nodes, handshake)


def _plain(finding: "Finding") -> dict[str, str]:
    # The keys are a contract: that of the remedy is older than the term.
    return {
        "check": finding.check,
        "state": str(finding.state),
        "message": finding.message,
        "mend": finding.remedy,
    }


def _text(found: "list[Finding]") -> str:
    from enmasse.cli.output.printing import columns
    from enmasse.cli.resources.diagnosis import State

    rows = [[one.check, one.state, one.message] for one in found]
    table = columns(["CHECK", "STATE", "WHAT"], rows)
    remedies = [
        f"{one.check}: {one.remedy}" for one in found if one.remedy and one.state is not State.OK
    ]
    return "\n".join([table, *(["", "Remedies:", *remedies] if remedies else [])])
