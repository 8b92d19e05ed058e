"""The format `enmasse` of Spark: `options` is the table of what can be chosen, `ranges` decides
which offsets a batch has and who reads them, `reading` talks to servers, `source` is what Spark
calls, `sink` the way back; `queues` takes what lies in a queue into a `spool`, and reads that.
`uris` says where files lie.
"""
