"""DescribeLogDirs, 1-4: this broker's directories, the size of each partition in them, free space (KIP-113,
KIP-827)."""

from __future__ import annotations

from typing import Any

from moldau.broker.api.forwarding import by_topic
from moldau.terms import Code
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

Answer = DescribeLogDirsResponse


def handle(node: Any, request: DescribeLogDirsRequest, context: Any) -> Answer:
    """Answer from the logs that are open here."""
    wanted = None if request.topics is None else {(t.topic, p) for t in request.topics for p in t.partitions}
    dirs = node.data.log_dirs
    free = dirs.free_bytes()
    answer = Answer()
    for dir in dirs.dirs:
        if dir.offline is not None:
            answer.results.append(Answer.DescribeLogDirsResult(error_code=Code.KAFKA_STORAGE_ERROR, log_dir=dir.path))
            continue
        found = [
            (partition.topic, partition.partition, log)
            for partition, log in dirs.logs.items()
            if log.dir is dir and (wanted is None or partition in wanted)
        ]
        used = sum(log.size for log in dirs.logs.values() if log.dir is dir)
        answer.results.append(
            Answer.DescribeLogDirsResult(
                log_dir=dir.path, topics=_topics(found), total_bytes=used + free[dir.path], usable_bytes=free[dir.path]
            )
        )
    return answer


def _topics(found: list[tuple[str, int, Any]]) -> list[Answer.DescribeLogDirsTopic]:
    return [
        Answer.DescribeLogDirsTopic(
            name=topic,
            partitions=[
                Answer.DescribeLogDirsPartition(
                    partition_index=number,
                    partition_size=log.size,
                    offset_lag=max(log.high_watermark - log.log_end_offset, 0),
                )
                for number, log in logs
            ],
        )
        for topic, logs in by_topic(sorted(found, key=lambda one: one[:2])).items()
    ]
