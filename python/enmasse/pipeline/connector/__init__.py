"""The format `enmasse` of Spark: `options` defines its options, `ranges` the offsets of batches and
tasks, `reading` talks to servers, `source` and `sink` are the classes that Spark calls. `queues`
reads queues through a `spool`. `uris` translates locations of files.
"""
