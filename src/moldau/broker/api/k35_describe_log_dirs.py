"""DescribeLogDirs, 1-4: this broker's directories, the size of each partition in them and of copies on
their way there, free space (KIP-113, KIP-827)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator

from moldau.broker.loop import at_once_or_in_slices, by_topic_in_slices, each_in_slices
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.model import Code, TopicPartition
from moldau.storage import Log, LogDir, LogDirs
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

log = logging.getLogger(__name__)

Answer = DescribeLogDirsResponse
Part = Answer.DescribeLogDirsPartition


def handle(
    node: BrokerServices,
    request: DescribeLogDirsRequest,
    context: Context,
) -> Answer | Awaitable[Answer]:
    """Answer from the logs that are open here, some in each turn of the loop."""
    return at_once_or_in_slices(node.world.tasks, _describe(node, request), read_kind=DescribeLogDirsRequest.api_key)


def _describe(
    node: BrokerServices,
    request: DescribeLogDirsRequest,
) -> Generator[None, None, Answer]:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        named = ((topic.topic, number) for topic in request.topics for number in topic.partitions)
        wanted = set()
        yield from each_in_slices(node, named, wanted.add)
    answer = Answer()
    for dir in node.log_dirs.dirs:
        told = None if dir.offline is not None else (yield from _directory(node, dir, wanted))
        if told is None:
            told = Answer.DescribeLogDirsResult(error_code=Code.KAFKA_STORAGE_ERROR, log_dir=dir.path)
        answer.results.append(told)
    return answer


def _directory(
    node: BrokerServices,
    dir: LogDir,
    wanted: set[tuple[str, int]] | None,
) -> Generator[None, None, Answer.DescribeLogDirsResult | None]:
    """What is said of a directory; None when its disk does not tell its size: it has just failed, or is gone."""
    dirs = node.log_dirs
    try:
        total_bytes, usable_bytes = dirs.disk.total_bytes(dir.path), dirs.disk.free_bytes(dir.path)
    except OSError as error:
        log.warning("the disk of %s does not tell its size: %s", dir.path, error)
        return None
    futures = {partition: future.log for partition, future in dirs.futures.logs.items()}
    here = tuple((*one, False) for one in dirs.logs.items() if one[1] is not futures.get(one[0]))
    copies = tuple((*one, True) for one in futures.items())

    def describe(one: tuple[TopicPartition, Log, bool]) -> tuple[int, tuple[str, int, Part] | None]:
        partition, log, is_future = one
        if log.dir is not dir or (is_future and partition not in dirs.logs):
            return 0, None
        size = log.size
        if wanted is not None and partition not in wanted:
            return size, None
        lag = _lag(dirs, partition, log, is_future)
        part = Part(partition_index=partition.partition, partition_size=size, offset_lag=lag, is_future_key=is_future)
        return size, (partition.topic, partition.partition, part)

    described = yield from each_in_slices(node, (*here, *copies), describe)
    found = sorted((one for _, one in described if one is not None), key=lambda one: one[:2])
    topics = yield from by_topic_in_slices(node, found, lambda number, part: part)
    return Answer.DescribeLogDirsResult(
        log_dir=dir.path,
        topics=[Answer.DescribeLogDirsTopic(name=name, partitions=parts) for name, parts in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _lag(dirs: LogDirs, partition: TopicPartition, log: Log, is_future: bool) -> int:
    """How far it is behind: a copy behind its log, a log that lost its tail behind the high watermark."""
    ahead = dirs.logs[partition].log_end_offset if is_future else log.high_watermark
    return max(int(ahead - log.log_end_offset), 0)
