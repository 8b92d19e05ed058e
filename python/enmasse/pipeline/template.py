"""The document that `enmasse pipeline init` writes, and its schema for editors."""

import json
import shlex
from collections.abc import Iterable
from typing import Any

from enmasse.resources import Pipeline

SCHEMA_FILE = "pipeline.schema.json"

_DOCUMENT = """\
# yaml-language-server: $schema=pipeline.schema.json
#
# From the messages of a stream to tables, live state and alerts. Before the first run:
#   enmasse create address {argument} --type topic --retention-age 7d
# then: enmasse pipeline run
apiVersion: enmasse.io/v1beta1
kind: Pipeline
metadata:
  name: readings
spec:
  sources:
    - name: readings
      # the server, and the stream to read: a topic with retention
      url: {url}
      address: {address}
      # For a server with several address spaces, a login or its own CA (docs: all options of the
      # format `enmasse`):
      # options: {{space: NAME.NAMESPACE, user: pipeline, tlsCa: ca.crt}}
      # passwordFile: password.txt

      # Format of bodies: json, cbor, senml-json, senml-cbor or csv
      format: json
      # Fields of a body, or columns of the envelope such as subject; the first one with a value
      # counts: {{"device": "d1", "temperature": 21.5, "time": "2026-01-31T08:00:00Z"}}
      device: [device, deviceId, device_id]
      time: [time, ts, timestamp]
      # unit of numeric times since 1970: s, ms, us or ns
      timeUnit: {time_unit}
      # fields that are one reading each ..
      metrics:
{metrics}
      # .. or one reading per message, as in {{"device": "d1", "metric": "level", "value": 3}}
      metric: metric
      value: value
      unit: unit
      # how far clocks may be ahead, and how late readings may arrive
      ahead: 1m
      late: 7d

  # Next to this file: bronze, silver, quarantine and gold, and the checkpoints
  tables:
    path: tables
    format: delta

  # Statistics by device and metric over windows of these lengths
  windows: [1m, 1h]

  # Last values, devices, sessions, usage and anomalies; by default SQLite next to the tables
  live:
    # url: postgresql://user@host/database
    offlineAfter: 5m

  # Incidents are rows of `anomalies` in live state. With `alertAddress`, or
  # `command: {{address: "commands/{{device}}"}}`, each is also a message to a queue or a stream.
  # These limits find nothing on healthy devices that send at least once an hour: adjust them to
  # yours, above all `timeout`, the longest pause between two messages
  detectors:
    - name: too-hot
      metric: temperature
      threshold: {{above: 60, clear: 55}}
      cooldown: 10m
    - name: jump
      metric: temperature
      rate: {{above: 20, per: 1m}}
    - name: unusual
      metric: temperature
      ewma: {{deviations: 10, warmup: 200}}
    - name: silent
      heartbeat: {{timeout: 3h}}

  # Rows that are sent to an address, one message each
  # sinks:
  #   - {{name: hot, address: hot, where: "metric = 'temperature' and value > 50"}}

  # Python functions from DataFrame to DataFrame, in a file next to this one:
  #   from enmasse.pipeline.functions import step
  #   @step
  #   def only_cellar(frame):
  #       return frame.where("device like 'cellar-%'")
  # functions: functions.py

  # Interval of batches; heap of an embedded Spark
  trigger: 5s
  memory: 1GiB
"""


METRICS = ("- {name: temperature, unit: Cel}", '- {name: humidity, unit: "%RH"}', "- pressure")
"""Example metrics."""


def document(url: str, address: str, metrics: Iterable[str] = METRICS, time_unit: str = "s") -> str:
    """Return a commented pipeline that reads a stream. `metrics` are lines of YAML."""
    lines = [f"        {line}" for line in metrics]
    if not any(line.lstrip().startswith("-") for line in lines):
        lines.append("        []")
    return _DOCUMENT.format(
        argument=shlex.quote(address),
        url=json.dumps(url),
        address=json.dumps(address),
        metrics="\n".join(lines),
        time_unit=time_unit,
    )


def schema() -> str:
    """Return the JSON schema of the document, for completion and checks in editors."""
    found: dict[str, Any] = Pipeline.model_json_schema(by_alias=True, mode="validation")
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
