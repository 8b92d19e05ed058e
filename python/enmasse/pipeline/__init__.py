"""Streams as tables, tables as messages: the format `enmasse` of Spark, and the pipeline on it.

`options` is the table of what can be chosen, `ranges` decides which offsets a batch has and who
reads them, `reading` talks to servers, `source` is what Spark calls, `sink` the way back; `queues`
takes what lies in a queue into a `spool`, and reads that. Spark, pyarrow and deltalake come with
`pip install enmasse[spark]`.

The pipeline: `places` reads its document, `run` has a query for each source, `batches` is what
becomes of a batch. `silver`, `gold` and `detect` are pure; `tables`, `gold_table` and `live` keep
what they find, each batch once, where `uris` leads; `incidents` and `forward` send it on.
`recompute` says what gold has to be, `replay` makes silver and quarantine anew from bronze and
`recount` the figures of them; `reconcile` proves that bronze has all messages of a stream,
`settled` those of a queue, and `judge` says so. `figures` are for `status` and `/metrics`. `demo`,
`demo_data` and `demo_picture` show it all on real series.
"""
