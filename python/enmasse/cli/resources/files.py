"""Resource files on the command line."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from enmasse.base.errors import Code, Invalid
from enmasse.resources import Resource, load

SUFFIXES = (".yaml", ".yml", ".json")
"""File name extensions read from a folder."""


def load_files(
    files: Sequence[str], *, recursive: bool = False, namespace: str | None = None
) -> list[Resource]:
    """Return the resources of YAML or JSON files in order; `-` is standard input.

    Of a folder all files with one of SUFFIXES are read by name; `recursive` includes subfolders.
    `namespace` is the default namespace.

    Raises: Invalid for an unreadable file, an empty folder, or an invalid document.
    """
    return [
        resource
        for given in files
        for file in _expanded(given, recursive=recursive)
        for resource in load(_read(file), file, namespace)
    ]


def _expanded(given: str, *, recursive: bool) -> Iterator[str]:
    folder = Path(given)
    if given == "-" or not folder.is_dir():
        yield given
        return
    inside = sorted(folder.rglob("*") if recursive else folder.iterdir())
    files = [one for one in inside if one.suffix in SUFFIXES and one.is_file()]
    if not files:
        known = ", ".join(SUFFIXES)
        remedy = "" if recursive else "; -R includes subfolders"
        raise Invalid(
            Code.DOCUMENT_UNREADABLE,
            f"error reading {given}: recognized file extensions are {known}{remedy}",
        )
    yield from map(str, files)


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"cannot read {file}: {reason}") from None
