"""Locations of tables, local folders or folders in a bucket of S3, for each library.

delta-rs accepts `s3://` and `s3a://`, pyarrow only the first and Spark only the second. Keys,
region and endpoint come from the environment (`AWS_ACCESS_KEY_ID` etc.): delta-rs and pyarrow read
it, Spark reads the keys and needs settings for the rest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PYARROW, SPARK = "s3://", "s3a://"


def is_uri(path: str) -> bool:
    """Return whether a location is a URI, not a local folder."""
    return "://" in path


def files(path: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a folder or URI, and the path in it."""
    # imported here to spare tasks that use no tables
    import pyarrow.fs

    if not is_uri(path):
        return pyarrow.fs.LocalFileSystem(), str(Path(path).resolve())
    found, root = pyarrow.fs.FileSystem.from_uri(_renamed(path, SPARK, PYARROW))
    return found, root.rstrip("/")


def for_spark(path: str) -> str:
    """Return the location in the notation of Spark."""
    return _renamed(path, PYARROW, SPARK)


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings of S3; it reads the keys from the environment itself."""
    found: dict[str, str] = {}
    if region := environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"):
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    if endpoint := environment.get("AWS_ENDPOINT_URL"):
        # as delta-rs and pyarrow do for servers that are not Amazon's
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
        found["spark.hadoop.fs.s3a.endpoint"] = endpoint
    return found


def _renamed(path: str, scheme: str, other: str) -> str:
    return other + path.removeprefix(scheme) if path.startswith(scheme) else path
