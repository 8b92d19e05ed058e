"""Files of resources named on the command line."""

import sys
from collections.abc import Sequence
from pathlib import Path

from enmasse.base.errors import Code, Invalid
from enmasse.resources import Resource, load


def load_files(files: Sequence[str]) -> list[Resource]:
    """Return the resources of YAML or JSON files in order; `-` is standard input.

    Raises: Invalid for a file that cannot be read, or a document that is not a valid resource.
    """
    return [resource for file in files for resource in load(_read(file), file)]


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"cannot read {file}: {reason}") from None
