"""Apache Kafka's own tools, many command lines in one JVM: what each prints and exits with.

ToolDriver.java runs them; what a logger would print (WARN lines of the clients) is switched off there. Read next:
tests/live/test_classic_tools.py, which holds Moldau's tools against these, and record_classic_tools.py.
"""

from __future__ import annotations

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

HERE = Path(__file__).resolve().parent
JARS = HERE.parents[1] / ".jars"
KAFKA = JARS / "kafka-4.3.1"
FLAGS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    "-Djava.security.manager=allow",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
STILL_RUNNING = 130


class Said(NamedTuple):
    """What a command line came to."""

    status: int
    out: str
    err: str


def compiled(jars: Path) -> Path:
    """The folder of ToolDriver's classes, made once for these jars and this source: javac takes three seconds."""
    source = HERE / "ToolDriver.java"
    folder = jars.parent / "tool-driver" / f"{jars.name}-{sha256(source.read_bytes()).hexdigest()[:16]}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as made:
            classes = Path(made, "classes")
            subprocess.run(["javac", "-Xlint:-removal", "-cp", f"{jars}/*", "-d", classes, source], check=True)
            with suppress(OSError):  # another process has been quicker
                classes.rename(folder)
    return folder


class JavaTools:
    """A JVM that runs one command line after the other. A context manager."""

    def __init__(self, jars: Path = KAFKA) -> None:
        self._process = subprocess.Popen(
            ["java", *FLAGS, "-Duser.timezone=UTC", "-cp", f"{compiled(jars)}:{jars}/*", "ToolDriver"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM."""
        with self._process:  # whose pipes are closed then, too
            self._process.kill()

    def run(self, main: str, arguments: Sequence[object], *, stdin: str = "", limit_ms: int = 90_000) -> Said:
        """What ``main`` says to these arguments; status 130 when it is still running after ``limit_ms``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [str(limit_ms), stdin, main, *map(str, arguments)]
        print(*(b64encode(word.encode()).decode() or "-" for word in words), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().split()
        assert len(answer) == 3, "the JVM has ended"
        out, err = (b64decode(word.removesuffix("-")).decode() for word in answer[1:])
        return Said(int(answer[0]), out, err)
