"""Past values of addresses and spaces: recorded in rings on disk, read by `query_range`."""
