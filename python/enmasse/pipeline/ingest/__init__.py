"""Messages to bronze, silver and quarantine.

`batches` processes the batches of a source: `decoding` makes records of messages and `silver`
readings of records, by tasks of Spark; `counts` aggregates them, `forward` sends rows to sinks.
`store` has the tables. `backfill` rebuilds silver and quarantine from bronze, and `compatibility`
refuses tables of another document. `reconcile` proves that bronze is complete; `report`
presents that.
"""
