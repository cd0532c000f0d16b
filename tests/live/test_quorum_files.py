"""What the quorum writes, read by Apache Kafka's own tool: the metadata log and a snapshot."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kafka_peer import java_tool
from tests.packages.broker.quorum_members import LoopbackQuorum

pytestmark = pytest.mark.live


async def written(folder: Path) -> None:
    quorum = LoopbackQuorum(folder, (1,), metadata_log_max_record_bytes_between_snapshots=2000)
    await quorum.start(1)
    for number in range(60):
        await quorum.write(f"topic-{number}")
    snapshots = folder / "1/__cluster_metadata-0"
    await quorum.until(lambda: list(snapshots.glob("*.checkpoint")), "a snapshot")
    await quorum.stop()


def test_kafkas_dump_tool_reads_the_metadata_log_and_its_snapshots(tmp_path: Path) -> None:
    asyncio.run(written(tmp_path))
    folder = tmp_path / "1/__cluster_metadata-0"
    newest = max(folder.glob("*.checkpoint"))
    last = max(folder.glob("*.log"))
    snapshot = java_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", newest).stdout
    assert "SnapshotHeader" in snapshot
    assert "SnapshotFooter" in snapshot
    assert '"name":"topic-0"' in snapshot
    log = java_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", last).stdout
    assert '"type":"TOPIC_RECORD"' in log
    assert '"name":"topic-59"' in log
    assert "INVALID" not in log + snapshot
