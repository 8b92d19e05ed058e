"""Streams as tables, tables as messages: Spark's format `enmasse`, and the pipeline on it.

`connector` is the format. In the pipeline, `ingest` writes messages to bronze, silver and
quarantine, `gold` aggregates windows of silver, `live` keeps the current state, `detect` translates
detectors, and `tables` appends batches to Delta tables. `run` has a query for each source, which
`failures` restarts; `session` starts Spark, `paths` resolves the document, `metrics` serves
`/metrics`, `infer` reads the fields of messages for `init`. Spark, pyarrow and deltalake come with
`pip install enmasse[spark]`.
"""
