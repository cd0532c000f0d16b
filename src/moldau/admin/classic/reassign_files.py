"""The JSON files of kafka-reassign-partitions.sh: what is to be moved where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_json import Json, compact, parse
from moldau.admin.classic.java_json_errors import TOO_MUCH, why_no_json
from moldau.admin.classic.java_values import java_split
from moldau.admin.classic.options import java_integer
from moldau.admin.classic.session import ADMIN_FAILED, ADMIN_OPERATION
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple

T = TypeVar("T")

ANY = "any"


class ListedReplica(NamedTuple):
    """A replica of a partition; sorted as Kafka's tool sorts them: by broker first."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"

    @property
    def of(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Moves(NamedTuple):
    """What a file asks for: replicas of partitions, as listed, and log directories of replicas."""

    partitions: list[tuple[TopicPartition, list[int]]]
    directories: dict[ListedReplica, str]


def moves_in(text: str, *, old: bool = False) -> Moves:
    """What a reassignment file asks for; JavaError when it is none, in 2.8.2's words when ``old``."""
    found = parse(text)
    if found is None:
        cause = why_no_json(text, old=old)
        if cause.kind == TOO_MUCH:
            raise cause
        raise JavaError(ADMIN_OPERATION, cause.said, cause)
    _check_version(found)
    moves = Moves([], {})
    listed = found.get("partitions")
    for one in [] if listed is None else listed.items():
        topic, number = one.field("topic").text(), one.field("partition").integer()
        partition = TopicPartition(topic, number)
        replicas = [replica.integer() for replica in one.field("replicas").items()]
        given = one.get("log_dirs")
        directories = [ANY] * len(replicas) if given is None else [path.text() for path in given.items()]
        if len(directories) != len(replicas):
            shown = ", ".join(map(str, replicas)), ", ".join(directories)
            sizes = [f"List({one})" if old else f"[{one}]" for one in shown]
            text = f"Size of replicas list {sizes[0]} is different from size of log dirs list {sizes[1]}"
            raise JavaError(ADMIN_FAILED, f"{text} for partition {partition}")
        moves.partitions.append((partition, replicas))
        for replica, path in zip(replicas, directories, strict=True):
            if path != ANY:
                moves.directories[ListedReplica(replica, topic, number)] = path
    return moves


def executable(moves: Moves) -> dict[TopicPartition, list[int]]:
    """Replicas by partition; JavaError when something in them cannot be."""
    if not moves.partitions:
        raise JavaError(ADMIN_FAILED, "Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in moves.partitions):
        raise JavaError(ADMIN_FAILED, "Partition replica list cannot be empty")
    twice = duplicates([partition for partition, _ in moves.partitions])
    if twice:
        shown = ",".join(map(str, twice))
        raise JavaError(ADMIN_FAILED, f"Partition reassignment contains duplicate topic partitions: {shown}")
    wrong = [(p, duplicates(replicas)) for p, replicas in moves.partitions if duplicates(replicas)]
    if wrong:
        shown = ". ".join(f"{p} contains multiple entries for {','.join(map(str, ids))}" for p, ids in wrong)
        raise JavaError(ADMIN_FAILED, f"Partition replica lists may not contain duplicate entries: {shown}")
    return dict(moves.partitions)


def topics_in(text: str, shown: str = "[{}]") -> list[str]:
    """The topics that a file of topics to move names; ``shown``: how those are listed that it names twice."""
    found = parse(text)
    if found is None:
        raise JavaError(ADMIN_OPERATION, "The input string is not a valid JSON")
    _check_version(found)
    listed = found.get("topics")
    names = [] if listed is None else [one.field("topic").text() for one in listed.items()]
    if twice := duplicates(names):
        text = f"List of topics to reassign contains duplicate entries: {_listed(twice, shown)}"
        raise JavaError(ADMIN_FAILED, text)
    return names


def brokers_in(text: str, shown: str = "[{}]") -> list[int]:
    """The ids of --broker-list; ``shown``: how those are listed that it names twice."""
    try:
        ids = [java_integer(word) for word in java_split(text, ",")]
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None
    if twice := duplicates(ids):
        raise JavaError(ADMIN_FAILED, f"Broker list contains duplicate entries: {_listed(twice, shown)}")
    return ids


def _listed(values: Sequence[object], shown: str) -> str:
    return shown.format((", " if "[" in shown else ",").join(map(str, values)))


def duplicates(values: Sequence[T]) -> list[T]:
    """What is there more than once, each once."""
    return [value for value, count in Counter(values).items() if count > 1]


def text_of(
    assignment: Mapping[TopicPartition, Sequence[int]], directories: Mapping[ListedReplica, str | None] | None = None
) -> str:
    """An assignment as a file that the tool reads, in one line; ``directories``: where the replicas are."""
    known = directories or {}
    partitions = [
        {
            "topic": p.topic,
            "partition": p.partition,
            "replicas": list(ids),
            "log_dirs": [known.get(ListedReplica(id, *p)) or ANY for id in ids],
        }
        for p, ids in sorted(assignment.items())
    ]
    return compact({"version": 1, "partitions": partitions})


def _check_version(found: Json) -> None:
    version = found.get("version")
    number = 1 if version is None else version.integer()
    if number != 1:
        raise JavaError(ADMIN_OPERATION, f"Not supported version field value {number}")
