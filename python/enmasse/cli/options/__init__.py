"""Options of the commands, and their completion in shells."""
