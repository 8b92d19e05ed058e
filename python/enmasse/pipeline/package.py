"""The package that travels to the executors of a cluster: all that they import, in one archive.

It is made of what is installed beside this process, so executors have the same versions, and
nothing is fetched or built. The cluster brings Java, Spark and the same minor version of Python.
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
"""Where executors have it, below the folder they work in."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""What runs it: compiled modules are of one minor version."""
SIGN = "enmasse-package.json"
"""The first entry of the archive: what it was made of."""
_OURS = ("enmasse", "pyspark_enmasse")
_EXTRAS = {"spark", "postgresql"}
"""What executors need, as far as it is installed."""
_LEFT = {"pyspark", "sqlalchemy"}
"""The cluster has its own Spark; executors reach live state by psycopg alone."""
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^]]*)\])?")
_OF_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_COMPRESSION = 4
_MODE = 0o644


def write(file: Path, also: Sequence[str] = ()) -> dict[str, Any]:
    """Write the archive: the distributions of our extras and `also`, and what those need.

    Returns what is in it. Raises Missing for one that is not installed, Unavailable if the file
    cannot be written.
    """
    found = distributions(also)
    new = file.with_name(f"{file.name}.new")
    try:
        with tarfile.open(new, "w:gz", compresslevel=_COMPRESSION) as archive:
            text = json.dumps(_sign()).encode()
            entry = tarfile.TarInfo(SIGN)
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
    """Raise Missing if there is no package, Invalid if it was not made by what runs here."""
    mend = f"make it anew: enmasse pipeline package {file}"
    try:
        with tarfile.open(file, "r:gz") as archive:
            entry = archive.next()
            read = archive.extractfile(entry) if entry and entry.name == SIGN else None
            sign = json.loads(read.read()) if read else None
    except FileNotFoundError:
        raise Missing(
            Code.NOT_FOUND,
            f"there is no {file}, which executors need: enmasse pipeline package {file}"
            " (--package off where they have all of it themselves)",
        ) from None
    except (OSError, tarfile.TarError, ValueError, EOFError) as error:
        raise Invalid(Code.REQUEST_INVALID, f"cannot read {file}: {error}; {mend}") from None
    if sign is None:
        raise Invalid(Code.REQUEST_INVALID, f"{file} is no package of a pipeline; {mend}")
    for name, own in _sign().items():
        if sign.get(name) != own:
            raise Invalid(
                Code.REQUEST_INVALID,
                f"{file} has {name} {sign.get(name)}, here is {own}; {mend}",
            )


def distributions(also: Sequence[str]) -> list[Distribution]:
    """Return what executors need, beside our own package, by the names of distributions."""
    wanted = [*_required(distribution("enmasse"), _EXTRAS), *((name, set()) for name in also)]
    asked = {_normal(name) for name in also}
    found: dict[str, Distribution] = {}
    while wanted:
        given, extras = wanted.pop()
        name = _normal(given)
        if name in found or name in _LEFT | {"enmasse"}:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in asked:
                raise Missing(
                    Code.NOT_FOUND, f"--also {given}: it is not installed: pip install {given}"
                ) from None
            # needed on another system or by another Python only
            continue
        wanted += _required(found[name], extras)
    return [found[name] for name in sorted(found)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(of: Distribution, extras: set[str]) -> list[tuple[str, set[str]]]:
    """What a distribution needs by itself and for these extras: names and extras of those."""
    found: list[tuple[str, set[str]]] = []
    for text in of.requires or []:
        name = _REQUIREMENT.match(text)
        extra = _OF_EXTRA.search(text)
        # what runs the platform itself has no work on an executor
        is_wanted = extra[1] in extras if extra else of.metadata["Name"] != "enmasse"
        if name is not None and is_wanted:
            wanted = {one.strip() for one in (name[2] or "").split(",") if one.strip()}
            found.append((name[1], wanted))
    return found


def _own_files() -> dict[str, Path]:
    """Our own files by their names in the archive."""
    found: dict[str, Path] = {}
    for package in _OURS:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent
        files = (path for path in folder.rglob("*") if path.is_file())
        found |= {str(path.relative_to(folder.parent)): path for path in files}
    return found


def _files(of: Sequence[Distribution]) -> dict[str, Path]:
    """The files of distributions by their names in the archive, without their tests."""
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
    # Spark gives a worker seconds to start: it is not to compile what it imports
    if path.suffix == ".py":
        yield Path(importlib.util.cache_from_source(str(path)))


def _sign() -> dict[str, str]:
    digest = hashlib.sha256()
    for name, path in sorted(_own_files().items()):
        if "__pycache__" not in name:
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return {
        "enmasse": f"{enmasse.__version__} ({digest.hexdigest()[:12]})",
        "python": PYTHON,
        "platform": sysconfig.get_platform(),
    }
