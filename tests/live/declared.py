"""Runs projects of Spark's Declarative Pipelines, as whoever types ``spark-pipelines run`` in their folder does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from moldau.spark.supervise import BEGINNINGS, TOO_SLOW

PATIENCE_S = 600
FULL_REFRESH = "--full-refresh-all"
CATALOG = "spark.sql.catalogImplementation=hive"
"""Spark's own catalog on disk, which a later run finds again."""
_QUICK = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.pipelines.maxFlowRetryAttempts": "0",
}


def command(*words: str) -> list[str]:
    """``spark-pipelines run`` with these words behind it, and settings that spare time."""
    program = str(Path(sys.executable).parent / "spark-pipelines")
    settings = [CATALOG, *(f"{name}={value}" for name, value in _QUICK.items())]
    return [program, "run", *(word for one in settings for word in ("--conf", one)), *words]


def _environment() -> dict[str, str]:
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**os.environ, **python, "SPARK_LOCAL_IP": "127.0.0.1"}


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A run of a project to its end; again when Python was too slow to come up, as ``until_it_stands`` begins a query
    again: Spark gives it ten seconds, and its own attempts are none here, since one test wants a failure told at once.
    """
    for _ in range(BEGINNINGS):
        done = _run(project, *words)
        if done.returncode == 0 or TOO_SLOW not in done.stdout + done.stderr:
            break
        words = tuple(word for word in words if word != FULL_REFRESH)  # that was done before any flow began
    return done


def _run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        cwd=project,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def told(done: subprocess.CompletedProcess[str]) -> str:
    said = done.stdout + done.stderr
    causes = [line for line in said.splitlines() if line.startswith("Caused by: ")]
    return "\n".join([*causes, done.stdout[-15000:], done.stderr[-15000:]])
