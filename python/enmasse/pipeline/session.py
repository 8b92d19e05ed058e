"""The Spark session of a pipeline: embedded in this process, on a cluster, or by Spark Connect."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import traceback
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

from enmasse.base.errors import Code, EnMasseError, Invalid, Unavailable
from enmasse.pipeline import package as packages
from enmasse.pipeline.connector import uris

CONNECT_TIMEOUT_S = 10.0
END_TIMEOUT_S = 1.0
"""How long the JVM may take to end after its connections have broken."""
QUERY_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # adaptive execution makes a job of each stage, which small batches pay for
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # no limit of bytes: Spark would add up the whole batch for each of its rows
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    # compression takes longer than it saves for rows that are read two or three times
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # tasks write the folders of a table concurrently, without sorting rows by folder
    "spark.sql.maxConcurrentOutputFileWriters": "16",
}
"""Settings of our queries on any Spark."""
SETTINGS = QUERY_SETTINGS | {
    # the tasks of gold share the cores with those of sources, in a pool of their own
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.python.worker.faulthandler.enabled": "true",
    # throughput matters more than pauses; the heap begins small and grows with the batches
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -Xms192m",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
}
"""Settings of a Spark that we start, in addition to memory and addresses."""
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
S3_JARS, COMMITTER_JARS = "org.apache.hadoop:hadoop-aws", "org.apache.spark:spark-hadoop-cloud_2.13"
"""The packages that Spark needs for buckets, in the versions of its Hadoop and of itself."""
COMMITTER = "spark.sql.sources.commitProtocolClass"
"""Spark sets it for the S3A magic committer, which copies no object, where it finds the package."""
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
    shows_traces: bool = False,
) -> Iterator[SparkSession]:
    """Start Spark and stop it at the end; it writes its files to a folder.

    `package` is sent to the executors of a cluster. With `shows_progress` an embedded Spark draws a
    progress bar on stderr, with `shows_traces` the stack traces of failing calls to the JVM are
    logged. Raises Missing or Invalid for a wrong package, Unavailable if Spark does not start or
    its JVM dies, whatever error that caused in the block.
    """
    if not shows_traces:
        _hide_log_of_gateway()
    if master.startswith(CONNECT):
        builder, settings = _connect_builder(master), QUERY_SETTINGS
    else:
        builder = SparkSession.builder.master(master).appName(name)
        settings = (
            SETTINGS
            | uris.settings(os.environ)
            | _cluster_settings(master, package)
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
        with log_to_file(folder), light_home(folder) if is_local(master) else nullcontext():
            spark = builder.getOrCreate()
    except (KeyboardInterrupt, SystemExit):
        # PySpark has deleted the folder of its JVM, which would never end
        for child in _children() - before:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise
    except Exception as error:
        raise _start_error(master, error) from error
    try:
        if not master.startswith(CONNECT):
            spark.sparkContext.setLogLevel("ERROR")
            if not shows_traces:
                _hide_errors_of_accumulators(spark)
        if is_local(master):
            _share_workers(spark)
        yield spark
    except Exception as error:
        within_s = END_TIMEOUT_S if may_be_of_jvm(error) else 0.0
        if not (is_jvm_lost(error) or _has_ended(spark, within_s)):
            raise
        raise Unavailable(
            Code.NOT_AVAILABLE,
            "Spark's JVM died: it was killed or ran out of memory; start the run again, with more "
            f"spec.memory if that repeats{see_log(log_file_of(folder))}",
        ) from error
    finally:
        with suppress(Py4JError, ConnectionError):
            spark.stop()


@contextmanager
def job_description(spark: SparkSession, text: str) -> Iterator[None]:
    """Describe the jobs of the block in the UI of Spark."""
    if is_remote():
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, cast(str, before))


def check_reachable(spark: SparkSession, path: str) -> None:
    """Raise Unavailable with the cause if the location of tables cannot be reached.

    A server of Spark Connect is not checked.
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
    jars = f"{S3_JARS}:{hadoop.util.VersionInfo.getVersion()},{COMMITTER_JARS}:{spark.version}"
    missing = (
        f"tables at {path}: this Spark has no jars for buckets; add them:"
        f" PYSPARK_SUBMIT_ARGS='--packages {jars} pyspark-shell'"
    )
    location = hadoop.fs.Path(uris.for_spark(path))
    try:
        location.getFileSystem(context._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        if _NO_CLASS.search(str(error.java_exception)) is None:
            raise Unavailable(
                Code.NOT_AVAILABLE, f"tables at {path}: {error.java_exception}"
            ) from error
        raise Unavailable(Code.NOT_AVAILABLE, missing) from error
    if location.toUri().getScheme() == "s3a" and context.getConf().get(COMMITTER) is None:
        raise Unavailable(Code.NOT_AVAILABLE, missing)


def log_file_of(folder: Path) -> Path | None:
    """Return the log file of a Spark with its files in a folder.

    None if the environment has its own settings of Spark.
    """
    names = ("SPARK_HOME", "SPARK_CONF_DIR", LOG_SETTING)
    return None if any(name in os.environ for name in names) else folder / LOG


def see_log(file: Path | None) -> str:
    """Return the end of an error that refers to the log file."""
    return f"; see {file}" if file else ""


@contextmanager
def log_to_file(folder: Path) -> Iterator[None]:
    """Make a Spark that is started in the block log to a file of 10 MB and one older file, not to
    stderr.
    """
    file = log_file_of(folder)
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
    """Make a Spark that is started in the block import PySpark from the installed package.

    Spark puts its own copy, a zip, first on the path of each Python process, which then compiles
    its imports: nearly a second of processor time for each of about five processes at a start. A
    home of links has everything but that copy. A `SPARK_HOME` of the user is left alone.
    """
    names = [name for name in ("bin", "conf", "jars") if (_PYSPARK / name).is_dir()]
    if "SPARK_HOME" in os.environ or "jars" not in names:
        yield
        return
    home = folder / "spark-home"
    home.mkdir(parents=True, exist_ok=True)
    for name in names:
        link, new = home / name, home / f"{name}.{os.getpid()}"
        # atomic, because another process may do the same; also replaces an older version
        new.symlink_to(_PYSPARK / name, target_is_directory=True)
        new.replace(link)
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        # child processes may use another Spark
        del os.environ["SPARK_HOME"]


def _cluster_settings(master: str, package: Path | None) -> dict[str, str]:
    """Settings of addresses, Python and package, by kind of master."""
    # Spark starts Python workers by this name
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        return _driver_host("127.0.0.1")
    # a name that is valid on all machines; here it must be the Python of this process
    os.environ.setdefault("PYSPARK_PYTHON", packages.PYTHON)
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    settings: dict[str, str] = {}
    if master.startswith("spark:"):
        if _STANDALONE.fullmatch(master) is None:
            raise Invalid(Code.REQUEST_INVALID, f"--master {master}: write spark://HOST:PORT")
        own = _own_address(master, master.removeprefix("spark://").split(","))
        settings |= _driver_host(os.environ.get("SPARK_LOCAL_IP") or own)
    if package is not None:
        packages.check(package)
        settings["spark.archives"] = f"{package.resolve()}#{packages.FOLDER}"
        settings["spark.executorEnv.PYTHONPATH"] = packages.FOLDER
    return settings


def _share_workers(spark: SparkSession) -> None:
    """Let the tasks of a batch run in the Python processes that have read it.

    Spark has other workers for other environments, and gives the readers of a source this one.
    Without it two more processes of 40 MiB, and the process that forks them, run beside.
    """
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.spark.api.python.PythonUtils.sparkPythonPath()
    # workers inherit the rest from the JVM, PYTHONHASHSEED included
    context.environment.clear()
    context.environment["PYTHONPATH"] = path


def _hide_log_of_gateway() -> None:
    """Drop the records of py4j, which logs the stack trace of each call that fails, in part by the
    root logger. Its errors are raised as well.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_of_gateway)


def _is_not_of_gateway(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _hide_errors_of_accumulators(spark: SparkSession) -> None:
    """Make the server of accumulators, which no task of ours updates, print no stack trace when its
    connection breaks.
    """
    context: Any = spark.sparkContext
    context._accumulatorServer.handle_error = lambda *_: None


def is_jvm_lost(error: BaseException) -> bool:
    """Return whether a call failed because the JVM does not answer any more: `session` ends."""
    # a call that the JVM has refused has its trace, or is a subclass
    is_unanswered = type(error) is Py4JError and "Trace:" not in str(error)
    return is_unanswered or isinstance(error, (Py4JNetworkError, ConnectionError))


def may_be_of_jvm(error: BaseException) -> bool:
    """Return whether the end of the JVM may have caused an error: one of Spark, one within the
    gateway to the JVM, or one that such an error caused.
    """
    if isinstance(error, EnMasseError) and not isinstance(error, Unavailable):
        return False
    if isinstance(error, (Py4JError, PySparkException, ConnectionError, EOFError)):
        return True
    files = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
    if any("py4j" in Path(file).parts for file in files):
        return True
    return error.__cause__ is not None and may_be_of_jvm(error.__cause__)


def _has_ended(spark: SparkSession, within_s: float) -> bool:
    """Whether the JVM that this process started ends within a time. Its connections break before
    that.
    """
    if is_remote():
        return False
    context: Any = spark.sparkContext
    jvm: subprocess.Popen[bytes] | None = context._gateway.proc
    if jvm is None:
        # it was started by another process
        return False
    with suppress(subprocess.TimeoutExpired):
        jvm.wait(within_s)
        return True
    return False


def _driver_host(host: str) -> dict[str, str]:
    return {"spark.driver.host": host, "spark.driver.bindAddress": host}


def _connect_builder(master: str) -> SparkSession.Builder:
    found = _REMOTE.fullmatch(master)
    if found is None:
        raise Invalid(Code.REQUEST_INVALID, f"--master {master}: write sc://HOST:PORT")
    if find_spec("grpc") is None:
        raise Unavailable(
            Code.NOT_AVAILABLE, "Spark Connect is not installed: pip install 'enmasse[connect]'"
        )
    # fail fast: its client retries for minutes
    _own_address(master, [found[1] if found[2] else f"{found[1]}:{_REMOTE_PORT}"])
    return SparkSession.builder.remote(master)


def _own_address(master: str, servers: Sequence[str]) -> str:
    """The address of this machine on the route to a master, by which the master reaches it."""
    causes = []
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            causes.append(f"{server}: {error.strerror or error}")
    raise Unavailable(Code.NOT_AVAILABLE, f"--master {master}: no connection: {'; '.join(causes)}")


def _children() -> set[int]:
    """The child processes of this one."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(stat.parent.name))
    return found


def _start_error(master: str, error: Exception) -> Unavailable:
    if isinstance(error, OSError) and error.filename:
        return Unavailable(Code.DATA_UNUSABLE, f"cannot use {error.filename}: {error.strerror}")
    text = error.getMessage() if isinstance(error, PySparkException) else str(error)
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    # the first line of an error of Java has no cause
    cause = next((line for line in lines if "Exception:" in line), next(iter(lines), repr(error)))
    return Unavailable(Code.NOT_AVAILABLE, f"--master {master}: Spark does not start: {cause}")
