"""Reports the nodes of the store: a MessagingNode for each, with its readiness and its load.

The observer reads heartbeats between passes. A pass writes the statuses of the nodes whose report
changed: conditions at once, loads rarely, so that heartbeats cause no declared writes.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError
from enmasse.control.messaging_node import LOAD_INTERVAL_S, NodeReport, differs, load_moved
from enmasse.control.work_queue import WorkQueue
from enmasse.resources import Key, MessagingNode
from enmasse.resources.messaging_node import MessagingNodeSpec
from enmasse.resources.model import INFRA_NAMESPACE, AdminMetadata
from enmasse.store import Store
from enmasse.store.nodes import Registered

log = structlog.get_logger(__name__)

OBSERVE_S = 5.0
"""Interval of reading the heartbeats of all nodes."""


class _Reported(NamedTuple):
    """The report of a node that its status has, or gets in the next pass."""

    report: NodeReport
    at_s: float


class Nodes:
    """The reports of nodes, for their statuses."""

    def __init__(self, clock: Clock, queue: WorkQueue) -> None:
        self._clock = clock
        self._queue = queue
        self._reported: dict[str, _Reported] = {}

    @property
    def reports(self) -> Mapping[str, NodeReport]:
        """The report of each node, by name."""
        return {name: one.report for name, one in self._reported.items()}

    def note(self, reports: Sequence[NodeReport]) -> None:
        """Record the reports of all nodes; those that matter go into the next pass."""
        present = {one.node.identity.name for one in reports}
        changed = self._reported.keys() - present
        for name in changed:
            del self._reported[name]
        now_s = self._clock.monotonic()
        for report in reports:
            name = report.node.identity.name
            if self._matters(report, self._reported.get(name), now_s):
                self._reported[name] = _Reported(report, now_s)
                changed = changed | {name}
        self._queue.add(map(key_of, changed))

    @staticmethod
    def _matters(report: NodeReport, before: _Reported | None, now_s: float) -> bool:
        if before is None or differs(report, before.report):
            return True
        return now_s - before.at_s >= LOAD_INTERVAL_S and load_moved(report, before.report)


class NodeObserver:
    """Reads heartbeats, and creates the resources of new nodes."""

    def __init__(self, store: Store, nodes: Nodes, clock: Clock) -> None:
        self._store = store
        self._nodes = nodes
        self._clock = clock

    async def observe(self) -> None:
        """Report all nodes.

        Raises: Unavailable if the store is.
        """
        found = await self._store.nodes.list()
        await self._create(found)
        self._nodes.note([self._report(one) for one in found])

    async def run(self) -> None:
        """Observe until cancelled."""
        while True:
            try:
                await self.observe()
            except EnMasseError as error:
                log.warning("nodes cannot be observed", reason=error.message)
            await self._clock.sleep(OBSERVE_S)

    async def _create(self, nodes: Sequence[Registered]) -> None:
        """Create the missing resources. On Kubernetes one can be deleted past the API: it gets the
        cordon that its node still applies.
        """
        if not self._missing(nodes):
            return
        async with self._store.turn() as turn:
            # Another process may have created one before this turn.
            await turn.put([_resource_of(one) for one in self._missing(nodes)])

    def _missing(self, nodes: Sequence[Registered]) -> Sequence[Registered]:
        return [one for one in nodes if self._store.get(key_of(one.identity.name)) is None]

    def _report(self, node: Registered) -> NodeReport:
        if node.silent_s is not None:
            return NodeReport(node, node.is_silent)
        # Not observed for long enough: what the last leader found holds until then.
        there = self._store.get(key_of(node.identity.name))
        was_ready = isinstance(there, MessagingNode) and there.status.is_ready
        is_new = not isinstance(there, MessagingNode) or there.status.uid != node.identity.uid
        return NodeReport(node, not (was_ready or is_new))


def _resource_of(node: Registered) -> MessagingNode:
    return MessagingNode(
        metadata=AdminMetadata(name=node.identity.name),
        spec=MessagingNodeSpec(cordoned=node.heartbeat.is_cordoned),
    )


def key_of(name: str) -> Key:
    """Return the key of the resource of a node."""
    return Key("MessagingNode", INFRA_NAMESPACE, name)
