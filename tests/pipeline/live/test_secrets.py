"""The password of live state reaches executors, but no log, plan or page."""

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

from pipeline_runs import document, message
from platform_process import ENMASSE
from postgres_server import PASSWORD, PostgresServer
from published_streams import Log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_logs_plans_and_ui_do_not_contain_the_password(
    log: Log, mortal_database: PostgresServer, tmp_path: Path
) -> None:
    """The event log has the settings, plans and descriptions that the UI shows."""
    named = mortal_database.live_state(tmp_path / "p")
    # a file beside the document: the password travels with the tasks
    live = named | {"passwordFile": "live-password"}
    detectors = [{"name": "hot", "metric": "temperature", "threshold": {"above": 5}}]
    file = document(tmp_path / "p", log, live=live, detectors=detectors)
    sent = log.publish(message(number) for number in range(60))
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
    }
    chosen = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    done = subprocess.run(
        [ENMASSE, "pipeline", "run", "--once", "--output", "json", "-f", file],
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": f"{chosen} pyspark-shell"},
    )
    status = [ENMASSE, "pipeline", "status", "--output", "json", "-f", file]
    status_text = subprocess.run(
        status, capture_output=True, text=True, timeout=100, check=True
    ).stdout
    found = json.loads(status_text)
    assert (found["sources"][0]["messages"], found["devices"]) == (sent, 3)
    shown = "".join(one.read_text() for one in events.rglob("*") if one.is_file())
    assert "live_state" in shown
    spark_log = tmp_path / "p" / "tables" / "spark.log"
    for text in (shown, spark_log.read_text(), done.stdout, done.stderr, status_text):
        for secret in (PASSWORD, unquote(PASSWORD), unquote(PASSWORD).rpartition("ss:")[2]):
            assert secret not in text
