"""The package for executors: its contents and its errors. `test_cluster` runs it."""

import json
import os
import socket
import subprocess
import sys
import tarfile
from importlib.metadata import requires
from io import BytesIO
from pathlib import Path

import pytest

from enmasse.base.errors import Invalid, Missing, Unavailable
from enmasse.pipeline import package
from enmasse.pipeline.session import session


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package without the large distributions, which is written quickly."""
    file = tmp_path_factory.mktemp("package") / "package.tar.gz"
    with pytest.MonkeyPatch.context() as small:
        small.setattr(package, "distributions", lambda also: [])
        found = package.write(file)
    assert (found["file"], found["bytes"]) == (str(file), file.stat().st_size)
    return file


def test_package_has_the_dependencies_of_executors_without_spark() -> None:
    names = {one.metadata["Name"].lower() for one in package.distributions(())}
    # pandas needs python-dateutil
    assert {"psycopg", "psycopg-binary"} <= names
    assert {"pyarrow", "numpy", "pandas", "python-dateutil"} <= names
    assert not names & {"pyspark", "py4j", "enmasse", "uvicorn", "pytest", "sqlalchemy"}
    # large, and used by the driver only
    assert not names & {"deltalake", "arro3-core"}
    asked = {one.metadata["Name"].lower() for one in package.distributions(["deltalake"])}
    assert {"deltalake", "arro3-core"} <= asked
    assert any("uvicorn" in one for one in requires("enmasse") or [])
    more = {one.metadata["Name"].lower() for one in package.distributions(["HTTPX2"])}
    assert more > names and "httpx2" in more
    with pytest.raises(Missing, match="--also no-such: it is not installed: pip install no-such"):
        package.distributions(["no-such"])


def test_native_core_of_the_package_runs_in_a_bare_python(written: Path, tmp_path: Path) -> None:
    package.check(written)
    with tarfile.open(written) as archive:
        assert archive.getnames()[0] == package.MANIFEST
        archive.extractall(tmp_path, filter="data")
    code = "import enmasse._native, sys; print(enmasse._native.__file__)"
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)


def test_foreign_or_outdated_package_is_refused(written: Path, tmp_path: Path) -> None:
    file = tmp_path / "package.tar.gz"
    with pytest.raises(Missing, match=f"there is no {file}, which executors need: enmasse pipe"):
        package.check(file)
    file.write_bytes(b"no archive")
    with pytest.raises(Invalid, match="cannot read .*; make it again: enmasse pipeline package"):
        package.check(file)
    with tarfile.open(file, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("other"), BytesIO())
    with pytest.raises(Invalid, match="is not a package of a pipeline"):
        package.check(file)
    with tarfile.open(written) as archive:
        read = archive.extractfile(package.MANIFEST)
        assert read is not None
        sign = json.loads(read.read())
    for name in sign:
        text = json.dumps(sign | {name: "another"}).encode()
        entry = tarfile.TarInfo(package.MANIFEST)
        entry.size = len(text)
        with tarfile.open(file, "w:gz") as archive:
            archive.addfile(entry, BytesIO(text))
        with pytest.raises(Invalid, match=f"has {name} another, here is .*; make it again"):
            package.check(file)


def test_invalid_or_unreachable_master_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = f"spark://127.0.0.1:{closed.getsockname()[1]}"
    refused = {
        "spark://somewhere": (Invalid, "--master spark://somewhere: write spark://HOST:PORT"),
        "sc://": (Invalid, "--master sc://: write sc://HOST:PORT"),
        away.replace("spark", "sc"): (Unavailable, "--master sc://127.*: no connection: 127"),
        away: (Unavailable, f"--master {away}: no connection: 127.*: Connection refused"),
    }
    for master, (kind, text) in refused.items():
        with pytest.raises(kind, match=text), session("p", master, 1 << 30, tmp_path):
            pass
