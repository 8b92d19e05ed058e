"""The Plan: what a node serves, as plain data, and how it is made from resources. Pure.

`compile` takes every declared resource and gives the Plan and what had to be left out of it. The
same resources give the same Plan, whatever their order; `Compiler` does it change by change. The
JSON form is shared with the node: `vectors/plans/` holds examples that the tests of both sides
read.
"""

from enmasse.plan.catalogue import CATALOGUED, Catalogue, Problem
from enmasse.plan.compiler import Compiled, Compiler, compile, is_open
from enmasse.plan.model import Plan, PlannedAddress, PlannedSpace
from enmasse.plan.quota import ADDRESSES, Demand, Excess, demand, exceeded, outgrown, shown, used
from enmasse.plan.references import Dangling, dangling
from enmasse.plan.space import LeftOut, Outcome, names_of

__all__ = [
    "ADDRESSES",
    "CATALOGUED",
    "Catalogue",
    "Compiled",
    "Compiler",
    "Dangling",
    "Demand",
    "Excess",
    "LeftOut",
    "Outcome",
    "Plan",
    "PlannedAddress",
    "PlannedSpace",
    "Problem",
    "compile",
    "dangling",
    "demand",
    "exceeded",
    "is_open",
    "names_of",
    "outgrown",
    "shown",
    "used",
]
