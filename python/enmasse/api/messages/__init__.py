"""Messages of an address: operations on stored ones, streams, dead letters, and sending."""
