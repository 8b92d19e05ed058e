"""The reconcilers: each moves one concern of observed state towards declared state.

A reconciler keeps the state of its concern, needs a store and a clock, and adds to the batch the
resources that its work affects. None calls another: `enmasse.control.manager` calls them in order
and connects what one reads from another.
"""

from enmasse.control.reconcilers.authentication_services import AuthenticationServices, Prober
from enmasse.control.reconcilers.certificates import SpaceCertificates
from enmasse.control.reconcilers.exports import Exports
from enmasse.control.reconcilers.nodes import NodeObserver, Nodes
from enmasse.control.reconcilers.plan import PlanReconciler
from enmasse.control.reconcilers.status import StatusReconciler
from enmasse.control.reconcilers.usage import UsageReconciler

__all__ = [
    "AuthenticationServices",
    "Exports",
    "NodeObserver",
    "Nodes",
    "PlanReconciler",
    "Prober",
    "SpaceCertificates",
    "StatusReconciler",
    "UsageReconciler",
]
