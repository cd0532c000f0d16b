"""kafka-dump-log.sh on the same files as Kafka 4.3.1's own: the same bytes on both streams, the same exit status."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest
from foreign import poll_messages
from test_storage_files import write_log
from tests.golden.java_tools import JavaTools

from moldau import Cluster
from moldau.client.admin import NewTopic, create_topics
from moldau.storage import LogConfig

DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments, with every codec and a producer's snapshots."""
    folder = tmp_path_factory.mktemp("segments")
    config = LogConfig(internal_segment_bytes=3000, index_interval_bytes=500)
    write_log(folder, config)
    return folder / "t-0"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of a node that has stopped: its metadata log, and offsets that a group committed."""
    folder = tmp_path_factory.mktemp("node") / "cluster"
    with Cluster(1, data=folder, config={"offsets.topic.num.partitions": "1"}) as cluster:
        topic = cluster.client().run(create_topics(cluster.client().client, [NewTopic(name="told", partitions=2)]))
        assert topic["told"].code == 0
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("told", b"value", key=b"key")
        assert producer.flush(120) == 0
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe(["told"])
        poll_messages(consumer, 1)
        consumer.commit(asynchronous=False)
        consumer.close()
    return folder


def same(java: JavaTools, *arguments: object) -> str:
    """What both say to the arguments; of traces, the lines that are about the failure."""
    command = [sys.executable, "-m", "moldau", "kafka-dump-log.sh", *map(str, arguments)]
    ours = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    theirs = java.run(DUMP, arguments)  # afterwards: it may cut an index that it opens
    assert ours.stdout == theirs.out
    told = [line for line in theirs.err.splitlines() if not line.startswith("\t")]
    assert ours.stderr.splitlines() == told
    assert ours.returncode == theirs.status
    return ours.stdout


def listed(files: list[Path]) -> str:
    assert files
    return ",".join(map(str, files))


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--deep-iteration"],
        ["--print-data-log"],
        ["--print-data-log", "--skip-record-metadata"],
        ["--max-bytes", 3000, "--deep-iteration"],
        ["--value-decoder-class"],
    ],
    ids=lambda options: " ".join(map(str, options)) or "shallow",
)
def test_segments(java: JavaTools, segments: Path, options: list[object]) -> None:
    said = same(java, *options, "--files", listed(sorted(segments.glob("*.log"))))
    assert "isvalid: true" in said


@pytest.mark.parametrize("option", ["--verify-index-only", "--index-sanity-check", "--deep-iteration"])
def test_indexes(java: JavaTools, segments: Path, option: str) -> None:
    same(java, option, "--files", listed([*sorted(segments.glob("*.index")), *sorted(segments.glob("*.timeindex"))]))


def test_producers(java: JavaTools, segments: Path) -> None:
    assert "producerId: 77" in same(java, "--files", listed(sorted(segments.glob("*.snapshot"))))


def test_damaged_files(java: JavaTools, segments: Path, tmp_path: Path) -> None:
    """A torn end, a wrong checksum, an index that lies, a gap between offsets."""
    folder = shutil.copytree(segments, tmp_path / "t-0")
    logs = sorted(folder.glob("*.log"))
    torn = logs[0].read_bytes()
    logs[0].write_bytes(torn[:-7])
    damaged = bytearray(logs[1].read_bytes())
    damaged[17 + 40] ^= 1
    logs[1].write_bytes(damaged)
    logs[2].write_bytes(logs[2].read_bytes() + logs[3].read_bytes())
    same(java, "--files", listed(logs))
    same(java, "--deep-iteration", "--files", logs[2])
    for name in ("index", "timeindex"):
        index = sorted(folder.glob(f"*.{name}"))[2]
        data = bytearray(index.read_bytes())
        data[3 if name == "index" else 11] ^= 1
        index.write_bytes(data)
        same(java, "--files", index)
        index.write_bytes(data + b"\1")
        same(java, "--index-sanity-check", "--files", index)


def test_a_metadata_log(java: JavaTools, node: Path) -> None:
    logs = sorted(node.rglob("__cluster_metadata-0/*.log"))
    said = same(java, "--cluster-metadata-decoder", "--files", listed(logs))
    assert '"type":"PARTITION_RECORD"' in said
    assert "LeaderChange: {" in said


def test_snapshots_of_metadata(java: JavaTools, node: Path) -> None:
    for snapshot in sorted(node.rglob("*.checkpoint")):
        same(java, "--cluster-metadata-decoder", "--files", snapshot)


def test_offsets_of_groups(java: JavaTools, node: Path) -> None:
    said = same(java, "--offsets-decoder", "--files", listed(sorted(node.rglob("__consumer_offsets-0/*.log"))))
    assert '"type":"1"' in said
    assert '"type":"2"' in said


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--version"],
        ["--deep-iteration"],
        ["--files"],
        ["--files", "/not/there/00000000000000000000.log"],
        ["--files", "/not/there/x.txt"],
        ["--files", "/not/there/nothing"],
        ["--files", "x.log", "--max-bytes", "many"],
        ["--files", "x.log"],
        ["--files", "x.checkpoint"],
        ["--files", "x.index"],
        ["--no-such-option"],
    ],
    ids=lambda arguments: " ".join(arguments) or "nothing",
)
def test_what_is_refused(java: JavaTools, arguments: list[object]) -> None:
    same(java, *arguments)


def test_odd_files(java: JavaTools, segments: Path, tmp_path: Path) -> None:
    """Zeros that a crash has left, folders, names and numbers that cannot be, files of something else."""
    log = sorted(segments.glob("*.log"))[1]
    data = log.read_bytes()
    wrong_codec = bytearray(data)
    wrong_codec[22] |= 7
    aborted = struct.pack(">hqqqq", 7, 77, 45, 50, 45)
    files = {
        "zeros.log": bytes(200), "text.log": b"this is text, and it is long enough to be taken for a batch " * 3,
        "trailing.log": data + bytes(37), "codec.log": bytes(wrong_codec), "cut.log": data[:100], "empty.log": b"",
        "empty.index": b"", "empty.timeindex": b"", "empty.snapshot": b"", "empty.txnindex": b"",
        "cut.snapshot": sorted(segments.glob("*.snapshot"))[0].read_bytes()[:30], "text.snapshot": b"text",
        "newer.txnindex": aborted, "torn.txnindex": aborted + b"abc",
    }  # fmt: skip
    made = []
    for number, (name, content) in enumerate(files.items()):
        made.append(tmp_path / f"{number:020d}.{name.partition('.')[2]}")
        made[-1].write_bytes(content)
    for suffix in ("log", "index", "timeindex", "snapshot", "txnindex"):
        made.append(tmp_path / f"{99:020d}.{suffix}")
        made[-1].mkdir()
    for name in ("+45.log", "99999999999999999999.log", "name.log", "00000000000000000045", "bootstrap.checkpoint"):
        made.append(tmp_path / name)
        made[-1].write_bytes(data)
    for file in made:
        same(java, "--files", file)
    for file in made[:5]:
        same(java, "--cluster-metadata-decoder", "--skip-record-metadata", "--files", file)
    for names in (f",{log}", f"{log},", "", ","):
        same(java, "--files", names)
    for options in (["--max-bytes", -1], ["--max-bytes", 0], ["--value-decoder-class", "nosuch"]):
        same(java, "--files", log, *options)
