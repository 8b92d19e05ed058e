"""Streams as tables: the format `enmasse` of Spark, as `spark.readStream.format("enmasse")`.

`options` is the table of what can be chosen, `ranges` decides which offsets a batch has and who
reads them, `reading` talks to servers, `source` is what Spark calls. Spark and pyarrow come with
`pip install enmasse[spark]`; only `source` and `reading` import them.
"""
