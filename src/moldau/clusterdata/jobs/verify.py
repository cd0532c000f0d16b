"""The replicas of each partition compared, out of the log directories of all brokers.

Who should have a replica, the metadata log tells, where one lies in the same folders; without one, a replica that is
not there is not missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.metadata import TOPIC
from moldau.clusterdata.replica_check.assigned import assigned
from moldau.clusterdata.replica_check.comparing import ReplicaFinding, ReplicaVerdict
from moldau.clusterdata.replica_check.folders import ReadPace, ReplicaFolder, directories, replicas_in
from moldau.clusterdata.replica_check.folders import verify as compared
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple

COLUMNS = (
    Column("topic", "string", "The topic."),
    Column("partition", "int", "The number of the partition."),
    Column("broker", "int", "The broker of the replica."),
    Column("verdict", "string", "OK, LAGGING, MISSING or DIVERGED; UNREACHABLE when its files cannot be read."),
    Column("offset", "bigint", "Where it diverged, or ends."),
    Column("detail", "string", "What differs, or was not compared."),
    Column("compared_to", "bigint", "The offset before which was compared: the high watermark, where it is known."),
    Column("bytes", "bigint", "How many bytes were read to compare the partition's replicas."),
)


class ReplicasToVerify(NamedTuple):
    """The replicas of a partition that are there, and the brokers that should have one and have not."""

    partition: TopicPartition
    replicas: tuple[ReplicaFolder, ...]
    missing: tuple[int, ...]


def plan(options: JobOptions) -> Sequence[ReplicasToVerify]:
    """A task for each partition. FileNotFoundError or BrokenFile names a directory that is none."""
    found = replicas_in(directories(options.paths))
    wanted = assigned(options.paths)
    return [
        ReplicasToVerify(partition, replicas, missing)
        for partition in sorted({*found, *wanted})
        if partition.topic != TOPIC and (not options.topics or partition.topic in options.topics)
        for replicas in [tuple(found.get(partition, ()))]
        for missing in [tuple(sorted(set(wanted.get(partition, ())) - {one.broker for one in replicas}))]
    ]


def rows(task: ReplicasToVerify, _: JobOptions) -> Iterator[tuple[object, ...]]:
    """A row of ``COLUMNS`` for each replica of a partition."""
    pace = ReadPace(None)
    try:
        found = compared(task.replicas, pace) if task.replicas else []
    except OSError as error:  # a file that went away, or cannot be read: all that is known is that
        text = f"{error.filename}: {error.strerror}"
        found = [ReplicaFinding(one.broker, ReplicaVerdict.UNREACHABLE, None, text) for one in task.replicas]
    found += [
        ReplicaFinding(broker, ReplicaVerdict.MISSING, None, "assigned, and not in its directories")
        for broker in task.missing
    ]
    for one in found:
        yield *task.partition, one.replica, one.verdict.value, one.offset, one.detail, one.compared_to, pace.total
