"""The Plan: everything a node serves, as plain data, compiled from resources. Pure.

`DeclaredState` holds the declared resources, `Overlay` answers what a request would come to, and
`Compiler` what the node must serve, at a cost proportional to a change. `compile` does that for all
resources at once; the result does not depend on their order. The JSON form of a Plan is shared with
the node: `vectors/plans/` has examples that the tests of both sides read.
"""

from enmasse.plan.catalogue import CATALOGUED, Catalogue, Problem
from enmasse.plan.compiler import (
    FIRST_DEFAULT,
    Compiled,
    Compiler,
    compile,
    default_space,
)
from enmasse.plan.declared import PLATFORM, Declarations, DeclaredState
from enmasse.plan.login import open_spaces
from enmasse.plan.model import Plan, PlannedAddress, PlannedSpace
from enmasse.plan.naming import names_of
from enmasse.plan.overlay import Overlay
from enmasse.plan.quota import ADDRESSES, Demand, Excess, demand, exceeded, outgrown, shown, used
from enmasse.plan.references import Dangling, dangling
from enmasse.plan.space import Outcome, OutcomeReason

__all__ = [
    "ADDRESSES",
    "CATALOGUED",
    "FIRST_DEFAULT",
    "PLATFORM",
    "Catalogue",
    "Compiled",
    "Compiler",
    "Dangling",
    "Declarations",
    "DeclaredState",
    "Demand",
    "Excess",
    "Outcome",
    "OutcomeReason",
    "Overlay",
    "Plan",
    "PlannedAddress",
    "PlannedSpace",
    "Problem",
    "compile",
    "dangling",
    "default_space",
    "demand",
    "exceeded",
    "names_of",
    "open_spaces",
    "outgrown",
    "shown",
    "used",
]
