"""A local session's JVM ends with whoever starts it, and what PySpark logs of errors goes to the session's log."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path

import pytest

from moldau.spark import local

PATIENCE_S = 60


def test_a_start_that_is_interrupted_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    pipe, script = tmp_path / "pipe", tmp_path / "bin" / "spark-submit"
    os.mkfifo(pipe)
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\nsleep {10 * PATIENCE_S} > {pipe} &\nexec 3> {pipe}\nwait\n")
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    # As a shell starts what it puts into the background: the signal would not be heard.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    left: list[str] = []

    def interrupt() -> None:
        with pipe.open() as file:  # until a process of the script has it open, too
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            left.append(file.read())  # until none has

    other = threading.Thread(target=interrupt, daemon=True)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        local._start_jvm({})
    signal.signal(signal.SIGINT, heard)
    other.join(PATIENCE_S)
    assert left == [""], "a process of the start is still there"


def java(folder: Path, version: str) -> None:
    """A program of that name and version, all that a machine has."""
    folder.mkdir(parents=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)


def test_a_machine_without_java_or_with_an_old_one_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(local.NoJava, match=r"^no java was found\. Spark needs Java 17 or later: apt-get install"):
        local.session(folder=str(tmp_path / "none"))
    assert not (tmp_path / "none").exists(), "nothing is left of a session that never began"
    java(tmp_path / "bin", "1.8.0_422")
    with pytest.raises(local.NoJava, match=r"bin/java is version 1\.8\.0_422\. Spark needs Java 17 or later"):
        local.find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(local.NoJava, match="no java was found"):
        local.find_java()
    java(tmp_path / "home" / "bin", "21.0.4")
    assert local.find_java() == str(tmp_path / "home" / "bin" / "java")


def test_what_pyspark_logs_of_an_error_is_in_the_log_and_not_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.logger import PySparkLogger

    local._log_errors_to(tmp_path / "spark.log")
    PySparkLogger.getLogger("SQLQueryContextLogger").exception("[DIVIDE_BY_ZERO] Division by zero.")
    assert "DIVIDE_BY_ZERO" in (tmp_path / "spark.log").read_text()
    assert capsys.readouterr().err == ""
    for name in local.ERROR_LOGGERS:
        (handler,) = logging.getLogger(name).handlers
        handler.close()
