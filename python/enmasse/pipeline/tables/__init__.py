"""Tables that have each batch once: `delta` appends, reads and cleans, `joining` joins files."""
