"""One module a command: its options, its help, and what it calls."""
