"""Where tables lie, as each library names it; `test_s3` asks a server."""

import os
from pathlib import Path

import pyarrow.fs
import pytest

from enmasse.pipeline.connector import uris


def test_spark_has_a_name_of_its_own_for_buckets() -> None:
    assert uris.for_spark("s3://b/t/bronze") == "s3a://b/t/bronze"
    for other in ("s3a://b/t", "/tables/s3://", "file:///tables", "tables"):
        assert uris.for_spark(other) == other


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_bucket_is_found_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    files, root = uris.files(f"{scheme}://bucket/some/tables/")
    assert isinstance(files, pyarrow.fs.S3FileSystem)
    assert root == "bucket/some/tables"


def test_a_folder_is_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("t", str(tmp_path / "t"), f"file://{tmp_path}/t/"):
        files, root = uris.files(path)
        assert (root, files.type_name) == (os.fspath(tmp_path / "t"), "local")


def test_spark_is_told_what_the_environment_says_of_buckets() -> None:
    assert uris.settings({"AWS_ACCESS_KEY_ID": "k"}) == {}
    region = {"AWS_DEFAULT_REGION": "a"}
    assert uris.settings(region) == {"spark.hadoop.fs.s3a.endpoint.region": "a"}
    endpoint = {"AWS_REGION": "b", "AWS_ENDPOINT_URL": "https://s3.example.com"}
    assert uris.settings(region | endpoint) == {
        "spark.hadoop.fs.s3a.endpoint.region": "b",
        "spark.hadoop.fs.s3a.endpoint": "https://s3.example.com",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
