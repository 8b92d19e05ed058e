"""The Plan: what a node serves, as plain data, and how it is made from resources. Pure.

`compile` takes every declared resource and gives the Plan and what had to be left out of it. The
same resources give the same Plan, whatever their order. The JSON form is shared with the node:
`vectors/plans/` holds examples that the tests of both sides read.
"""

from enmasse.plan.compiler import Compiled, LeftOut, compile, is_open
from enmasse.plan.model import Plan, PlannedAddress
from enmasse.plan.references import Dangling, dangling

__all__ = [
    "Compiled",
    "Dangling",
    "LeftOut",
    "Plan",
    "PlannedAddress",
    "compile",
    "dangling",
    "is_open",
]
