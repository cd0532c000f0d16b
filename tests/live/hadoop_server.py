"""A server that tests start: a Java class beside them, run with the jars of `make test-stores` and PySpark's Hadoop.

It can be killed and started again in the same folder and at the same port. Read next: test_hdfs.py, iceberg_catalog.py.
"""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

import pyspark
from kafka_peer import ALL_JARS, free_port, wait_until

HADOOP = (
    "hadoop-client-api", "hadoop-client-runtime", "jcl-over-slf4j", "slf4j-api", "log4j-1.2-api", "log4j-api",
    "log4j-core",
)  # fmt: skip
START_S = 120


class HadoopServer(ABC):
    """A running server. ``source`` is its class, which is told port and folder; ``jars`` the folders of its jars."""

    jars: tuple[str, ...]
    source: str

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self._log = folder / "server.log"
        self.start()

    @property
    @abstractmethod
    def uri(self) -> str:
        """Where it is reached."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves."""

    def start(self) -> None:
        """Start the process, and wait until it serves."""
        ours = Path(pyspark.__file__).parent / "jars"
        hadoop = [str(file) for name in HADOOP for file in ours.glob(f"{name}-*.jar")]
        classes = ":".join([*(f"{ALL_JARS / name}/*" for name in self.jars), *hadoop])
        flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
        with self._log.open("wb") as log:
            source = Path(__file__).with_name(self.source)
            command = ["java", *flags, "-cp", classes, str(source), str(self.port), str(self.folder)]
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        try:
            wait_until(self._is_up, f"{self.source} serves", START_S)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait(30)

    def said(self) -> str:
        """What it has written since its start."""
        return self._log.read_text()

    def _is_up(self) -> bool:
        assert self._process.poll() is None, self.said()
        return self.answers()
