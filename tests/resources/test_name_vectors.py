"""Names and patterns, against the vectors that the node also reads.

The node would refuse the whole Plan of all tenants because of one invalid name.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from enmasse.resources.address import AddressSpec
from enmasse.resources.messaging_user import Authorization

VECTORS = Path(__file__).parents[2] / "vectors" / "names"
PATTERNS: dict[str, Any] = json.loads((VECTORS / "patterns.json").read_text())
ADDRESSES: dict[str, list[str]] = json.loads((VECTORS / "addresses.json").read_text())


@pytest.mark.parametrize("pattern", [vector["pattern"] for vector in PATTERNS["rights"]])
def test_pattern_that_the_node_accepts_may_be_declared(pattern: str) -> None:
    assert Authorization(addresses=(pattern,), operations=("send",)).addresses == (pattern,)


@pytest.mark.parametrize("pattern", PATTERNS["rights-refused"])
def test_pattern_that_the_node_refuses_is_rejected(pattern: str) -> None:
    with pytest.raises(ValidationError):
        Authorization(addresses=(pattern,), operations=("send",))


@pytest.mark.parametrize("name", ADDRESSES["good"])
def test_address_name_that_the_node_accepts_may_be_declared(name: str) -> None:
    assert AddressSpec(type="anycast", address=name).address == name


@pytest.mark.parametrize("name", ADDRESSES["refused"])
def test_address_name_that_the_node_refuses_is_rejected(name: str) -> None:
    with pytest.raises(ValidationError):
        AddressSpec(type="anycast", address=name)
