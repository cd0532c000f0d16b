"""State-change logs merged: every line once, stacks with their lines, each log in its order, all by time."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from moldau.admin.classic.run import run
from moldau.admin.log import log
from moldau.clusterdata.state_changes.merging import logs, merge, one_after_the_other, wanted
from moldau.clusterdata.state_changes.sources import LogSource

MERGER = "kafka.tools.StateChangeLogMerger"


def at(ms: int) -> str:
    return f"2024-01-31 {ms // 3_600_000:02d}:{ms // 60_000 % 60:02d}:{ms // 1000 % 60:02d},{ms % 1000:03d}"


def line(ms: int, text: str) -> str:
    return f"[{at(ms)}] INFO {text} (state.change.logger)\n"


Entry = tuple[int, str]
STACK = st.sampled_from(["", "", "", "java.lang.Exception: x\n\tat a.b(C.java:1)\n", "\n", "[not a time]\n", "[2024\n"])
LOG = st.lists(st.tuples(st.integers(-3, 50), STACK), max_size=30)


def written(entries: list[Entry], node: int, *, backwards: bool) -> tuple[str, list[tuple[str, str]]]:
    """A log, and its entries with the time by which they are sorted: the greatest so far."""
    now, greatest, text, known = 10_000, "", "", []
    for number, (step, stack) in enumerate(entries):
        now += step if backwards else max(step, 0)
        entry = line(now, f"[Broker id={node}] line {number}") + stack
        greatest = max(greatest, at(now))
        known.append((greatest, entry))
        text += entry
    return text, known


@given(
    all_entries=st.lists(LOG, min_size=1, max_size=5),
    block_bytes=st.sampled_from([1, 7, 60, 200, 1 << 18]),
    backwards=st.booleans(),
    packed=st.booleans(),
    data=st.data(),
)
@example(all_entries=[[(0, "")] * 30, [(0, "")] * 30], block_bytes=60, backwards=False, packed=False, data=None)
def test_nothing_is_lost_and_order_is_kept(
    all_entries: list[list[Entry]],
    block_bytes: int,
    backwards: bool,
    packed: bool,
    data: st.DataObject | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    sources, known = [], []
    for node, entries in enumerate(all_entries):
        text, told = written(entries, node, backwards=backwards)
        lines = text.encode().splitlines(keepends=True)
        cut = 0 if data is None else data.draw(st.integers(0, len(lines)))
        paths = [folder / f"{node}-{part}" for part in (0, 1)]  # a log that was rolled anywhere, in a stack too
        for path, part in zip(paths, (lines[:cut], lines[cut:]), strict=True):
            path.write_bytes(gzip.compress(b"".join(part)) if packed else b"".join(part))
        sources.append(LogSource(list(map(str, paths)), block_bytes=block_bytes))
        known += told
    merged = b"".join(entry + b"\n" for entries in merge(sources) for entry in entries)
    assert merged.decode() == "".join(entry for _, entry in sorted(known, key=lambda one: one[0]))


def test_a_file_without_any_time_comes_first_and_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no time\nat all")
    (tmp_path / "b").write_text(line(1, "b"))
    merged = [
        entry for one in merge([LogSource([str(tmp_path / "b")]), LogSource([str(tmp_path / "a")])]) for entry in one
    ]
    assert merged == [b"no time\nat all", line(1, "b").encode()[:-1]]


@pytest.mark.parametrize("longest", [50, 1 << 24])
def test_what_stands_before_the_first_time_is_left_out_if_that_is_wished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr("moldau.clusterdata.state_changes.sources.ENTRY_BYTES_MAX", longest)
    path = tmp_path / "state-change.log"
    entries = [line(n, f"line {n}") for n in range(3)]
    path.write_text("no time\n" * 20 + "".join(entries))
    source = LogSource([str(path)], block_bytes=20, beheaded=True)
    assert [entry.decode() + "\n" for some in merge([source]) for entry in some] == entries


def test_a_folder_stands_for_the_logs_in_it_and_rolled_files_are_one_log(tmp_path: Path) -> None:
    node = tmp_path / "node-1" / "logs"
    node.mkdir(parents=True)
    (node / "state-change.log").write_text("\tat the.end(Of.java:1)\n" + line(30, "third"))
    (node / "state-change.log.1").write_text(line(20, "second") + "java.lang.Exception: it\n")
    (node / "state-change.log.2024-01-31-09.gz").write_bytes(gzip.compress(line(10, "first").encode()))
    (node / "server.log").write_text(line(15, "another"))
    (found,) = logs([str(tmp_path)])
    assert [Path(one).name for one in found] == [
        "state-change.log.2024-01-31-09.gz",
        "state-change.log.1",
        "state-change.log",
    ]
    done = CliRunner().invoke(log, ["merge", str(tmp_path)])
    stack = "java.lang.Exception: it\n\tat the.end(Of.java:1)\n"
    assert done.output == line(10, "first") + line(20, "second") + stack + line(30, "third")


@pytest.mark.parametrize("odd", ["2026-02-30 13:00:00,000", "2026-11-27 25:00:00,000", "2026-13-01 00:00:00,000"])
def test_files_whose_times_are_no_dates_are_taken_apart_and_not_refused(tmp_path: Path, odd: str) -> None:
    files = [str(tmp_path / f"state-change.log.{number}") for number in (1, 2)]
    Path(files[0]).write_text(f"[2026-01-01 00:00:00,000] INFO a\n[{odd}] INFO b\n")
    Path(files[1]).write_text("[2026-02-01 00:00:00,000] INFO c\n")
    assert one_after_the_other(files) == [[files[0]], [files[1]]]


@pytest.mark.parametrize("packed", [False, True])
def test_numbered_files_of_one_time_are_logs_of_several_nodes(tmp_path: Path, packed: bool) -> None:
    """They were printed one after the other, as if the second had been rolled after the first."""
    for name, seconds in (("1", (10, 30)), ("2", (20, 40)), ("3", (45, 50))):
        text = "".join(line(1_000 * second, f"of {name}") for second in seconds).encode()
        path = tmp_path / f"state-change.log.{name}{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(text) if packed else text)
    files = [str(path) for path in sorted(tmp_path.iterdir())]
    assert one_after_the_other(files) == [[files[0], files[2]], [files[1]]]
    done = CliRunner().invoke(log, ["merge", *files])
    wanted = [(10, "1"), (20, "2"), (30, "1"), (40, "2"), (45, "3"), (50, "3")]
    assert done.output == "".join(line(1_000 * second, f"of {name}") for second, name in wanted)


def test_a_log_whose_threads_wrote_a_little_out_of_order_at_a_roll_stays_one(tmp_path: Path) -> None:
    """Its order is the order in which things were done."""
    (tmp_path / "state-change.log.1").write_text(line(10_003, "first") + line(11_000, "second"))
    (tmp_path / "state-change.log").write_text(line(10_501, "third"))
    done = CliRunner().invoke(log, ["merge", str(tmp_path)])
    assert [text.split()[-2] for text in done.output.splitlines()] == ["first", "second", "third"]


def test_a_pipe_is_read_from_its_beginning(tmp_path: Path) -> None:
    """A look at its first time took 64 KB out of it, and they were missing."""
    lines = "".join(line(10, f"number {number}") for number in range(2_000)).encode()
    pipe = tmp_path / "state-change.log"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(lines,))
    writer.start()
    done = CliRunner().invoke(log, ["merge", str(pipe)])
    writer.join()
    assert done.output.encode() == lines


def test_one_log_is_read_in_steps_though_its_clock_went_back(tmp_path: Path) -> None:
    """All that followed was held until its end: none of it is before the time up to which the log was read."""
    path = tmp_path / "state-change.log"
    path.write_text(line(50, "before") + "".join(line(10, f"{number}") for number in range(1_000)))
    some = list(merge([LogSource([str(path)], block_bytes=4_000)]))
    assert sum(map(len, some)) == 1_001
    assert max(map(len, some)) < 200


ERAS = {
    "0.8": "[{at}] TRACE Broker 2 received LeaderAndIsr request (LeaderAndIsrInfo:(Leader:2,ISR:2,1,LeaderEpoch:3,"
    "ControllerEpoch:5),ReplicationFactor:2),AllReplicas:2,1) correlation id 7 from controller 1 epoch 5 for partition"
    " [foo.a,12] (state.change.logger)",
    "2.x": "[{at}] TRACE [Broker id=2] Cached leader info UpdateMetadataPartitionState(topicName='foo.a',"
    " partitionIndex=12, controllerEpoch=1, leader=3, leaderEpoch=1, isr=[3, 2], zkVersion=1, replicas=[2, 3],"
    " offlineReplicas=[]) for partition foo.a-12 in response to UpdateMetadata request sent by controller 2 epoch 1"
    " with correlation id 16 (state.change.logger)",
    "3.x": "[{at}] INFO [Controller id=1 epoch=5] Changed partition foo.a-12 from NewPartition to OnlinePartition with"
    " state LeaderAndIsr(leader=1, leaderEpoch=0, isr=List(1, 2), leaderRecoveryState=RECOVERED, partitionEpoch=0)"
    " (state.change.logger)",
    "KRaft": "[{at}] INFO [Broker id=1] Follower foo.a-12 starts at leader epoch 0 from offset 0 with partition epoch 0"
    " and high watermark 0. Current leader is 1. Previous leader None and previous leader epoch was -1."
    " (state.change.logger)",
}


@pytest.mark.parametrize("era", ERAS)
def test_lines_of_a_topic_are_known_in_every_era(era: str) -> None:
    entry = ERAS[era].replace("{at}", at(1)).encode()
    for topic, numbers, found in (
        ("foo.a", (), True),
        ("foo.a", (3, 12), True),
        ("foo.a", (1, 2), False),
        ("foo", (), False),
        ("a", (), False),
        ("foo_a", (), False),
    ):
        keep = wanted(topic, numbers)
        assert keep is not None
        assert bool(keep(entry)) is found, (topic, numbers)


def classic(arguments: list[object], capsysbinary: pytest.CaptureFixture[bytes]) -> tuple[int, str, str]:
    status = run("kafka-run-class.sh", [MERGER, *map(str, arguments)])
    out, err = capsysbinary.readouterr()
    return status, out.decode(), err.decode()


def test_the_classic_name_filters_by_topic_partition_and_time(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    texts = [f"[Broker id=1] Leader foo-{number} starts at leader epoch 0" for number in range(3)]
    (tmp_path / "state-change.log").write_text("".join(line(n, text) for n, text in enumerate(texts)) + "\tat x\n")
    (tmp_path / "state-change.log.1").write_text(line(1, "Broker 2 says of [foo,1]"))
    regex = f"{tmp_path}/state-change.log*"
    both = line(1, texts[1]) + line(1, "Broker 2 says of [foo,1]")
    for arguments in (
        ["--topic", "foo", "--partitions", "1"],
        ["--start-time", at(1), "--end-time", f'"{at(1)}"'],
    ):
        assert classic(["--logs-regex", regex, *arguments], capsysbinary) == (0, both, "")
    status, out, err = classic(["--logs", tmp_path / "state-change.log", "--start-time", at(2)], capsysbinary)
    assert (status, out, err) == (0, line(2, texts[2]) + "\tat x\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topic", "x"], 'Provide arguments to exactly one of the two options "[logs]" or "[logs-regex]"\nOption'),
        (
            ["--logs", "a", "--partitions", "0"],
            'The option "[topic]" needs to be provided an argument when specifying partition ids\nOption',
        ),
        (
            ["--logs", "a", "--topic", "t", "--partitions", "1,2,1"],
            "The list of partitions contains repeated entries: 1\n",
        ),
        (
            ["--logs", "/not/there"],
            'Exception in thread "main" java.io.FileNotFoundException: /not/there (No such file or directory)\n',
        ),
        (
            ["--logs", "a", "--start-time", "noon"],
            'Exception in thread "main" java.text.ParseException: Unparseable date: "noon"\n',
        ),
    ],
)
def test_the_classic_name_refuses_as_kafka_does(
    arguments: list[object], said: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    status, out, err = classic(arguments, capsysbinary)
    assert (status, out) == (1, "")
    assert err.startswith(said)


def test_a_merge_as_json_has_the_fields_of_every_line(tmp_path: Path) -> None:
    path = tmp_path / "state-change.log"
    path.write_text("".join(text.replace("{at}", at(1)) + "\n" for text in ERAS.values()) + "\tat x\n")
    done = CliRunner().invoke(log, ["merge", str(path), "-o", "json"])
    rows = [json.loads(row) for row in done.output.splitlines()]
    assert {tuple(row["partitions"][0]) for row in rows} == {("foo.a", 12)}
    assert [row.get("leader") for row in rows] == [2, 3, 1, 1]
    assert [row.get("leader_epoch") for row in rows] == [3, 1, 0, 0]
    assert [row.get("isr") for row in rows] == [[2, 1], [3, 2], [1, 2], None]
    assert [row["event"] for row in rows] == ["LeaderAndIsr", "UpdateMetadata", "partition", "follower"]
    assert rows[-1]["more"] == "\tat x"


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_packed_file_that_is_damaged_is_named_in_one_line(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(b"".join(line(n, f"line {n * n}").encode() for n in range(5_000))))
    if damage == "flipped":
        packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "state-change.log.1.gz"
    path.write_bytes(packed if damage == "flipped" else packed[:-2_000])
    good = [line(n, f"good {n}") for n in range(9)]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "state-change.log").write_text("".join(good))
    command = [sys.executable, "-m", "moldau", "log", "merge", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1
    assert done.stderr.startswith(f"moldau: {path}: it cannot be unpacked: ")
    assert done.stderr.count("\n") == 1
    lines = done.stdout.splitlines(keepends=True)
    assert [one for one in lines if "good" in one] == good, "one damaged file hid all others"
    read = [one for one in lines if "good" not in one]
    assert 2_000 < len(read) < 5_000
    assert read[:2_000] == [line(n, f"line {n * n}") for n in range(2_000)], "what stands before the damage"
    timeline = CliRunner().invoke(log, ["timeline", "orders-0", "--logs", str(tmp_path)])
    assert timeline.stderr.count("it cannot be unpacked") == 1


def test_what_is_not_there_is_named_in_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(log, ["merge", str(tmp_path / "none")])
    assert done.exit_code == 1
    assert (
        done.output
        == f"moldau: {tmp_path}/none: No such file or directory; name state-change logs, or folders of such\n"
    )


def test_a_file_that_is_no_log_is_merged_and_named(tmp_path: Path) -> None:
    """All lines are kept, also of a stack trace that was cut off; a wrong file should not go unnoticed."""
    file = tmp_path / "wrong"
    file.write_bytes(b"\x00\xff\n")
    (tmp_path / "empty").touch()
    done = CliRunner().invoke(log, ["merge", str(file), str(tmp_path / "empty")])
    assert (done.exit_code, done.stdout_bytes) == (0, b"\x00\xff\n")
    assert "wrong: no line near its beginning has a time" in done.stderr
    assert "empty" not in done.stderr
