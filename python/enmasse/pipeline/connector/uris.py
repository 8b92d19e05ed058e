"""Where a table lies: a folder, or a folder in a bucket of S3, as each library takes it.

delta-rs takes `s3://` and `s3a://`, pyarrow only the first and Spark only the second. Keys, region
and endpoint are those of the environment (`AWS_ACCESS_KEY_ID` and the like): delta-rs and pyarrow
read it by themselves, Spark knows of keys and is told the rest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

OF_PYARROW, OF_SPARK = "s3://", "s3a://"


def is_uri(path: str) -> bool:
    """Return whether a place is named by a URI, not by a folder of this machine."""
    return "://" in path


def files(path: str) -> tuple[Any, str]:
    """Return the file system of a folder or URI, as pyarrow has it, and the folder there."""
    # a task that writes no table is spared it
    import pyarrow.fs

    if not is_uri(path):
        return pyarrow.fs.LocalFileSystem(), str(Path(path).resolve())
    found, root = pyarrow.fs.FileSystem.from_uri(_renamed(path, OF_SPARK, OF_PYARROW))
    return found, root.rstrip("/")


def for_spark(path: str) -> str:
    """Return the same place as Spark names it."""
    return _renamed(path, OF_PYARROW, OF_SPARK)


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what Spark is told of S3; the keys it finds in the environment by itself."""
    found: dict[str, str] = {}
    if region := environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"):
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    if endpoint := environment.get("AWS_ENDPOINT_URL"):
        # the others ask a server that is not Amazon's in this way, too
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
        found["spark.hadoop.fs.s3a.endpoint"] = endpoint
    return found


def _renamed(path: str, scheme: str, other: str) -> str:
    return other + path.removeprefix(scheme) if path.startswith(scheme) else path
