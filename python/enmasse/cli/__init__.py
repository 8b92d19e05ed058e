"""The command line: the composition root, and the only package that imports all others.

`app` is the tree of commands, `main` runs it. A command's module has its options and help, and
imports its dependencies when it runs, so that `enmasse --help` is fast.
"""

from enmasse.cli.app import app, main

__all__ = ["app", "main"]
