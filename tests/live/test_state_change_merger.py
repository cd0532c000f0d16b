"""Kafka 2.8.2's StateChangeLogMerger and ours, with the same arguments: the same bytes, messages and exit status.

On lines that it understands, that is: those of before 1.0. Of the others it prints what happens to look like one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_peer import ALL_JARS, java_tool

MERGER = "kafka.tools.StateChangeLogMerger"
NODES, LINES = 3, 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of three nodes, no two lines at one time: the order of such is nobody's promise."""
    made = tmp_path_factory.mktemp("logs")
    lines: list[list[str]] = [[] for _ in range(NODES)]
    for number in range(LINES):
        node = (number * number + number // 7) % NODES
        time = f"2014-02-11 10:{number // 60:02d}:{number % 60:02d},{number % 1000:03d}"
        lines[node].append(
            f"[{time}] TRACE Broker {node} received LeaderAndIsr request (LeaderAndIsrInfo:(Leader:{node},ISR:1,"
            f"2,LeaderEpoch:{number},ControllerEpoch:5),ReplicationFactor:2),AllReplicas:1,2) correlation id {number}"
            f" from controller 1 epoch 5 for partition [{'foo' if number % 3 else 'b.ar'},{number % 4}]"
            " (state.change.logger)\n"
        )
    for node, said in enumerate(lines):
        (made / f"state-change.log.{node}").write_text("".join(said))
    return made


CASES = [
    ["--logs", "{0},{1},{2}"],
    ["--logs-regex", "{dir}/state-change.log*"],
    ["--logs", "{1}", "--topic", "b.ar"],
    ["--logs", "{0},{2}", "--topic", "foo", "--partitions", "1,3"],
    ["--logs", "{0},{1}", "--start-time", "2014-02-11 10:01:00,000", "--end-time", '"2014-02-11 10:02:02,122"'],
    [],
    ["--topic", "foo"],
    ["--logs", "{0}", "--logs-regex", "x"],
    ["--logs", "{0}", "--partitions", "1"],
    ["--logs", "{0}", "--topic", "foo", "--partitions", "1,2,1"],
]


ODD = [
    ["--logs", "{dir}/odd/empty"],
    ["--logs", "{0},{dir}/odd/empty"],
    ["--logs", "{dir}/odd/binary"],
    ["--logs", "{0},{dir}/odd/binary"],
    ["--logs", "{0},{dir}/odd/missing"],
    ["--logs", "{dir}/odd/missing", "--start-time", "x"],
    ["--logs", "{0},{dir}/odd"],
    ["--logs", "{dir}/odd/untimed"],
    ["--logs", "{dir}/odd/untimed,{1}"],
    ["--logs", "{dir}/odd/newline"],
    ["--logs", "{dir}/odd/returns"],
    ["--logs", "{0},"],
    ["--logs", "{0},,{1}"],
    ["--logs", ","],
    ["--logs", ""],
    ["--logs", "{0}", "--topic", "foo", "--partitions", "1,"],
    ["--logs", "{0}", "--topic", "foo", "--partitions", "1,,2"],
    ["--logs-regex", "{dir}/od.*"],
    ["--logs-regex", "{dir}/odd/"],
    ["--logs-regex", "{dir}/nothing.*"],
    ["--logs-regex", "/no/such/folder/state-change.log"],
    ["--logs-regex", "{dir}/*.log"],
    ["--logs-regex", "{dir}/a**"],
    ["--logs-regex", "{dir}/state[ab"],
    ["--logs-regex", "{dir}/state("],
    ["--logs-regex", "{dir}/state)"],
]
"""Files that are no logs of their time, and words that name none."""


@pytest.fixture(scope="module")
def odd(folder: Path) -> None:
    made = folder / "odd"
    made.mkdir()
    (made / "empty").touch()
    (made / "binary").write_bytes(bytes(range(256)) * 8)
    (made / "untimed").write_text("no time here\nnor for partition [foo,1] here\n")
    line = "[2014-02-11 10:00:07,000] TRACE Broker 1 received it for partition [foo,7] (state.change.logger)"
    (made / "newline").write_text(line)
    (made / "returns").write_bytes(f"{line}\r\n{line}\r\n".encode())


@pytest.mark.parametrize("case", [*CASES, *ODD], ids=" ".join)
def test_the_merger_says_what_kafkas_said(case: list[str], folder: Path, odd: None) -> None:
    names = [str(folder / f"state-change.log.{node}") for node in range(NODES)]
    arguments = [word.format(*names, dir=folder) for word in case]
    theirs = java_tool(MERGER, *arguments, check=False, jars=ALL_JARS / "tools-2.8.2")
    command = [sys.executable, "-m", "moldau", "kafka-run-class.sh", MERGER, *arguments]
    ours = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    said = [line for line in theirs.stderr.splitlines(keepends=True) if not line.startswith("[main] INFO")]
    assert (ours.returncode, ours.stdout) == (theirs.status, theirs.stdout)
    assert ours.stderr == re.sub(r"(?m)^\t(at .*|\.\.\. \d+ more)\n", "", "".join(said))
