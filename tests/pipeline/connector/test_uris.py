"""URIs of tables in the form of each library; `test_s3` uses a server."""

import os
from pathlib import Path

import pyarrow.fs
import pytest

from enmasse.pipeline.connector import uris


def test_spark_uri_of_a_bucket_has_the_s3a_scheme() -> None:
    assert uris.for_spark("s3://b/t/bronze") == "s3a://b/t/bronze"
    for other in ("s3a://b/t", "/tables/s3://", "file:///tables", "tables"):
        assert uris.for_spark(other) == other


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_bucket_uri_opens_an_s3_filesystem_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    files, root = uris.files(f"{scheme}://bucket/some/tables/")
    assert isinstance(files, pyarrow.fs.S3FileSystem)
    assert root == "bucket/some/tables"


def test_path_or_file_uri_is_a_local_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("t", str(tmp_path / "t"), f"file://{tmp_path}/t/"):
        files, root = uris.files(path)
        assert (root, files.type_name) == (os.fspath(tmp_path / "t"), "local")


def test_spark_gets_the_s3_settings_of_the_environment() -> None:
    assert uris.settings({"AWS_ACCESS_KEY_ID": "k"}) == {}
    region = {"AWS_DEFAULT_REGION": "a"}
    assert uris.settings(region) == {"spark.hadoop.fs.s3a.endpoint.region": "a"}
    endpoint = {"AWS_REGION": "b", "AWS_ENDPOINT_URL": "https://s3.example.com"}
    assert uris.settings(region | endpoint) == {
        "spark.hadoop.fs.s3a.endpoint.region": "b",
        "spark.hadoop.fs.s3a.endpoint": "https://s3.example.com",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
