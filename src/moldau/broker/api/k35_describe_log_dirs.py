"""DescribeLogDirs, 1-4: this broker's directories, the size of each partition in them and of copies on
their way there, free space (KIP-113, KIP-827)."""

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
        futures = {partition: future.log for partition, future in dirs.futures.logs.items()}
        here = [
            (partition, log, log is futures.get(partition))
            for partition, log in (*dirs.logs.items(), *futures.items())
            if log.dir is dir
        ]
        found = [
            (partition.topic, partition.partition, log, _lag(dirs, partition, log, is_future), is_future)
            for partition, log, is_future in here
            if wanted is None or partition in wanted
        ]
        used = sum(log.size for _, log, _ in here)
        answer.results.append(
            Answer.DescribeLogDirsResult(
                log_dir=dir.path, topics=_topics(found), total_bytes=used + free[dir.path], usable_bytes=free[dir.path]
            )
        )
    return answer


def _lag(dirs: Any, partition: Any, log: Any, is_future: bool) -> int:
    """How far it is behind: a copy behind its log, a log that lost its tail behind the high watermark."""
    ahead = dirs.logs[partition].log_end_offset if is_future else log.high_watermark
    return max(int(ahead - log.log_end_offset), 0)


def _topics(found: list[tuple[str, int, Any, int, bool]]) -> list[Answer.DescribeLogDirsTopic]:
    return [
        Answer.DescribeLogDirsTopic(
            name=topic,
            partitions=[
                Answer.DescribeLogDirsPartition(
                    partition_index=number,
                    partition_size=log.size,
                    offset_lag=lag,
                    is_future_key=is_future,
                )
                for number, log, lag, is_future in logs
            ],
        )
        for topic, logs in by_topic(sorted(found, key=lambda one: one[:2])).items()
    ]
