"""The table of MQTT's normative statements is complete and current."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def conformance() -> ModuleType:
    """The script that writes the table."""
    spec = importlib.util.spec_from_file_location(
        "mqtt_conformance", ROOT / "scripts/mqtt_conformance.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_statement_of_the_machine_has_a_test() -> None:
    script = conformance()
    kept = script.tests()
    missing = [
        f"{statement.version}: {statement.number}"
        for statement in script.statements()
        if statement.keeper == "machine" and (statement.version, statement.number) not in kept
    ]
    assert missing == []


def test_every_named_statement_exists() -> None:
    script = conformance()
    listed = {(statement.version, statement.number) for statement in script.statements()}
    assert len(listed) == len(script.statements())
    unknown = {mark: names for mark, names in script.tests().items() if mark not in listed}
    assert unknown == {}


def test_what_does_not_apply_has_a_reason() -> None:
    for statement in conformance().statements():
        assert statement.keeper in ("machine", "node", "none")
        assert statement.note or statement.keeper != "none", statement


def test_every_listed_test_exists() -> None:
    for statement in conformance().statements():
        if statement.keeper == "none" or not statement.note:
            continue
        for listed in statement.note.split(", "):
            module, name = listed.split(": ")
            found = [path.read_text() for path in ROOT.glob(f"tests/**/{module}.py")]
            assert any(f"def {name}(" in text for text in found), listed


def test_the_page_is_current() -> None:
    script = conformance()
    assert script.PAGE.read_text() == script.page(), "run `make conformance`"
