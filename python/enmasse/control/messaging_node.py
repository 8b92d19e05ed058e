"""Status of a node: readiness and cordon by its heartbeats. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from enmasse.control.events import EventDetails
from enmasse.control.status import Check, Finding, Seen, terminating
from enmasse.resources import Declared, MessagingNode
from enmasse.resources.conditions import find, stated, without
from enmasse.resources.messaging_node import CORDONED, NodeEndpoint, NodeLoad
from enmasse.store.nodes import SILENT_S, Registered

LOAD_SHARE = 0.2
"""Change of a load, as a share of the reported one, that is reported."""

LOAD_INTERVAL_S = 30.0
"""Minimum interval of reports of a node's load."""


class NodeReport(NamedTuple):
    """What the status of a node is decided from."""

    node: Registered
    is_silent: bool


def no_heartbeat(resource: Declared, seen: Seen) -> Finding | None:
    """Its process is not known, has stopped or is silent."""
    report = seen.nodes.get(resource.metadata.name)
    if report is None:
        message = (
            "no process has registered as this node; start one with --node-name"
            f" {resource.metadata.name}, or run enmasse node forget {resource.metadata.name}"
        )
        return Finding("Pending", "NotRegistered", message)
    if report.node.is_stopped:
        message = f"its process has stopped; start it again, or {_forget(resource)}"
        return Finding("Pending", "Stopped", message)
    if report.is_silent:
        message = (
            f"no heartbeat for {SILENT_S:.0f} s; check that its process runs and reaches the store,"
            f" or {_forget(resource)}"
        )
        return Finding("Failed", "Silent", message)
    return None


def _forget(resource: Declared) -> str:
    return f"if it does not return, run enmasse node forget {resource.metadata.name}"


CHAIN: tuple[Check, ...] = (terminating, no_heartbeat)


def with_report(node: MessagingNode, seen: Seen) -> MessagingNode:
    """Return a node with what its last heartbeat says, and with the condition Cordoned."""
    report = seen.nodes.get(node.metadata.name)
    if report is None:
        return _with_cordon(node, None, seen)
    identity, heartbeat = report.node.identity, report.node.heartbeat
    status = node.status.model_copy(
        update={
            "uid": identity.uid,
            "start": identity.start,
            "role": heartbeat.role,
            "zone": heartbeat.zone or None,
            "version": heartbeat.version or None,
            "feature_level": heartbeat.feature_level or None,
            "endpoints": {
                name: NodeEndpoint(host=str(place["host"]), port=int(place["port"]))
                for name, place in sorted(heartbeat.endpoints.items())
            },
            "load": NodeLoad(
                connections=heartbeat.connections,
                messages_per_second=heartbeat.messages_per_second,
            ),
        }
    )
    return _with_cordon(node.with_status(status), report, seen)


def _with_cordon(node: MessagingNode, report: NodeReport | None, seen: Seen) -> MessagingNode:
    """State whether the node refuses new connections; nothing if that was never asked of it."""
    refuses = report is not None and report.node.heartbeat.is_cordoned
    status = node.status
    if not node.spec.cordoned and not refuses:
        conditions = without(status.conditions, CORDONED)
    else:
        reason, message = _cordon_reason(node, refuses=refuses)
        conditions = stated(
            status,
            CORDONED,
            holds=refuses,
            reason=reason,
            message=message,
            generation=node.metadata.generation,
            now=seen.now,
        )
    return node.with_status(status.model_copy(update={"conditions": conditions}))


def _cordon_reason(node: MessagingNode, *, refuses: bool) -> tuple[str, str]:
    if not refuses:
        return "NotSeen", "the node has not seen yet that it is cordoned"
    if node.spec.cordoned:
        return "Cordoned", "it refuses new connections and keeps the open ones"
    return "StillCordoned", "the node has not seen yet that it is uncordoned"


def event_of_cordon(before: Declared, after: Declared) -> EventDetails | None:
    """Return the event of a node that was cordoned or uncordoned, if it was."""
    if not isinstance(after, MessagingNode):
        return None
    was, now = (
        (condition := find(one.status.conditions, CORDONED)) is not None
        and condition.status == "True"
        for one in (before, after)
    )
    if was == now:
        return None
    if now:
        return EventDetails(after, "Cordoned", "the node refuses new connections", False)
    return EventDetails(after, "Uncordoned", "the node admits new connections", False)


def differs(now: NodeReport, reported: NodeReport) -> bool:
    """Whether more than the load of a node has changed since it was reported."""
    return _apart_from_load(now) != _apart_from_load(reported)


def load_moved(now: NodeReport, reported: NodeReport) -> bool:
    """Whether a load has moved by LOAD_SHARE since it was reported."""
    pairs = zip(_loads(now), _loads(reported), strict=True)
    return any(abs(value - before) > LOAD_SHARE * before for value, before in pairs)


def _loads(report: NodeReport) -> tuple[float, float]:
    heartbeat = report.node.heartbeat
    return heartbeat.connections, heartbeat.messages_per_second


def _apart_from_load(report: NodeReport) -> tuple[object, ...]:
    node, said = report.node, report.node.heartbeat
    known: Mapping[str, object] = said.endpoints
    return (
        *(report.is_silent, node.is_stopped, node.identity, said.role, said.zone, said.version),
        *(said.feature_level, known, said.is_cordoned),
    )
