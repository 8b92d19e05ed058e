"""A server of S3 for tests, and the jars by which Spark speaks to it."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs

import fetched
from brokers import free_port, started
from enmasse.pipeline.session import COMMITTER_JARS, S3_JARS
from spark_cluster import home

MOTO = "5.2.5"
SERVER = """
import json, sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

served = DomainDispatcherApplication(create_backend_app)
log = open(sys.argv[2], "a", buffering=1)

def counted(environ, start):
    copied = environ.get("HTTP_X_AMZ_COPY_SOURCE")
    log.write(json.dumps([environ["REQUEST_METHOD"], environ["PATH_INFO"], copied]) + "\\n")
    return served(environ, start)

run_simple("127.0.0.1", int(sys.argv[1]), counted, threaded=True)
"""
"""The program of the server, which writes down each request."""
BROUGHT = (
    "software.amazon.awssdk:bundle:2.35.4",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    f"{COMMITTER_JARS}:4.1.1",
)
"""The requirements of the jar in Hadoop 3.5.0 of PySpark 4.2 and 4.3, and the committer."""


def jars() -> list[Path]:
    """The jars by which Spark reads and writes buckets: 690 MB."""
    (own,) = (home() / "jars").glob("hadoop-client-api-*.jar")
    version = own.stem.rpartition("-")[2]
    return fetched.jars(f"hadoop-cloud-{version}", f"{S3_JARS}:{version}", *BROUGHT)


REQUESTS = "s3.requests"


def requests(folder: Path) -> list[tuple[str, str, str | None]]:
    """The requests to the server of a folder: method, path, and the source of a copy."""
    lines = (folder / REQUESTS).read_text().splitlines()
    return [tuple(json.loads(line)) for line in lines]


@contextmanager
def s3_server(folder: Path, bucket: str) -> Iterator[Mapping[str, str]]:
    """A server with an empty bucket; yield the environment in which it is found."""
    port = free_port()
    words = [sys.executable, "-c", SERVER, str(port), str(folder / REQUESTS)]
    with started(
        words,
        folder / "s3.log",
        port,
        PYTHONPATH=str(fetched.packages(f"moto-{MOTO}", f"moto[server]=={MOTO}")),
    ):
        made = pyarrow.fs.S3FileSystem(
            access_key="tests",
            secret_key="of tests",
            region="us-east-1",
            scheme="http",
            endpoint_override=f"127.0.0.1:{port}",
            allow_bucket_creation=True,
        )
        made.create_dir(bucket)
        yield {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "of tests",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
        }
