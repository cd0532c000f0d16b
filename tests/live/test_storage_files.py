"""Files on disk, shared with Apache Kafka: its own DumpLogSegments reads what Moldau wrote, Moldau reads what Kafka
wrote.

Read next: tests/packages/storage for everything that needs no JVM.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka_peer import KafkaPeer, java_tool

from moldau.model import TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage import LogConfig, LogDirs
from moldau.storage.names import RECOVERY_POINTS
from moldau.storage.raw_records import raw_records
from moldau.storage.reader import batches, epochs_of, topic_id_of
from moldau.wire.batch import Record, build, payload, records
from moldau.wire.compression import Codec

T = TopicPartition("t", 0)
NOW = 1_700_000_000_000


def dump(*arguments: object) -> str:
    run = java_tool("kafka-dump-log", *arguments)
    assert "Exception" not in run.stdout + run.stderr, run.stdout + run.stderr
    return run.stdout


def write_log(folder: Path, config: LogConfig) -> None:
    """Several segments with every codec, producers, epochs, tombstones."""
    dirs = LogDirs(RealDisk(), [str(folder)])
    dirs.load(lambda _: config)
    log = dirs.create(T, bytes(range(16)), config)
    for number in range(40):
        entries = [(NOW + number * 1000 + i, b"key-%d" % (i * number % 7), b"v" * 200 if i else None, [("h", b"x")])
                   for i in range(5)]  # fmt: skip
        batch = build(
            entries, codec=list(Codec)[number % 5], producer_id=77, producer_epoch=1, base_sequence=number * 5
        )
        assert log.append_leader(bytearray(batch), number // 10, NOW).code == 0
    log.high_watermark = log.log_end_offset
    log.flush()
    dirs.checkpoint()
    if config.compact:
        assert dirs.compaction_pass(NOW) > 0
    dirs.close()


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_kafkas_own_tool_finds_nothing_wrong_with_our_files(tmp_path: Path, policy: str) -> None:
    config = LogConfig(cleanup_policy=(policy,), internal_segment_bytes=8000, index_interval_bytes=500,
                       min_cleanable_dirty_ratio=0.0)  # fmt: skip
    write_log(tmp_path, config)
    folder = tmp_path / "t-0"
    logs = sorted(folder.glob("*.log"))
    assert len(logs) > 1
    text = dump("--deep-iteration", "--print-data-log", "--files", ",".join(map(str, logs)))
    ours = [record for batch in batches(RealDisk(), str(folder)) for record in read(batch.data)]
    theirs = re.findall(r"^\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+)", text, re.MULTILINE)
    assert [tuple(map(int, line)) for line in theirs] == [
        (r.offset, r.timestamp, len(r.key or b""), -1 if r.value is None else len(r.value)) for r in ours
    ]
    assert set(re.findall(r"isvalid: (\w+)", text)) == {"true"}
    assert "partitionLeaderEpoch: 3" in text
    indexes = sorted(folder.glob("*.index")) + sorted(folder.glob("*.timeindex"))
    text = dump("--index-sanity-check", "--files", ",".join(map(str, indexes)))
    assert text.count("passed sanity check") + text.count("is empty") == len(indexes)
    text = dump("--verify-index-only", "--files", ",".join(map(str, indexes)))
    assert "ismatch" not in text
    assert "out of order" not in text
    snapshot = max(folder.glob("*.snapshot"))
    text = dump("--files", snapshot)
    assert "producerId: 77 producerEpoch: 1" in text
    assert "lastSequence: 199" in text


def read(data: bytes) -> list[Record]:
    header, body = payload(data)
    assert len(list(raw_records(body, header.count))) == header.count
    return list(records(data))


@pytest.mark.slow
def test_a_log_changes_hands_between_kafka_and_moldau(tmp_path: Path) -> None:
    """Kafka writes, stops; Moldau reads every byte of it, appends; Kafka starts on it and serves both halves."""
    with KafkaPeer(nodes=1, folder=tmp_path, properties={"log.segment.bytes": 1_048_576}) as peer:
        servers = peer.bootstrap_servers
        java_tool("kafka-topics", "--bootstrap-server", servers, "--create", "--topic", "t", "--partitions", 1)
        lines = "".join(f"line {number}\n" for number in range(2000))
        java_tool("kafka-console-producer", "--bootstrap-server", servers, "--topic", "t", stdin=lines)
        peer.stop_node(1)
        data = peer.data_dir(1)
        folder = data / "t-0"
        stored = list(batches(RealDisk(), str(folder)))
        assert all(batch.sound for batch in stored)
        values = [record.value for batch in stored for record in records(batch.data)]
        assert values == [b"line %d" % number for number in range(2000)]
        topic_id = topic_id_of(RealDisk(), str(folder))
        assert topic_id is not None
        assert epochs_of(RealDisk(), str(folder)) == [(0, 0)]
        dirs = LogDirs(RealDisk(), [str(data)])
        dirs.load(lambda _: LogConfig())
        assert dirs.findings == []
        assert dirs.previous_broker_epoch >= 0
        log = dirs.logs[T]
        assert (log.log_end_offset, log.recovery_point, log.topic_id) == (2000, 2000, topic_id)
        assert len(log.producers) == 1
        more = [(NOW, None, b"moldau %d" % number, ()) for number in range(10)]
        assert log.append_leader(bytearray(build(more)), 1, NOW).first_offset == 2000
        log.high_watermark = log.log_end_offset
        dirs.close(dirs.previous_broker_epoch)
        assert f"t 0 {2010}" in (data / RECOVERY_POINTS).read_text()
        peer.restart(1)
        run = java_tool("kafka-console-consumer", "--bootstrap-server", peer.bootstrap_servers, "--topic", "t",
                        "--from-beginning", "--max-messages", 2010, "--timeout-ms", 120_000)  # fmt: skip
        assert run.stdout.splitlines()[-1] == "moldau 9"
        assert len(run.stdout.splitlines()) == 2010
        assert "Recovering unflushed segment" not in peer.log_file(1).read_text()
