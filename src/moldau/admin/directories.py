"""The log directories of a plan: where replicas lie, and having brokers put them elsewhere (KIP-113)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.admin.asking import Talk, note, silent_brokers
from moldau.admin.each_broker import told_directories
from moldau.admin.plans import Directories
from moldau.admin.waiting import Looks
from moldau.client import admin
from moldau.model import Code, TopicPartition

NOT_YET = frozenset({Code.REPLICA_NOT_AVAILABLE, Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION})
"""The broker has no such replica; one that is on its way will be there."""


def place(talk: Talk, wanted: Directories, timeout_s: float) -> int:
    """Have replicas put into directories, those that are on their way as soon as they are there; how many were not."""
    left, refused = dict(wanted), 0
    for _ in Looks(timeout_s):
        if not left:
            break
        left, names = ask_once(talk, left)
        for (partition, broker), name in names.items():
            note(f"moldau: {partition} on broker {broker} is not moved to {wanted[partition, broker]}: {name}")
        refused += len(names)
    for (partition, broker), path in sorted(left.items()):
        note(f"moldau: {partition} on broker {broker} is not there yet; execute again moves it to {path}")
    return refused + len(left)


def ask_once(talk: Talk, wanted: Directories) -> tuple[Directories, dict[tuple[TopicPartition, int], str]]:
    """Ask brokers to put replicas into directories: those that are not there yet, or whose broker is not, and those
    refused, with the error."""
    ids = {broker for _, broker in wanted} & talk.cluster.brokers().keys()
    there = ids - silent_brokers(talk, ids).keys()
    asked = {one: path for one, path in wanted.items() if one[1] in there}
    left: Directories = {one: path for one, path in wanted.items() if one not in asked}
    answers = talk.ask(admin.alter_log_dirs, _by_broker(asked))
    refused: dict[tuple[TopicPartition, int], str] = {}
    for (partition, broker), path in asked.items():
        code = answers.get((broker, partition), Code.UNKNOWN_SERVER_ERROR)
        if code in NOT_YET:
            left[partition, broker] = path
        elif code is not Code.NONE:
            refused[partition, broker] = code.name
    return left, refused


def misplaced(talk: Talk, wanted: Directories) -> dict[TopicPartition, str]:
    """Partitions of which a replica is not in its directory: ``moving`` when it is being copied there, ``unknown`` when
    its broker does not tell, or why."""
    found: dict[TopicPartition, str] = {}
    now, copied, told = _where(talk, {broker for _, broker in wanted})
    for (partition, broker), path in sorted(wanted.items()):
        if broker not in told:
            found.setdefault(partition, "unknown")
        elif copied.get((partition, broker)) == path:
            found.setdefault(partition, "moving")
        elif now.get((partition, broker)) != path:
            found[partition] = "otherwise"
    return found


def _where(talk: Talk, brokers: set[int]) -> tuple[Directories, Directories, Collection[int]]:
    """The directory of each replica of these brokers, the one that it is being copied to, and which brokers told it."""
    described = told_directories(talk, brokers & talk.cluster.brokers().keys())
    now: Directories = {}
    copied: Directories = {}
    for broker, directories in described.items():
        for directory in directories:
            for topic in directory.topics:
                for part in topic.partitions:
                    into = copied if part.is_future_key else now
                    into[TopicPartition(topic.name, part.partition_index), broker] = directory.log_dir
    return now, copied, described.keys()


def _by_broker(wanted: Mapping[tuple[TopicPartition, int], str]) -> dict[int, dict[str, list[tuple[str, int]]]]:
    out: dict[int, dict[str, list[tuple[str, int]]]] = {}
    for (partition, broker), path in sorted(wanted.items()):
        out.setdefault(broker, {}).setdefault(path, []).append((partition.topic, partition.partition))
    return out
