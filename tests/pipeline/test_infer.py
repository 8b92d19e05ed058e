"""The metrics of a document from the first messages of a stream."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from enmasse.base.errors import Invalid, Missing
from enmasse.cli import app
from enmasse.messaging import Data, Message
from enmasse.pipeline import infer, template
from enmasse.resources import Pipeline, load
from published_streams import Log


def body(content: object) -> Message:
    return Message(body=Data([json.dumps(content).encode()]))


def test_init_takes_metrics_from_the_first_messages(log: Log, tmp_path: Path) -> None:
    first = {"device": "d", "ts": 1_767_225_600_000, "t: in": 1.5, "open": True, "state": "on"}
    log.publish([*(body(first | {"n": number}) for number in range(3)), body([1]), body(None)])
    file = tmp_path / "pipeline.yaml"
    words = ["pipeline", "init", "--infer", "-f", str(file), "--url", log.url]
    done = CliRunner().invoke(app, [*words, "--address", log.address])
    assert done.exit_code == 0, done.stderr
    source = yaml.safe_load(file.read_text())["spec"]["sources"][0]
    assert (source["metrics"], source["timeUnit"]) == (["t: in", "n"], "ms")
    text = file.read_text()
    assert '- "n"  # number in 3 of 3 messages' in text
    assert '# - "state"  # text in 3 of 3 messages' in text


def test_at_most_a_thousand_messages_are_read(log: Log) -> None:
    log.publish(body({"device": "d", "n": number}) for number in range(infer.MESSAGES_MAX + 50))
    assert infer.infer(log.url, log.address).messages == infer.MESSAGES_MAX


def test_a_stream_without_objects_of_json_is_refused(log: Log) -> None:
    with pytest.raises(Missing, match="has no messages to infer from: omit --infer"):
        infer.infer(log.url, log.address)
    log.publish([body(7)])
    with pytest.raises(Invalid, match="none of the first 1 messages .* is an object of JSON"):
        infer.infer(log.url, log.address)


@pytest.mark.parametrize(
    ("time", "unit"), [(1.7e9, "s"), (1.7e12, "ms"), (1.7e15, "us"), (1.7e18, "ns")]
)
def test_the_magnitude_of_times_gives_their_unit(time: float, unit: str) -> None:
    assert infer.fields_of([{"time": time}]).time_unit == unit


def test_fields_without_numbers_leave_a_valid_document() -> None:
    found = infer.fields_of([{"device": "d", "value": 1, "state": "on"}])
    text = template.document("amqp://h", "a", found.metrics(), found.time_unit)
    (pipeline,) = load(text, "pipeline.yaml")
    assert isinstance(pipeline, Pipeline) and pipeline.spec.sources[0].metrics == ()
