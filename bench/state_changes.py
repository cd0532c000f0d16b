"""The cell `merge`: state-change logs of three nodes as one, by us and by Apache Kafka 2.8.2's StateChangeLogMerger.

The logs are made here: a million lines, of which the merger understands 27 %, by chance, as of any log of today
(docs/decisions/0028). Both read files that are in memory and write to a file; the start of the process is in it.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from bench.cells import FULL, Row, Stand

JARS = Path(__file__).resolve().parents[1] / ".jars" / "tools-2.8.2"
MERGER = "kafka.tools.StateChangeLogMerger"
LINES, NODES = 1_000_000, 3
UNDERSTOOD = 0.27


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


def write_logs(folder: Path, lines: int) -> list[Path]:
    """Files with logs of three brokers, several lines in each millisecond, the brokers in any order."""
    rng = random.Random(3)
    paths = [folder / f"state-change.log.{node}" for node in range(NODES)]
    now = datetime(2024, 1, 31, 10)
    files = [path.open("w") for path in paths]
    for number in range(lines):
        now += timedelta(milliseconds=rng.choice((0, 0, 0, 1, 2)))
        node, partition = rng.randrange(NODES), rng.randrange(100)
        text = (
            f"INFO [Broker id={node}] Follower foo-{partition} starts at leader epoch {number} from offset 12 with"
            f" partition epoch {number} and high watermark 11. Current leader is 1. Previous leader Some(2) and"
            " previous leader epoch was 3."
        )
        if rng.random() < UNDERSTOOD:
            text = (
                f"TRACE [Broker id={node}] Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='foo',"
                f" partitionIndex={partition}, controllerEpoch=5, leader=1, leaderEpoch={number}, isr=[1, 2],"
                f" partitionEpoch={number}, replicas=[1, 2], addingReplicas=[], removingReplicas=[], isNew=true,"
                f" leaderRecoveryState=0) correlation id {number} from controller 1 epoch 5"
            )
        files[node].write(f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}] {text} (state.change.logger)\n")
    for file in files:
        file.close()
    return paths
