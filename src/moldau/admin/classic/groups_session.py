"""What kafka-consumer-groups.sh asks a cluster: groups, their offsets, partitions and the ends of their logs."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from moldau.admin.classic.java import ILLEGAL_ARGUMENT, JavaError, illegal_argument
from moldau.admin.classic.java_order import hash_order, partition_hash, string_hash
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.admin.classic.options import GivenOptions
from moldau.admin.classic.session import ToolSession, call_timed_out, executed, no_groups, read_config
from moldau.client import described, groups, reading
from moldau.client.consumer_groups import ConsumerGroup, describe_consumer_groups
from moldau.client.groups import Committed, Listed
from moldau.client.membership import PROTOCOL_TYPE
from moldau.model import Code, TopicPartition
from moldau.model.ids import is_topic_name

T = TypeVar("T")


class GroupSession(ToolSession):
    """A session whose calls have the time of ``--timeout``."""

    def __init__(self, given: GivenOptions) -> None:
        self.given = given
        try:
            config = read_config(given.value("command-config"))
        except JavaError as error:
            raise (error if error.kind == ILLEGAL_ARGUMENT else wrapped(error)) from None
        timeout_ms = given.integer("timeout", 64)
        for name in ("to-offset", "shift-by"):
            given.integers(name, 64)
        super().__init__(config, given.text("bootstrap-server"), timeout_ms=timeout_ms)

    # -- groups

    def chosen_groups(self) -> list[str]:
        """The groups that the command is about."""
        return self.all_groups() if self.given.has("all-groups") else self.given.values("group")

    def all_groups(self) -> list[str]:
        """The names of all consumer groups, in the order of Java's map."""
        try:
            return [one.group_id for one in self._listed((), ())]
        except JavaError as error:
            raise wrapped(error) from None

    def list_groups(self, types: Collection[str], states: Collection[str]) -> list[Listed]:
        """The consumer groups of these types and in these states; of any, where none is named."""
        return self._listed(types, states)

    def _listed(self, types: Collection[str], states: Collection[str]) -> list[Listed]:
        try:
            found = self.ask("findAllBrokers", groups.list_groups, states=states, types=types)
        except JavaError as error:
            raise executed(no_groups(error)) from None
        listed = {one.group_id: one for one in found if one.protocol_type in ("", PROTOCOL_TYPE)}
        return [listed[name] for name in hash_order(listed, string_hash)]

    def described(self, names: Sequence[str]) -> dict[str, ConsumerGroup]:
        """The groups, in the order of Java's map; an answer may be a refusal."""
        order = hash_order(names, string_hash)
        try:
            return self.ask("describeConsumerGroups(api=FIND_COORDINATOR)", describe_consumer_groups, order)
        except JavaError as error:
            raise executed(error) from None

    def committed(self, group: str) -> dict[TopicPartition, Committed]:
        """What a group committed, in the order of Java's map."""
        call = "listConsumerGroupOffsets(api=FIND_COORDINATOR)"
        try:
            code, found = self.ask(call, groups.committed, group)
            refused = [code, *(one.code for one in found.values())]
            for one in refused:
                if one is not Code.NONE:
                    raise kafka_error(one)
        except JavaError as error:
            raise wrapped(executed(error)) from None
        return {p: found[p] for p in hash_order(found, partition_hash)}

    # -- partitions

    def partitions(self, topics: Collection[str], call: str = "describeTopics") -> list[TopicPartition]:
        """The partitions of topics; the JavaError of the first topic that there is not."""
        view = self.cluster.client.view
        troubles = self.ask(call, lambda client: client.know(topics)) if topics else {}
        for topic in hash_order(topics, string_hash):
            if not topic:
                why = "The given topic name '' cannot be represented in a request."
                raise JavaError(f"{PACKAGE}InvalidTopicException", why)
            if topic not in view.topics:
                code = troubles.get(topic, Code.UNKNOWN_TOPIC_OR_PARTITION)
                if code is Code.INVALID_TOPIC_EXCEPTION:  # is said to old brokers' clients only
                    code = self.ask(call, described.describe_topics, [topic])[topic].code
                raise kafka_error(code)
        order = hash_order(topics, string_hash, len(topics))
        return [TopicPartition(topic, number) for topic in order for number in sorted(view.topics[topic].partitions)]

    def without_leader(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """The partitions that have no leader now."""
        view = self.cluster.client.view
        try:
            existing = self.partitions({p.topic for p in partitions})
        except JavaError as error:
            raise wrapped(executed(error)) from None
        return [p for p in existing if p in set(partitions) and view.leader(p) is None]

    def offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, reading.Offset]:
        """ListOffsets of each partition, at a time or an end; all must be answered."""
        try:
            found = self._offsets(asked)
        except JavaError as error:
            raise wrapped(executed(error)) from None
        return {p: found[p] for p in asked}

    def _offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, reading.Offset]:
        if not asked:
            return {}
        self.know("listOffsets(api=METADATA)", {p.topic for p in asked})
        topics = self.cluster.client.view.topics
        for p in asked:
            if not is_topic_name(p.topic):
                text = f"Failed to fetch metadata for partition {p} due to invalid topic `{p.topic}`"
                raise JavaError(f"{PACKAGE}InvalidTopicException", text)
            if p.topic not in topics:
                why = f"because metadata for topic `{p.topic}` could not be found"
                text = f"Failed to fetch metadata for partition {p} {why}"
                raise JavaError(f"{PACKAGE}UnknownTopicOrPartitionException", text)
        since_ms, lost = int(time.time() * 1000), set(asked) - set(self.partitions({p.topic for p in asked}))
        found = {} if lost else self.ask("listOffsets(api=LIST_OFFSETS)", reading.list_offsets, asked)
        if lost or any(one.code is Code.LEADER_NOT_AVAILABLE for one in found.values()):
            raise call_timed_out("listOffsets(api=METADATA)", since_ms)
        for p in asked:
            if found[p].code is not Code.NONE:
                raise kafka_error(found[p].code)
        return found


def wrapped(error: JavaError) -> JavaError:
    """A failure inside a RuntimeException, as this tool passes most of them on."""
    return JavaError("java.lang.RuntimeException", str(error), error)


def valid_group(group: ConsumerGroup) -> ConsumerGroup:
    """The group itself; the JavaError that Kafka's client makes of one that cannot be described."""
    if not group.outcome.ok:
        raise kafka_error(group.outcome.code, group.outcome.message)
    if group.protocol_type not in ("", PROTOCOL_TYPE):
        raise illegal_argument(f"GroupId {group.group_id} is not a consumer group ({group.protocol_type}).")
    return group
