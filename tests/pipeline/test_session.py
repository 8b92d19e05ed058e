"""How a pipeline finds, configures and starts its Spark."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException

from enmasse.base.errors import Conflict, Unavailable
from enmasse.pipeline import session
from pipeline_supervisor import below

PACKAGE = Path(pyspark.__file__).parent


def test_an_unusable_folder_is_named_instead_of_the_master(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    folder = tmp_path / "file" / "tables"
    with (
        pytest.raises(Unavailable, match=f"^cannot use {folder}: Not a directory$"),
        session.session("p", "local[1]", 1 << 30, folder),
    ):
        pass


STARTS = """
import signal, sys
from pathlib import Path
from enmasse.pipeline.session import session
signal.signal(signal.SIGINT, signal.default_int_handler)
with session("p", "local[1]", 512 << 20, Path(sys.argv[1])):
    pass
"""


@pytest.mark.timeout(180)
def test_ctrl_c_during_the_start_of_spark_leaves_no_jvm(tmp_path: Path) -> None:
    words = [sys.executable, "-c", STARTS, tmp_path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        pause = threading.Event()
        while not (started := below(process.pid, b"org.apache.spark.deploy.SparkSubmit")):
            assert process.poll() is None
            pause.wait(0.05)
        process.send_signal(signal.SIGINT)
        try:
            # the output ends only after the JVM, which inherits the pipe, has ended
            said, _ = process.communicate(timeout=60)
        finally:
            for pid in started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert b"KeyboardInterrupt" in said
    assert process.returncode == -signal.SIGINT


CALLS = """
import os, signal, sys
from pathlib import Path
from enmasse.base.errors import Unavailable
from enmasse.pipeline.session import session
try:
    with session("p", "local[1]", 512 << 20, Path(sys.argv[1])) as spark:
        gateway = spark.sparkContext._gateway
        os.kill(gateway.proc.pid, signal.SIGSTOP)
        print(gateway.proc.pid, gateway.java_parameters.port, flush=True)
        spark.range(3).count()
except Unavailable as error:
    sys.exit(str(error))
"""


def has_unread(port: int) -> bool:
    """Whether a connection to a port of this machine has data that its server has not read."""
    tables = (Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return any(int(row[1].split(":")[1], 16) == port and row[4][9:] != "00000000" for row in rows)


@pytest.mark.timeout(180)
def test_a_call_that_a_killed_jvm_has_not_read_is_one_clear_error(tmp_path: Path) -> None:
    words = [sys.executable, "-c", CALLS, tmp_path]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        jvm, port = map(int, process.stdout.readline().split())
        pause = threading.Event()
        while not has_unread(port):
            assert process.poll() is None
            pause.wait(0.05)
        # the connection is reset, and py4j has an error of its own for that
        os.kill(jvm, signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    assert said.splitlines()[-1].startswith("Spark's JVM died: it was killed or ran out"), said
    assert "Traceback" not in said and "py4j" not in said, said


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def raised_in(file: str) -> BaseException:
    try:
        exec(compile("raise TypeError('no answer')", file, "exec"))
    except TypeError as error:
        return error
    raise AssertionError(file)


ENDED = StreamingQueryException("the query ended")


@pytest.mark.parametrize(
    ("error", "is_of_jvm"),
    [
        (ENDED, True),
        (Py4JNetworkError("no answer"), True),
        (caused(Unavailable("E6000", "source s: the query ended"), ENDED), True),
        (EOFError(), True),
        (raised_in("/packages/py4j/java_gateway.py"), True),
        (raised_in("/packages/steps.py"), False),
        (Unavailable("E6000", "live state"), False),
        # a task has raised it
        (caused(Conflict("E4000", "messages are no longer kept"), ENDED), False),
        (ValueError("x"), False),
    ],
)
def test_only_errors_that_a_dead_jvm_may_cause_wait_for_its_end(
    error: BaseException, is_of_jvm: bool
) -> None:
    assert session.may_be_of_jvm(error) == is_of_jvm


WORKERS = """
import os, sys
from pathlib import Path
import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader
from enmasse.pipeline.session import session

class Reader(DataSourceReader):
    def read(self, partition):
        yield (os.getppid(),)

class Parents(DataSource):
    @classmethod
    def name(cls):
        return "parents"

    def schema(self):
        return "reader long"

    def reader(self, schema):
        return Reader()

def with_own(batches):
    for batch in batches:
        own = {"mapper": [os.getppid()], "seed": [os.environ["PYTHONHASHSEED"]]}
        yield pyarrow.record_batch({"reader": batch["reader"]} | own)

with session("p", "local[1]", 512 << 20, Path(sys.argv[1])) as spark:
    spark.dataSource.register(Parents)
    rows = spark.read.format("parents").load()
    (row,) = rows.mapInArrow(with_own, "reader long, mapper long, seed string").collect()
    print(row.reader == row.mapper, row.seed)
"""


@pytest.mark.timeout(300)
def test_readers_and_other_tasks_share_python_workers(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WORKERS, tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)
    assert (done.stdout, done.returncode) == ("True 0\n", 0), done.stderr


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A private copy of the environment without SPARK_HOME."""
    found = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    monkeypatch.setattr(os, "environ", found)
    return found


@pytest.mark.parametrize("shows", [False, True])
def test_a_progress_bar_is_drawn_on_request(
    shows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {}

    class Builder:
        def config(self, key: str, value: str) -> "Builder":
            settings[key] = value
            return self

        def getOrCreate(self) -> None:
            raise RuntimeError("settings recorded")

    monkeypatch.setattr(session.SparkSession.Builder, "appName", lambda *_: Builder())
    with (
        pytest.raises(Unavailable, match="settings recorded"),
        session.session("p", "local[1]", 1 << 30, tmp_path, shows_progress=shows),
    ):
        pass
    assert settings["spark.ui.showConsoleProgress"] == str(shows).lower()


def test_light_home_links_all_of_spark_except_its_python_package(
    environment: dict[str, str], tmp_path: Path
) -> None:
    home = tmp_path / "spark-home"
    home.mkdir()
    # a stale link to a version that was removed
    (home / "jars").symlink_to(tmp_path / "gone")
    with session.light_home(tmp_path):
        assert environment["SPARK_HOME"] == str(home)
    assert "SPARK_HOME" not in environment
    assert (home / "jars").resolve() == (PACKAGE / "jars").resolve()
    assert (home / "bin" / "spark-submit").is_file()
    assert not (home / "python").exists()
    before = sorted(home.iterdir())
    with session.light_home(tmp_path):
        pass
    assert sorted(home.iterdir()) == before


def test_spark_log_is_written_to_a_file(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with session.log_to_file(folder):
        setting = Path(environment[session.LOG_SETTING])
    assert session.LOG_SETTING not in environment
    assert f"appender.file.fileName = {folder / 'spark.log'}" in setting.read_text().splitlines()
    assert session.see_log(session.log_file_of(folder)) == f"; see {folder / 'spark.log'}"


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR", session.LOG_SETTING])
def test_settings_of_the_environment_determine_the_log(
    environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    environment[name] = "/opt/spark"
    with session.log_to_file(tmp_path):
        assert environment[name] == "/opt/spark"
        assert session.see_log(session.log_file_of(tmp_path)) == ""
    assert environment[name] == "/opt/spark"
    assert list(tmp_path.iterdir()) == []


def test_a_given_spark_home_is_used(environment: dict[str, str], tmp_path: Path) -> None:
    environment["SPARK_HOME"] = "/opt/spark"
    with session.light_home(tmp_path):
        assert environment["SPARK_HOME"] == "/opt/spark"
    assert environment["SPARK_HOME"] == "/opt/spark"
    assert list(tmp_path.iterdir()) == []


def test_pyspark_without_jars_gets_no_spark_home(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the package of Spark Connect has no jars
    monkeypatch.setattr(session, "_PYSPARK", tmp_path / "connect")
    with session.light_home(tmp_path):
        assert "SPARK_HOME" not in environment
