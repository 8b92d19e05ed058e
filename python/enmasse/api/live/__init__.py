"""Live values of addresses and spaces: one shared sampling, lists sorted by them, and a stream."""
