"""The cell `merge`: state-change logs of three nodes as one, by us and by Apache Kafka 2.8.2's StateChangeLogMerger.

The logs are made here: a million lines, of which the merger understands 27 %, by chance, as of any log of today
(docs/decisions/0028). Both read files that are in memory and write to a file; the start of the process is in it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.cells import FULL, Row, Stand
from bench.made_logs import write_logs

JARS = Path(__file__).resolve().parents[1] / ".jars" / "tools-2.8.2"
MERGER = "kafka.tools.StateChangeLogMerger"
LINES = 1_000_000


def merge_cell(stand: Stand) -> Iterator[Row]:
    """Lines read and lines kept by a merge of three logs, each second."""
    lines = LINES if stand.sizes == FULL else LINES // 20
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as folder:
        files = write_logs(Path(folder), lines)
        command = [sys.executable, "-m", "moldau", "kafka-run-class.sh"]
        if stand.system == "kafka":
            command = ["java", "-cp", f"{JARS}/*"]
        out = Path(folder) / "merged"
        for _ in range(stand.sizes.repeats):
            with out.open("wb") as merged:
                began = time.perf_counter()
                words = [*command, MERGER, "--logs", ",".join(map(str, files))]
                subprocess.run(words, check=True, stdout=merged, stderr=subprocess.DEVNULL)
                took_s = time.perf_counter() - began
            with out.open("rb") as merged:
                kept = sum(1 for _ in merged)
            yield Row("merge state-change logs, lines read", "lines/s", "higher", lines / took_s)
            yield Row("merge state-change logs, lines kept", "%", "higher", 100 * kept / lines)
