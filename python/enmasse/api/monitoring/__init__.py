"""Statistics and `/metrics`."""
