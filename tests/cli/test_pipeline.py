"""`enmasse pipeline` on the command line."""

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Conflict
from enmasse.cli import app
from enmasse.cli.commands import pipeline as command
from enmasse.cli.options.shared import Output
from enmasse.pipeline.failures import Failure
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import read
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.files import Table
from silver_readings import Batch, measured, put_in, us


def enmasse(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["pipeline", *words])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENMASSE_DATA", str(tmp_path / "data"))
    return tmp_path


def test_init_writes_a_document_and_its_schema(folder: Path) -> None:
    code, out, _ = enmasse("init", "--address", "plant/1", "--output", "json")
    assert (code, json.loads(out)["file"]) == (0, "pipeline.yaml")
    source = yaml.safe_load((folder / "pipeline.yaml").read_text())["spec"]["sources"][0]
    assert (source["url"], source["address"]) == ("amqp://127.0.0.1:5672", "plant/1")
    assert "properties" in json.loads((folder / "pipeline.schema.json").read_text())


def test_init_uses_the_url_of_the_running_platform(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def url() -> str:
        source = yaml.safe_load((folder / "pipeline.yaml").read_text())["spec"]["sources"][0]
        (folder / "pipeline.yaml").unlink()
        return str(source["url"])

    data = DataDir(folder / "data")
    data.path.mkdir()
    endpoints = {"amqp": {"host": "0.0.0.0", "port": 35672}}
    data.endpoint.write_text(json.dumps({"pid": 1, "endpoints": endpoints}))
    assert enmasse("init", "--data", str(data.path))[0] == 0
    assert url() == "amqp://127.0.0.1:35672"
    monkeypatch.setenv("ENMASSE_DATA", str(data.path))
    assert enmasse("init")[0] == 0
    assert url() == "amqp://127.0.0.1:35672"
    assert enmasse("init", "--url", "amqp://h:1")[0] == 0
    assert url() == "amqp://h:1"


def test_init_does_not_overwrite_a_file(folder: Path) -> None:
    (folder / "mine.yaml").write_text("mine")
    code, _, err = enmasse("init", "-f", "mine.yaml")
    assert code == 5
    assert "mine.yaml exists" in err
    assert (folder / "mine.yaml").read_text() == "mine"


def test_init_refuses_a_url_without_a_server(folder: Path) -> None:
    code, _, err = enmasse("init", "--url", "localhost")
    assert code == 1
    assert "names no server" in err
    assert not (folder / "pipeline.yaml").exists()


def test_status_shows_written_rows_and_failures(folder: Path) -> None:
    enmasse("init")
    pipeline, paths = read(folder / "pipeline.yaml")
    paths.state.mkdir()
    failure = Failure(Conflict("E4000", "it was made anew"), datetime(2026, 1, 31, tzinfo=UTC), 2)
    with closing(Live(paths.live_url, pipeline.spec, pipeline.metadata.name)) as db:
        db.claim("readings", "q")
        rows = measured({})
        put_in(db, Batch("readings", "q", 0, rows, [], us(0), {"bronze": 1200, "sinks/hot": 7}))
        db.record_failures("source", {"readings": failure})
        db.record_failures("address", {"alerts": failure})
    code, out, _ = enmasse("status")
    assert code == 1 and "devices 1, online 0, unknown 1;" in out
    assert "readings: rows out: bronze 1,200, live 4, sinks/hot 7" in out
    said = "since 2026-01-31T00:00:00+00:00, tried again 2 times: it was made anew"
    assert f"readings: fails {said}" in out
    assert f"alerts: accepts no alerts {said}" in out
    found = json.loads(enmasse("status", "--output", "json")[1])
    assert found["sources"][0]["written"]["bronze"] == 1200
    assert found["refusingAddresses"]["alerts"]["tries"] == 2
    # neither a run nor the server says how far the source is
    assert found["sources"][0]["lagMessages"] is None
    assert "troubles" not in found and "written" not in found


def test_status_shows_the_lag_of_gold_and_exits_1_while_it_fails(folder: Path) -> None:
    enmasse("init")
    pipeline, paths = read(folder / "pipeline.yaml")
    paths.state.mkdir()
    silver = Table(paths.table("silver"), ("date",))
    delta.append_arrow(measured({}), silver, "p/readings/q", 0)
    failure = Failure(Conflict("E4000", "it lacks sketch"), datetime(2026, 1, 31, tzinfo=UTC), 2)
    with closing(Live(paths.live_url, pipeline.spec, pipeline.metadata.name)) as db:
        code, out, _ = enmasse("status")
        # The table has two commits: its creation and the batch.
        assert code == 0 and "gold: 2 versions of silver behind, " in out
        db.record_failures("gold", {"gold": failure})
        code, out, _ = enmasse("status")
        said = "since 2026-01-31T00:00:00+00:00, tried again 2 times: it lacks sketch"
        assert code == 1 and f"gold: fails {said}" in out
        code, out, _ = enmasse("status", "--output", "json")
        found = json.loads(out)["gold"]
        assert code == 1 and found["trouble"]["error"] == "it lacks sketch"
        assert found["versionsBehind"] == 2 and found["lagSeconds"] >= 0
        db.record_failures("gold", {})
        assert enmasse("status")[0] == 0


@pytest.mark.parametrize("command", ["run", "reconcile"])
@pytest.mark.parametrize(
    ("where", "options", "said"),
    [
        ("sources", {"tlsCaa": "x"}, "spec.sources[0].options: option tlsCaa is not known: did"),
        ("sources", {"idWindow": "many"}, "spec.sources[0].options: option idWindow is 'many'"),
        ("sources", {}, "spec.sources[0]: source readings: offset is a column of the envelope"),
        ("sinks", {"selector": "x"}, "spec.sinks[0].options: option selector is not known: did"),
    ],
)
def test_invalid_options_are_refused_before_spark_starts(
    folder: Path, command: str, where: str, options: dict[str, str], said: str
) -> None:
    enmasse("init")
    file = folder / "pipeline.yaml"
    document = yaml.safe_load(file.read_text())
    sink = {"name": "out", "address": "x", "url": "amqp://h"}
    spec = document["spec"] | {"sinks": [sink]}
    spec[where][0]["options"] = options
    if not options:
        spec[where][0]["metrics"] = ["offset"]
    file.write_text(yaml.safe_dump(document | {"spec": spec}))
    code, _, err = enmasse(command)
    assert code == 1 and said in err
    # No table was created, and Spark was not started.
    assert not (folder / "tables").exists() and "starting Spark" not in err


def test_run_reports_its_events_in_the_requested_format(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events = [{"event": "starting"}, {"event": "batch", "source": "s: 1"}]
    for form in (Output.JSON, Output.YAML):
        tell = command._reporter(form)
        for event in events:
            tell(event, "text")
        out = capsys.readouterr().out
        lines = [json.loads(line) for line in out.splitlines()] if form is Output.JSON else None
        assert (lines or list(yaml.safe_load_all(out))) == events
    command._reporter(Output.TABLE)(events[0], "text")
    assert capsys.readouterr() == ("", "text\n")
