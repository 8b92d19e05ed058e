"""What all else stands on: errors, settings, clock, ids, logs, tasks. Imports nothing above."""
