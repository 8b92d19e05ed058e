"""The Spark that a pipeline runs on: embedded in this process, a cluster's, or behind Connect."""

import os
import re
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pyarrow
import pyspark
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from enmasse.base.errors import Code, Invalid, Unavailable
from enmasse.pipeline import package as packages
from enmasse.pipeline.connector import uris

CONNECT_TIMEOUT_S = 10.0
QUERY_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # tasks write the folders of a table side by side: no sort of their rows by folder
    "spark.sql.maxConcurrentOutputFileWriters": "16",
}
"""What holds for our queries wherever they run."""
SETTINGS = QUERY_SETTINGS | {
    # gold's tasks wait for their turn beside those of sources, in a pool of their own
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.python.worker.faulthandler.enabled": "true",
}
"""What a Spark of ours is told, beside its memory and where it runs."""
LOG = "spark.log"
LOG_SETTING = "LOG4J_CONFIGURATION_FILE"
_LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""
CONNECT = "sc://"
DESCRIPTION = "spark.job.description"
_NO_CLASS = re.compile("ClassNotFoundException|NoClassDefFoundError")
_STANDALONE = re.compile(r"spark://([^,]+:\d+)(,[^,]+:\d+)*")
_REMOTE = re.compile(r"sc://([^/:;]+(:\d+)?)(/.*)?")
_REMOTE_PORT = 15_002
S3_JARS = "org.apache.hadoop:hadoop-aws"
"""What Spark lacks for buckets, in the version of its Hadoop; it brings the AWS SDK with it."""
_PYSPARK = Path(pyspark.__file__).parent


def is_local(master: str) -> bool:
    """Return whether Spark runs in this process."""
    return master.startswith("local")


@contextmanager
def session(
    name: str,
    master: str,
    memory_bytes: int,
    folder: Path,
    package: Path | None = None,
    *,
    shows_progress: bool = False,
) -> Iterator[SparkSession]:
    """Start Spark and stop it at the end; what it has to write lies in a folder.

    `package` travels to the executors of a cluster, which have nothing of it themselves. With
    `shows_progress` Spark draws a bar of its tasks on stderr, where it is of this process. Raises
    Missing or Invalid for a package that does not fit, Unavailable if Spark does not start, or its
    JVM dies.
    """
    if master.startswith(CONNECT):
        builder, settings = _of_server(master), QUERY_SETTINGS
    else:
        builder = SparkSession.builder.master(master).appName(name)
        settings = (
            SETTINGS
            | uris.settings(os.environ)
            | _placed(master, package)
            | {
                "spark.driver.memory": f"{memory_bytes >> 10}k",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.ui.showConsoleProgress": str(shows_progress).lower(),
            }
        )
    for key, value in settings.items():
        builder = builder.config(key, value)
    before = _children()
    try:
        with logged(folder), light_home(folder) if is_local(master) else nullcontext():
            spark = builder.getOrCreate()
    except KeyboardInterrupt:
        # PySpark takes away the folder that its JVM writes to, which ends neither way then
        for child in _children() - before:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise
    except Exception as error:
        raise _not_started(master, error) from error
    try:
        if not master.startswith(CONNECT):
            spark.sparkContext.setLogLevel("ERROR")
        yield spark
    except (Py4JNetworkError, ConnectionError) as error:
        raise Unavailable(
            Code.NOT_AVAILABLE,
            "Spark's JVM is gone: it was killed, or had no memory left; start the run again, with "
            f"more spec.memory if it comes again{see_log(log_of(folder))}",
        ) from error
    finally:
        with suppress(Py4JError, ConnectionError):
            spark.stop()


@contextmanager
def described(spark: SparkSession, what: str) -> Iterator[None]:
    """Give the jobs that are started meanwhile a name in the UI of Spark."""
    if is_remote():
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setJobDescription(what)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, cast(str, before))


def check_reached(spark: SparkSession, path: str) -> None:
    """Raise Unavailable if tables cannot be reached where they are to lie, with the cause.

    What a server of Spark Connect has is not looked at.
    """
    if not uris.is_uri(path):
        return
    try:
        found, root = uris.files(path)
        found.get_file_info(root)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise Unavailable(Code.NOT_AVAILABLE, f"tables at {path}: {error}") from error
    if is_remote():
        return
    context: Any = spark.sparkContext
    hadoop = context._jvm.org.apache.hadoop
    place = hadoop.fs.Path(uris.for_spark(path))
    try:
        place.getFileSystem(context._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        if _NO_CLASS.search(str(error.java_exception)) is None:
            raise Unavailable(
                Code.NOT_AVAILABLE, f"tables at {path}: {error.java_exception}"
            ) from error
        jars = f"{S3_JARS}:{hadoop.util.VersionInfo.getVersion()}"
        raise Unavailable(
            Code.NOT_AVAILABLE,
            f"tables at {path}: this Spark has no jars for buckets; give them to it:"
            f" PYSPARK_SUBMIT_ARGS='--packages {jars} pyspark-shell'",
        ) from error


def log_of(folder: Path) -> Path | None:
    """Return where the log of a Spark goes that has its files in a folder.

    None where whoever started this process has settings of Spark of his own: they say it.
    """
    names = ("SPARK_HOME", "SPARK_CONF_DIR", LOG_SETTING)
    return None if any(name in os.environ for name in names) else folder / LOG


def see_log(file: Path | None) -> str:
    """Return the end of a sentence about what Spark did, which says where more is."""
    return f"; see {file}" if file else ""


@contextmanager
def logged(folder: Path) -> Iterator[None]:
    """Let a Spark that is started meanwhile write its log, and what Java says of errors, to a file
    of 10 MB and one of before, not to stderr."""
    file = log_of(folder)
    if file is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    setting = file.with_suffix(".properties")
    setting.write_text(_LOGGING.format(file=file), encoding="utf-8")
    os.environ[LOG_SETTING] = str(setting)
    try:
        yield
    finally:
        del os.environ[LOG_SETTING]


@contextmanager
def light_home(folder: Path) -> Iterator[None]:
    """Let a Spark that is started meanwhile start Python from the package that is installed.

    Spark puts its own copy, a zip, first on the path of each Python process it starts, which then
    compiles what it imports anew: nearly a second of processor time for each of the five or so of
    a start. A home of links has all but that copy. Whoever names a home has it his way.
    """
    names = [name for name in ("bin", "conf", "jars") if (_PYSPARK / name).is_dir()]
    if "SPARK_HOME" in os.environ or "jars" not in names:
        yield
        return
    home = folder / "spark-home"
    home.mkdir(parents=True, exist_ok=True)
    for name in names:
        link, new = home / name, home / f"{name}.{os.getpid()}"
        # another process may do the same, and another version may have been there
        new.symlink_to(_PYSPARK / name, target_is_directory=True)
        new.replace(link)
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        # another process of this one may have another Spark
        del os.environ["SPARK_HOME"]


def _placed(master: str, package: Path | None) -> dict[str, str]:
    """Where the driver is found, and what its executors are given."""
    # workers are started by this name, which need not be the Python of this process
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        return _reached_at("127.0.0.1")
    # one name that is right here and there; here the first of the path is that of this process
    os.environ.setdefault("PYSPARK_PYTHON", packages.PYTHON)
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    settings: dict[str, str] = {}
    if master.startswith("spark:"):
        if _STANDALONE.fullmatch(master) is None:
            raise Invalid(Code.REQUEST_INVALID, f"--master {master}: write spark://HOST:PORT")
        own = _own_address(master, master.removeprefix("spark://").split(","))
        settings |= _reached_at(os.environ.get("SPARK_LOCAL_IP") or own)
    if package is not None:
        packages.check(package)
        settings["spark.archives"] = f"{package.resolve()}#{packages.FOLDER}"
        settings["spark.executorEnv.PYTHONPATH"] = packages.FOLDER
    return settings


def _reached_at(host: str) -> dict[str, str]:
    return {"spark.driver.host": host, "spark.driver.bindAddress": host}


def _of_server(master: str) -> SparkSession.Builder:
    found = _REMOTE.fullmatch(master)
    if found is None:
        raise Invalid(Code.REQUEST_INVALID, f"--master {master}: write sc://HOST:PORT")
    if find_spec("grpc") is None:
        raise Unavailable(
            Code.NOT_AVAILABLE, "Spark Connect is not installed: pip install 'enmasse[connect]'"
        )
    # its client would try for minutes
    _own_address(master, [found[1] if found[2] else f"{found[1]}:{_REMOTE_PORT}"])
    return SparkSession.builder.remote(master)


def _own_address(master: str, places: Sequence[str]) -> str:
    """The address of this machine by which it reaches a master, and so is reached from there."""
    causes = []
    for place in places:
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            causes.append(f"{place}: {error.strerror or error}")
    raise Unavailable(
        Code.NOT_AVAILABLE, f"--master {master}: nothing answers: {'; '.join(causes)}"
    )


def _children() -> set[int]:
    """The processes that this one has started and that have not ended."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(stat.parent.name))
    return found


def _not_started(master: str, error: Exception) -> Unavailable:
    if isinstance(error, OSError) and error.filename:
        return Unavailable(Code.DATA_UNUSABLE, f"cannot use {error.filename}: {error.strerror}")
    text = error.getMessage() if isinstance(error, PySparkException) else str(error)
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    # the first line of an error of Java's says only that there was one
    said = next((line for line in lines if "Exception:" in line), next(iter(lines), repr(error)))
    return Unavailable(Code.NOT_AVAILABLE, f"--master {master}: Spark does not start: {said}")
