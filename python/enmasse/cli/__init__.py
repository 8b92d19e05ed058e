"""The command line: the composition root, and the only package that knows all others.

`app` is the tree of commands, `main` runs it. A command's module holds its options and its help and
imports what it works with when it runs, so that `enmasse --help` is quick.
"""

from enmasse.cli.app import app, main

__all__ = ["app", "main"]
