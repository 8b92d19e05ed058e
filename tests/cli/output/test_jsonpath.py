"""JSONPath with the syntax of kubectl."""

from typing import Any

import pytest

from enmasse.cli.output.jsonpath import path, template

ORDERS: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"app.io/team": "north"}},
    "spec": {"ports": [80, 443, 8080], "tls": True},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "generation": 2},
            {"type": "Sending", "status": "False", "generation": 1},
        ]
    },
}
LIST = {"items": [ORDERS, {"metadata": {"name": "b"}}]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{.metadata.name}", "a"),
        ("{$.metadata.name}!", "a!"),
        ("{['metadata']['name']}", "a"),
        ("{.metadata.labels.app\\.io/team}", "north"),
        ("{.metadata.labels['app.io/team']}", "north"),
        ("{.spec.ports[0]}", "80"),
        ("{.spec.ports[-1]}", "8080"),
        ("{.spec.ports[0:2]}", "80 443"),
        ("{.spec.ports[0,2]}", "80 8080"),
        ("{.spec.ports[*]}", "80 443 8080"),
        ("{.spec.ports[7]}", ""),
        ("{.spec.ports}", "[80,443,8080]"),
        ("{.spec.tls}", "true"),
        ("{..type}", "Ready Sending"),
        ("{.spec.*}", "[80,443,8080] true"),
        ("{.none.such}", ""),
        ('{.status.conditions[?(@.type=="Ready")].status}', "True"),
        ("{.status.conditions[?(@.type!='Ready')].status}", "False"),
        ("{.status.conditions[?(@.generation>1)].type}", "Ready"),
        ("{.status.conditions[?(@.generation<=1)].type}", "Sending"),
        ("{.status.conditions[?(@.type>1)].type}", ""),
        ("{.status.conditions[?(@.none)].type}", ""),
        ("{range .spec.ports[*]}<{@}>{end}", "<80><443><8080>"),
        ("{range .status.conditions[*]}{.type}{'\\t'}{.status}{\"\\n\"}{end}",
         "Ready\tTrue\nSending\tFalse\n"),
        ("plain", "plain"),
    ],
)  # fmt: skip
def test_jsonpath_template_renders_the_selected_values(text: str, told: str) -> None:
    assert template(text).text(ORDERS) == told


def test_jsonpath_ranges_may_be_nested() -> None:
    text = "{range .items[*]}{.metadata.name}:{range .spec.ports[*]}{@},{end};{end}"
    assert template(text).text(LIST) == "a:80,443,8080,;b:;"


@pytest.mark.parametrize("text", ["{.metadata.name}", ".metadata.name", "metadata.name"])
def test_jsonpath_needs_no_braces_outside_a_template(text: str) -> None:
    assert path(text).values(ORDERS) == ["a"]


def test_empty_jsonpath_selects_the_root() -> None:
    assert [path(text).values(7) for text in ("{}", "{.}", "{@}", "$")] == [[7]] * 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{.a", "unclosed action"),
        ("{.a[}", "unrecognized path"),
        ("{.a[x]}", "unrecognized path"),
        ("{.a[1:2:0]}", "invalid array index"),
        ("{.a[-]}", "invalid array index"),
        ("{.a[?(@.b==c)]}", "neither a number nor a quoted text"),
        ("{.a[?(b)]}", "unrecognized filter"),
        ("{range .a}", "a range without an end"),
        ("{end}", "an end without a range"),
    ],
)
def test_malformed_jsonpath_is_refused_with_its_problem(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        template(text)
