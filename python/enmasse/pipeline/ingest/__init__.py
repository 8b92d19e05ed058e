"""From messages to bronze, silver and quarantine: `batches` is what becomes of a batch of a source,
`decoding` makes records of messages, `functions` are the steps of the document, `silver` makes
readings of records, `forward` sends rows on, and `store` has the tables.

`replay` makes silver and quarantine anew from bronze and `recount` the figures of them; `reconcile`
proves that bronze has all messages of a stream, `settled` those of a queue, and `judge` says so.
"""
