"""The command line: the composition root, and the only package that knows all others."""
