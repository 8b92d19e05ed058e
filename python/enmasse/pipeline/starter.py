"""The document that `enmasse pipeline init` writes, and its schema for editors."""

import json
import shlex
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
      # Where the server has several address spaces, wants a login or has a CA of its own (docs: all
      # options of the format `enmasse`):
      # options: {{space: NAME.NAMESPACE, user: pipeline, tlsCa: ca.crt}}
      # passwordFile: password.txt

      # How bodies are read: json, cbor, senml-json, senml-cbor or csv
      format: json
      # Fields of a body, or columns of the envelope such as subject; of several the first that is
      # there: {{"device": "d1", "temperature": 21.5, "time": "2026-01-31T08:00:00Z"}}
      device: [device, deviceId, device_id]
      time: [time, ts, timestamp]
      # what times that are numbers count since 1970: s, ms, us or ns
      timeUnit: s
      # fields that are a reading each ..
      metrics:
        - {{name: temperature, unit: Cel}}
        - {{name: humidity, unit: "%RH"}}
        - pressure
      # .. or one reading a message, as in {{"device": "d1", "metric": "level", "value": 3}}
      metric: metric
      value: value
      unit: unit
      # a clock may be so far ahead; a reading may come so late
      ahead: 1m
      late: 7d

  # Beside this file: bronze, silver, quarantine and gold, and the checkpoints
  tables:
    path: tables
    format: delta

  # Statistics by device and metric over windows of these lengths
  windows: [1m, 1h]

  # The last values, devices, sessions, usage and anomalies; by default SQLite beside the tables
  live:
    # url: postgresql://user@host/database
    offlineAfter: 5m

  # What is looked for; incidents are rows of `anomalies` in live state. With `alertAddress`, or
  # `command: {{address: "commands/{{device}}"}}`, each is a message to a queue or a stream, too.
  # These limits are quiet on healthy devices that send once an hour or more often: adjust them to
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

  # What goes on to an address, a message for each row
  # sinks:
  #   - {{name: hot, address: hot, where: "metric = 'temperature' and value > 50"}}

  # Python functions from DataFrame to DataFrame, in a file beside this one:
  #   from enmasse.pipeline.functions import step
  #   @step
  #   def only_cellar(frame):
  #       return frame.where("device like 'cellar-%'")
  # functions: functions.py

  # A batch begins so often; the heap of Spark when it runs in this process
  trigger: 5s
  memory: 1GiB
"""


def document(url: str, address: str) -> str:
    """Return a commented pipeline that reads a stream."""
    return _DOCUMENT.format(
        argument=shlex.quote(address), url=json.dumps(url), address=json.dumps(address)
    )


def schema() -> str:
    """Return the JSON schema of the document, by which editors complete and check it."""
    found: dict[str, Any] = Pipeline.model_json_schema(by_alias=True, mode="validation")
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
