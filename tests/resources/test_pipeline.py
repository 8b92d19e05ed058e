"""The document of a pipeline: parsing, defaults and validation."""

import json
import shlex
from typing import Any

import jsonschema_rs
import pytest
import yaml

from enmasse.base.errors import Invalid
from enmasse.pipeline import template
from enmasse.resources import Pipeline, load, parse


def document(**changes: Any) -> dict[str, Any]:
    """A small pipeline; `source` and `detector` change its first source and detector."""
    source = {"name": "s", "url": "amqp://h", "address": "a", "value": "value"}
    source |= changes.pop("source", {})
    spec: dict[str, Any] = {"sources": [source]}
    if (detector := changes.pop("detector", None)) is not None:
        spec["detectors"] = [{"name": "d"} | detector]
    return {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": "Pipeline",
        "metadata": {"name": "p"},
        "spec": spec | changes,
    }


def pipeline(**changes: Any) -> Pipeline:
    found = parse(document(**changes))
    assert isinstance(found, Pipeline)
    return found


def test_pipeline_has_defaults_for_omitted_fields() -> None:
    spec = pipeline(windows=["1m", "1h"], live={"offlineAfter": "90s"}).spec
    assert spec.windows == (60_000, 3_600_000)
    assert (spec.tables.path, spec.tables.format) == ("tables", "delta")
    assert spec.live.offline_after == 90_000
    source = spec.sources[0]
    assert (source.format, source.device, source.value) == ("json", ("device",), ("value",))


def test_durations_keep_their_unit() -> None:
    written = document(source={"late": "7d", "ahead": "0ms"}, windows=["90s", "1h"], trigger=5000)
    spec = parse(written).document()["spec"]
    assert (spec["sources"][0]["late"], spec["windows"]) == ("7d", ["90s", "1h"])
    assert (spec["trigger"], spec["live"]["offlineAfter"], spec["memory"]) == ("5s", "5m", 1 << 30)
    assert parse(parse(written).document()) == parse(written)


@pytest.mark.parametrize("path", ["/t", "a b/c", "file:///t/u", "s3://b", "s3a://b.c/t_1/u=2.d/"])
def test_tables_path_is_a_folder_or_an_s3_uri(path: str) -> None:
    assert pipeline(tables={"path": path}).spec.tables.path == path


def test_metric_is_a_name_or_an_object_with_field_and_unit() -> None:
    metrics = ["humidity", {"name": "temperature", "field": "t", "unit": "Cel"}]
    source = pipeline(source={"metrics": metrics}).spec.sources[0]
    assert [(metric.name, metric.field, metric.unit) for metric in source.metrics] == [
        ("humidity", None, None),
        ("temperature", "t", "Cel"),
    ]


def test_init_template_is_a_valid_pipeline() -> None:
    (found,) = load(template.document("amqps://h:5671", "it's"), "pipeline.yaml")
    assert isinstance(found, Pipeline)
    assert (found.spec.sources[0].url, found.spec.sources[0].address) == ("amqps://h:5671", "it's")
    assert {detector.name for detector in found.spec.detectors} == {
        "too-hot", "jump", "unusual", "silent",
    }  # fmt: skip


def template_validator() -> jsonschema_rs.Validator:
    """The JSON schema of the template, as an editor uses it."""
    return jsonschema_rs.validator_for(json.loads(template.schema()))


@pytest.mark.parametrize(
    "text",
    [
        template.document("amqps://h:5671", "it's"),
        json.dumps(document(source={"metrics": ["a", {"name": "b", "unit": "Cel"}]})),
        json.dumps(document(source={"device": ["a", "b"], "time": "t"}, trigger=5000)),
    ],
    ids=["of init", "short metrics", "several names"],
)
def test_json_schema_accepts_valid_pipelines(text: str) -> None:
    (found,) = load(text, "pipeline.yaml")
    assert isinstance(found, Pipeline)
    assert [error.message for error in template_validator().iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    "wrong",
    [{"format": "jsn"}, {"addres": "a"}, {"device": 5}, {"metrics": [{"unit": "m"}]}],
    ids=str,
)
def test_json_schema_rejects_invalid_pipelines(wrong: dict[str, Any]) -> None:
    text = document(source=wrong)
    assert not template_validator().is_valid(text)
    with pytest.raises(Invalid):
        parse(text)


ABOVE = {"above": 1}
QUEUE = {"name": "q", "url": "amqp://h", "address": "a", "value": "value", "spool": "k"}
SINK = {"name": "k", "address": "a"}
REFUSED = [
    ({"source": {"url": "http://h"}}, "spec.sources[0].url", "names no server"),
    ({"source": {"url": "amqp://u:p@h"}}, "spec.sources[0].url", "passwordFile"),
    ({"source": {"options": {"Password": "x"}}}, "spec.sources[0].options", "passwordFile"),
    ({"source": {"options": {"decode": "x"}}}, "spec.sources[0].options", "a field of the source"),
    ({"source": {"value": []}}, "spec.sources[0]", "declares no reading"),
    ({"source": {"device": []}}, "spec.sources[0].device", "field of the device"),
    ({"source": {"value": "a`b"}}, "spec.sources[0].value[0]", "backticks"),
    ({"source": {"adress": "x"}}, "spec.sources[0].adress", "did you mean 'address'"),
    ({"source": {"metrics": ["a", "a"]}}, "spec.sources[0].metrics", "used 2 times"),
    ({"sources": []}, "spec.sources", "must not be empty"),
    (
        {"source": {"spool": "q", "start": "latest"}},
        "spec.sources[0].start",
        "a queue has no offsets",
    ),
    ({"source": {"options": {"spool": "q"}}}, "spec.sources[0].options", "spool is a field of"),
    ({"sources": [QUEUE, QUEUE | {"name": "r"}]}, "spec.sources.spool", "'k' is used 2 times"),
    ({"source": {"spool": "s3://b/q"}}, "spec.sources[0].spool", "needs a shared disk"),
    *(
        ({"tables": {"path": uri}}, "spec.tables.path", "write a folder, or s3://BUCKET/FOLDER")
        for uri in ("gs://b/t", "hdfs://h/t", "s3://u:p@b/t", "s3://b/a b", "s3://b/t?region=x")
    ),
    ({"tables": {"format": "parquet"}}, "spec.tables.format", "set it to `delta`"),
    ({"windows": ["7m"]}, "spec.windows[0]", "must divide a day"),
    ({"windows": ["60s", "1m"]}, "spec.windows", "names a length twice"),
    ({"source": {"options": {"token": "x"}}}, "spec.sources[0].options", "tokenFile"),
    ({"live": {"connections": 0}}, "spec.live.connections", "must be at least 1"),
    ({"live": {"keep": "1m"}}, "spec.live.keep", "must not be shorter than `offlineAfter`"),
    ({"source": {"start": "yesterday"}}, "spec.sources[0].start", "is not a position"),
    ({"live": {"url": "postgresql://u:p@h/d"}}, "spec.live.url", "passwordFile"),
    ({"live": {"url": "postgresql://h/d?password=p"}}, "spec.live.url", "passwordFile"),
    ({"live": {"url": "mysql://x"}}, "spec.live.url", "names no database"),
    (
        {"detector": {"heartbeat": {"timeout": "5m"}, "command": {"address": "a/{devise}"}}},
        "spec.detectors[0].command.address",
        "may contain {device}",
    ),
    ({"sinks": [SINK | {"source": "x"}]}, "spec.sinks[0].source", "no source is called 'x'"),
    ({"sinks": [SINK | {"options": {"user": "u"}}]}, "spec.sinks[0]", "set `url` too"),
    ({"sinks": [SINK, SINK]}, "spec.sinks", "'k' is used 2 times"),
    ({"detector": {"metric": "m"}}, "spec.detectors[0]", "has 0 of threshold"),
    ({"detector": {"threshold": ABOVE}}, "spec.detectors[0].metric", "is required"),
    (
        {"detector": {"metric": "m", "threshold": ABOVE, "rate": ABOVE}},
        "spec.detectors[0]",
        "has 2 of threshold",
    ),
    (
        {"detector": {"metric": "m", "threshold": {"above": 1, "below": 0}}},
        "spec.detectors[0].threshold",
        "one of above and below",
    ),
    (
        {"detector": {"metric": "m", "threshold": {"above": 1, "clear": 2}}},
        "spec.detectors[0].threshold.clear",
        "must not lie above",
    ),
    (
        {"detector": {"metric": "m", "threshold": {"below": 1, "clear": 0}}},
        "spec.detectors[0].threshold.clear",
        "must not lie below",
    ),
    (
        {"detector": {"source": "x", "heartbeat": {"timeout": "5m"}}},
        "spec.detectors[0].source",
        "no source is called 'x'",
    ),
    (
        {"detector": {"metric": "m", "ewma": {"alpha": 0}}},
        "spec.detectors[0].ewma.alpha",
        "greater than 0",
    ),
]


@pytest.mark.parametrize(("changes", "field", "says"), REFUSED, ids=[one[2] for one in REFUSED])
def test_invalid_pipeline_is_rejected_with_field_and_remedy(
    changes: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        pipeline(**changes)
    messages = {fault.field: fault.message for fault in refusal.value.faults}
    assert field in messages
    assert says in messages[field]
    assert "u:p" not in refusal.value.message


@pytest.mark.parametrize("wrong", [{"format": "jsn"}, {"metrics": [{"name": 5}]}], ids=str)
def test_invalid_list_item_reports_no_fault_of_the_list(
    wrong: dict[str, Any],
) -> None:
    with pytest.raises(Invalid) as refusal:
        pipeline(source=wrong)
    assert len(refusal.value.faults) == 1, refusal.value.message


def test_init_template_quotes_its_address_in_the_create_command() -> None:
    text = template.document("amqp://h", "it's/1")
    (line,) = (line for line in text.splitlines() if "enmasse create address" in line)
    assert shlex.split(line.removeprefix("#"))[:4] == ["enmasse", "create", "address", "it's/1"]
