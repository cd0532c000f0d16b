"""Writes the classes that ZooKeeper's JVM loads into a file: ``python -m tests.zookeeper_classes FILE``.

As tests/spark_classes.py for Spark's, which says why; tests/live/conftest.py gives the file to the servers that tests
start.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from kazoo.client import KazooClient

from moldau.cluster.ensemble import LocalEnsemble
from tests.spark_classes import QUIET

ARCHIVE = Path(__file__).resolve().parents[1] / ".venv" / "zookeeper-classes.jsa"


def options() -> str:
    """What SERVER_JVMFLAGS tells a server that a test starts."""
    return f"-XX:SharedArchiveFile={ARCHIVE} {QUIET}" if ARCHIVE.exists() else ""


def write(path: Path) -> None:
    """Start a server that writes the file when it ends; one client has a session with it meanwhile."""
    whole = path.with_suffix(".part")
    os.environ["SERVER_JVMFLAGS"] = f"-XX:ArchiveClassesAtExit={whole} {QUIET}"
    with tempfile.TemporaryDirectory() as folder, LocalEnsemble(Path(folder)) as ensemble:
        client = KazooClient(ensemble.connect)
        client.start()
        client.create("/seen", b"x", ephemeral=True)
        client.get_children("/", watch=lambda event: None)
        client.stop()
        client.close()
    whole.rename(path)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
