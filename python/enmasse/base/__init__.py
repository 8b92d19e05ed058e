"""The lowest layer: errors, settings, clock, ids, logs, tasks. It imports no other package."""
