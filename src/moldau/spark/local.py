"""Starts a local Spark session that suits Moldau: the right interpreter for workers, UTC, little memory, a quiet log.

Only a convenience: the source works in any session whose workers can import moldau. Decides nothing about pipelines.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

_QUIET_LOG = """\
rootLogger.level = error
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class NoJava(RuntimeError):
    """Spark cannot start here; the message says what is missing and how to get it."""


class ForeignSession(RuntimeError):
    """The running session cannot be told which cluster to read; the message says what to do instead."""


class NoSpark(ImportError):
    """PySpark is not installed; the message says how to get it."""


def session(
    app: str = "moldau",
    *,
    bootstrap_servers: str | None = None,
    cores: int = 2,
    folder: str | None = None,
    conf: dict[str, str] | None = None,
) -> SparkSession:
    """A session with ``local[cores]`` and this interpreter for its workers.

    ``bootstrap_servers`` is the cluster that ``format("moldau")`` reads when ``kafka.bootstrap.servers`` is not given;
    a later call of the same program changes it for what is read from then on.
    ``folder`` takes Spark's scratch files and ``spark.log``, where the JVM's and the workers' messages go, and what
    PySpark logs of errors (default: a temporary folder).
    ``conf`` adds or overrides Spark settings; memory is ``spark.driver.memory``, 1g unless set.
    NoSpark when PySpark is not installed, NoJava when no Java 17 or later is found.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise NoSpark("Spark needs PySpark, which is not installed: pip install 'moldau[spark]'.")
    find_java()
    home = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="moldau-spark-"))
    home.mkdir(parents=True, exist_ok=True)
    if folder is None:  # at the end: spark.log is the JVM's, which outlives a session that is stopped
        atexit.register(shutil.rmtree, home, ignore_errors=True)
    log = home / "log4j2.properties"
    log.write_text(_QUIET_LOG)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    from pyspark.sql import SparkSession

    from moldau.spark.source import DEFAULTS

    os.environ.setdefault(DEFAULTS, str(home / "bootstrap-servers"))

    settings = _settings(home, log, cores)
    wanted = {**settings, **(conf or {})}
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    with _messages_to(home / "spark.log"), _interrupts_kept():
        _start_jvm({"spark.master": f"local[{cores}]", "spark.app.name": app, **wanted})
        found: SparkSession = builder.getOrCreate()
    _log_errors_to(home / "spark.log")
    if bootstrap_servers is not None:
        _name_cluster(found, bootstrap_servers)
    return found


def _settings(home: Path, log: Path, cores: int) -> dict[str, str]:
    """What a session has unless it is told otherwise."""
    return {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log.as_uri()} -XX:+UseSerialGC",
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        # Over TCP, what the JVM sends a task in two writes waits 40 ms for the worker's delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
    }


_DYING_S = 2.0
"""How long a JVM that was killed may take until it is gone: its sockets are refused before."""


def java_has_ended() -> bool:
    """Whether the JVM that this program has started, if it has, has ended, or ends within two seconds."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    begun = getattr(getattr(context, "_gateway", None), "proc", None)
    if begun is None:
        return False
    try:
        begun.wait(_DYING_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM, unless there is one, in a session of its own: a signal to this program's process group (Ctrl-C at
    a terminal, ``timeout``) is this program's to answer, which stops its queries in order. The JVM ends when the pipe
    to it breaks, however this program ends, and with a start that is interrupted: PySpark removes the folder then in
    which the JVM would say where it listens, and the JVM stays without looking at its pipe."""
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    SparkContext._ensure_initialized(gateway=_launch(conf))


def _launch(conf: SparkConf) -> Any:  # Any: py4j has no types
    """PySpark's conversation with a JVM of its own; what was started is ended when it does not come to that."""
    from pyspark import java_gateway

    begun: list[subprocess.Popen[bytes]] = []

    class Begun(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **named: Any) -> None:  # Any: whatever PySpark gives
            begun.append(self)
            super().__init__(*arguments, **named)

    module: Any = java_gateway  # Any: its Popen is replaced, as it tells nobody which process it began
    before, module.Popen = module.Popen, Begun
    try:
        return module.launch_gateway(conf, {"start_new_session": True})
    except BaseException:
        for one in begun:
            with contextlib.suppress(AttributeError, OSError):  # it was not begun, or is gone
                os.killpg(one.pid, signal.SIGKILL)
                with one:  # waits for it, and closes the pipe
                    pass
        raise
    finally:
        module.Popen = before


ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's loggers of errors that it raises as well, each in a line of JSON with the JVM's whole stack."""


def _log_errors_to(path: Path) -> None:
    """Have these loggers write to a file, in place of standard error: who calls has the error."""
    from pyspark.logger import PySparkLogger

    for name in ERROR_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            if isinstance(handler, logging.FileHandler):
                handler.close()
        logger.addHandler(logging.FileHandler(path, delay=True))


@contextlib.contextmanager
def _interrupts_kept() -> Iterator[None]:
    """A program's own way to answer SIGINT stays: PySpark puts one in its place that talks to the JVM in the middle of
    whatever is being said to it. Where there was none but Python's, PySpark's stays, which cancels jobs."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if before not in (None, signal.default_int_handler) and signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)


def tell_once(spark: SparkSession) -> None:
    """Leave out what PySpark prints when its JVM is gone: whoever was waiting for the JVM raises the same error, and a
    service that is stopped process by process has no error to tell of."""
    server = spark.sparkContext._accumulatorServer
    tell = server.handle_error

    def handle_error(request: socket | tuple[bytes, socket], client_address: object) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            tell(request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]  # of this server alone
    logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")


def _name_cluster(spark: SparkSession, bootstrap_servers: str) -> None:
    """Have the sources of this JVM read the cluster. They see the environment as it was when the JVM started, and so
    are told in a file whose name is in there; ForeignSession for a JVM that somebody else has started."""
    from moldau.spark.source import DEFAULTS

    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a classic session has a JVM"
    file = jvm.java.lang.System.getenv(DEFAULTS)
    if file is not None:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(f"{file}.{os.getpid()}")
        fresh.write_text(bootstrap_servers)
        fresh.replace(file)
    elif jvm.java.lang.System.getenv("MOLDAU_BOOTSTRAP") != bootstrap_servers:
        raise ForeignSession(
            "a Spark session that moldau.spark.session did not start is running, and its sources cannot be told of "
            f"{bootstrap_servers}: set the option kafka.bootstrap.servers, or the environment variable "
            "MOLDAU_BOOTSTRAP before Spark starts"
        )


@contextlib.contextmanager
def _messages_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile write their messages to this file, for as long as they live."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def find_java() -> str:
    """The path of a Java of version 17 or later; NoJava when there is none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    advice = "Spark needs Java 17 or later: apt-get install openjdk-17-jre-headless (or set JAVA_HOME)"
    if program is None:
        raise NoJava(f"no java was found. {advice}")
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    number = told.partition('"')[2].partition('"')[0].split(".")
    major = int(number[0]) if number[0].isdigit() else 0
    if major < 17:
        raise NoJava(f"{program} is version {'.'.join(number) or 'unknown'}. {advice}")
    return program
