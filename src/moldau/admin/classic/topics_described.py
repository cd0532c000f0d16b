"""What kafka-topics.sh --describe prints of topics and their partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_order import hash_order, map_order, string_hash
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.options import GivenOptions
from moldau.admin.classic.session import ToolSession, checked
from moldau.admin.classic.topics_named import REPORTS, existing
from moldau.admin.classic.uuids import java_uuid
from moldau.client import admin
from moldau.client.admin import ConfigEntry, Reassignment, Resource, ResourceType
from moldau.client.described import DescribedPartition, DescribedTopic, describe_by_metadata, describe_topics
from moldau.model import NO_UUID, Code, TopicPartition
from moldau.model.ids import uuid_text

DEFAULT = 5
"""The source of a value that nobody has set."""


def answered_order(names: Collection[str]) -> list[str]:
    """Sorted names in the order in which Java's client gives what it was told of them: of a table for so many, of its
    copy, which may be twice as large, and of a table for so many again."""
    size = len(names)
    return hash_order(map_order(hash_order(names, string_hash, size), string_hash), string_hash, size)


def describe(session: ToolSession, given: GivenOptions) -> None:
    """Print what there is to say of the topics that were asked for."""
    limit = given.integer("partition-size-limit-per-response") or 2000
    text = given.value("topic-id")
    id = NO_UUID if text is None else java_uuid(text)
    if id == NO_UUID:
        names = existing(session, given)
        found = session.ask("describeTopicPartitions", describe_topics, names, partitions_per_response=limit)
    else:
        found = session.ask("describeTopics", describe_by_metadata, _with_id(session, given, id))
    for topic in found.values():
        if topic.code is not Code.NONE:
            raise kafka_error(topic.code)
    order = answered_order(found)
    resources = [Resource(ResourceType.TOPIC, name) for name in order]
    configs = session.ask("describeConfigs", admin.describe_configs, resources) if resources else {}
    session.know("describeCluster", [])
    alive = set(session.cluster.client.view.brokers)
    partitions = [TopicPartition(name, p.number) for name in order for p in found[name].partitions]
    moving = _moving(session, partitions) if partitions else {}
    for name in order:
        outcome, entries = configs[Resource(ResourceType.TOPIC, name)]
        checked(outcome)
        moves = {p.partition: move for p, move in moving.items() if p.topic == name}
        _print_topic(given, _Shown(found[name], entries, moves, alive))


def _with_id(session: ToolSession, given: GivenOptions, id: bytes) -> list[str]:
    session.know("listTopics", None)
    topics = session.cluster.client.view.topics.values()
    hide = given.has("exclude-internal")
    names = [topic.name for topic in topics if topic.topic_id == id and not (hide and topic.internal)]
    if not names and not given.has("if-exists"):
        raise illegal_argument(f"TopicId '{uuid_text(id)}' does not exist as expected")
    return names


def _moving(session: ToolSession, partitions: list[TopicPartition]) -> dict[TopicPartition, Reassignment]:
    try:
        outcome, moving = session.ask("listPartitionReassignments", admin.reassignments, partitions)
    except JavaError as error:
        if error.kind.endswith(".UnsupportedVersionException"):
            return {}
        raise JavaError("java.lang.RuntimeException", f"java.util.concurrent.ExecutionException: {error}") from None
    if outcome.code is Code.CLUSTER_AUTHORIZATION_FAILED:
        return {}
    checked(outcome)
    return moving


class _Shown(NamedTuple):
    topic: DescribedTopic
    configs: Mapping[str, ConfigEntry]
    moves: Mapping[int, Reassignment]
    alive: set[int]

    def factor(self, part: DescribedPartition) -> int:
        """How many replicas the partition is to have: those that a move adds do not count."""
        move = self.moves.get(part.number)
        if move is None or not set(part.replicas) & {*move.adding, *move.removing}:
            return len(part.replicas)
        return len(move.replicas) - len(move.adding)

    @property
    def min_isr(self) -> int:
        return int(self.configs["min.insync.replicas"].value or 1)


def _print_topic(given: GivenOptions, shown: _Shown) -> None:
    reports = [name for name in REPORTS if given.has(name)]
    overrides = given.has("topics-with-overrides")
    order = hash_order(shown.configs, string_hash, len(shown.configs))
    own = [shown.configs[name] for name in order if shown.configs[name].source != DEFAULT]
    parts = sorted(shown.topic.partitions, key=lambda part: part.number)
    if not reports and (own or not overrides):
        words = [f"Topic: {shown.topic.name}"]
        if shown.topic.topic_id != NO_UUID:
            words.append(f"TopicId: {uuid_text(shown.topic.topic_id)}")
        words += [f"PartitionCount: {len(parts)}", f"ReplicationFactor: {shown.factor(parts[0])}"]
        words.append("Configs: " + ",".join(f"{entry.name}={_value(entry)}" for entry in own))
        print("\t".join(words))
    if not overrides:
        for part in parts:
            if not reports or any(_is_reported(report, part, shown) for report in reports):
                print(_line(part, shown))


def _value(entry: ConfigEntry) -> str:
    return "null" if entry.value is None else entry.value


def _is_reported(report: str, part: DescribedPartition, shown: _Shown) -> bool:
    led = part.leader in shown.alive
    if report == "under-replicated-partitions":
        return shown.factor(part) > len(part.isr)
    if report == "under-min-isr-partitions":
        return not led or len(part.isr) < shown.min_isr
    if report == "at-min-isr-partitions":
        return len(part.isr) == shown.min_isr
    return not led


def _line(part: DescribedPartition, shown: _Shown) -> str:
    words = [
        f"\tTopic: {shown.topic.name}",
        f"Partition: {part.number}",
        f"Leader: {part.leader if part.leader in shown.alive else 'none'}",
        f"Replicas: {_ids(part.replicas)}",
        f"Isr: {_ids(part.isr)}",
    ]
    move = shown.moves.get(part.number)
    if move is not None:
        words += [f"Adding Replicas: {_ids(move.adding)}", f"Removing Replicas: {_ids(move.removing)}"]
    words += [f"Elr: {_known(part.eligible)}", f"LastKnownElr: {_known(part.last_known)}"]
    return "\t".join(words)


def _ids(ids: list[int]) -> str:
    return ",".join(map(str, ids))


def _known(ids: list[int] | None) -> str:
    return "N/A" if ids is None else _ids(ids)
