"""Streams as tables, tables as messages: the format `enmasse` of Spark, and the pipeline on it.

`connector` is the format. Of the pipeline, `ingest` puts messages into bronze, silver and
quarantine, `gold` has windows of silver, `live` what is so now, `detect` judges readings, and
`tables` keeps rows of a batch once. `places` reads the document, `session` starts Spark, and `run`
has a query for each source, which `endings` begins again; `changes` compares the document with that
of the tables. `figures` are for `status` and `/metrics`. `demo`, `demo_data` and `demo_picture`
show it all on real series. Spark, pyarrow and deltalake come with `pip install enmasse[spark]`.
"""
