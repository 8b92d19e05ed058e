"""The package for the executors of a cluster: everything that they import, in one archive.

It contains the installed distributions of this environment, so executors have the same versions;
nothing is downloaded or built. The cluster has Java, Spark and the same minor version of Python.
"""

import hashlib
import importlib.util
import json
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from typing import Any

import enmasse
from enmasse.base.errors import Code, Invalid, Missing, Unavailable

FOLDER = "enmasse_package"
"""The folder of the package on executors, in their working directory."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The Python of executors: native modules need the same minor version."""
MANIFEST = "enmasse-package.json"
"""The first entry of the archive: its versions."""
_OURS = ("enmasse", "pyspark_enmasse")
_EXTRAS = {"spark", "postgresql"}
"""Extras that executors need, if installed."""
_EXCLUDED = {"pyspark", "sqlalchemy", "deltalake"}
"""The cluster has its own Spark; executors use live state by psycopg only, and the driver commits
their files."""
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^]]*)\])?")
_OF_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_COMPRESSION = 4
_MODE = 0o644


def write(file: Path, also: Sequence[str] = ()) -> dict[str, Any]:
    """Write the archive with the distributions of our extras and `also`, and their requirements.

    Returns its content. Raises Missing for a distribution that is not installed, Unavailable if the
    file cannot be written.
    """
    found = distributions(also)
    new = file.with_name(f"{file.name}.new")
    try:
        with tarfile.open(new, "w:gz", compresslevel=_COMPRESSION) as archive:
            text = json.dumps(_manifest()).encode()
            entry = tarfile.TarInfo(MANIFEST)
            entry.size, entry.mode = len(text), _MODE
            archive.addfile(entry, BytesIO(text))
            for name, path in sorted({**_own_files(), **_files(found)}.items()):
                archive.add(path, name, recursive=False)
        new.replace(file)
        size = file.stat().st_size
    except OSError as error:
        raise Unavailable(Code.DATA_UNUSABLE, f"cannot write {file}: {error.strerror}") from None
    finally:
        new.unlink(missing_ok=True)
    versions = {one.metadata["Name"]: one.version for one in found}
    return {"file": str(file), "bytes": size, "python": PYTHON, "distributions": versions}


def check(file: Path) -> None:
    """Raise Missing if there is no package, Invalid if it does not match this environment."""
    remedy = f"make it again: enmasse pipeline package {file}"
    try:
        with tarfile.open(file, "r:gz") as archive:
            entry = archive.next()
            read = archive.extractfile(entry) if entry and entry.name == MANIFEST else None
            manifest = json.loads(read.read()) if read else None
    except FileNotFoundError:
        raise Missing(
            Code.NOT_FOUND,
            f"there is no {file}, which executors need: enmasse pipeline package {file}"
            " (--package off if their image has everything)",
        ) from None
    except (OSError, tarfile.TarError, ValueError, EOFError) as error:
        raise Invalid(Code.REQUEST_INVALID, f"cannot read {file}: {error}; {remedy}") from None
    if manifest is None:
        raise Invalid(Code.REQUEST_INVALID, f"{file} is not a package of a pipeline; {remedy}")
    for name, own in _manifest().items():
        if (its := manifest.get(name)) != own:
            text = f"{file} has {name} {its}, here is {own}; {remedy}"
            raise Invalid(Code.REQUEST_INVALID, text)


def distributions(also: Sequence[str]) -> list[Distribution]:
    """Return the distributions that executors need, except our own."""
    wanted = [*_required(distribution("enmasse"), _EXTRAS), *((name, set()) for name in also)]
    requested = {_normal(name) for name in also}
    found: dict[str, Distribution] = {}
    while wanted:
        given, extras = wanted.pop()
        name = _normal(given)
        if name in found or name in (_EXCLUDED - requested) | {"enmasse"}:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in requested:
                raise Missing(
                    Code.NOT_FOUND, f"--also {given}: it is not installed: pip install {given}"
                ) from None
            # a requirement of other systems or versions of Python
            continue
        wanted += _required(found[name], extras)
    return [found[name] for name in sorted(found)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(of: Distribution, extras: set[str]) -> list[tuple[str, set[str]]]:
    """The requirements of a distribution, with these extras: names and their extras."""
    found: list[tuple[str, set[str]]] = []
    for text in of.requires or []:
        name = _REQUIREMENT.match(text)
        extra = _OF_EXTRA.search(text)
        # executors do not need the requirements of the platform itself
        is_wanted = extra[1] in extras if extra else of.metadata["Name"] != "enmasse"
        if name is not None and is_wanted:
            wanted = {one.strip() for one in (name[2] or "").split(",") if one.strip()}
            found.append((name[1], wanted))
    return found


def _own_files() -> dict[str, Path]:
    """Our own files by name in the archive."""
    found: dict[str, Path] = {}
    for package in _OURS:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent
        files = (path for path in folder.rglob("*") if path.is_file())
        found |= {str(path.relative_to(folder.parent)): path for path in files}
    return found


def _files(of: Sequence[Distribution]) -> dict[str, Path]:
    """The files of distributions by name in the archive, without tests."""
    found: dict[str, Path] = {}
    for one in of:
        for entry in one.files or []:
            if ".." in entry.parts or "tests" in entry.parts:
                continue
            path = Path(str(one.locate_file(entry)))
            for file in (path, *_compiled(path)):
                if file.is_file():
                    found[str(Path(*entry.parts[:-1]) / file.relative_to(path.parent))] = file
    return found


def _compiled(path: Path) -> Iterator[Path]:
    # a worker has seconds to start, too few to compile its imports
    if path.suffix == ".py":
        yield Path(importlib.util.cache_from_source(str(path)))


def _manifest() -> dict[str, str]:
    digest = hashlib.sha256()
    for name, path in sorted(_own_files().items()):
        if "__pycache__" not in name:
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return {
        "enmasse": f"{enmasse.__version__} ({digest.hexdigest()[:12]})",
        "python": PYTHON,
        "platform": sysconfig.get_platform(),
    }
