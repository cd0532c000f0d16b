"""What the cluster agreed on: one big mutable thing with one mutator, ``apply(record)``.

Folds the records of the metadata log, in order, into features, brokers, controllers, topics, configs and the rest,
and keeps look-ups (``index``) as it goes. It never decides: a record that makes no sense here is our bug or a foreign
log, and stops the node (KAFKA-14275: failing to apply must crash, not continue).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moldau.image import quotas
from moldau.image.delta import Delta
from moldau.image.index import PartitionIndex
from moldau.image.partition import NO_LEADER, Key, Partition, from_record, merged
from moldau.image.prepared import MANY, PartitionRun, Prepared, prepared_without_pauses
from moldau.image.registration import Broker, Controller, broker_from, controller_from, dirs_of
from moldau.wire.records import metadata as records
from moldau.wire.schema import Message


class Topic:
    """A topic: name, id, partitions by number. Changed only by the image that is its ``owner``; others copy it."""

    __slots__ = ("id", "name", "owner", "partitions")

    def __init__(self, name: str, id: bytes, owner: object, partitions: dict[int, Partition]) -> None:
        self.name = name
        self.id = id
        self.owner = owner
        self.partitions = partitions

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, {len(self.partitions)} partitions)"


class Image:
    """The folded metadata log. Read any attribute; change nothing but through ``apply``."""

    __slots__ = (
        "_mine",
        "_shared",
        "_transaction",
        "brokers",
        "configs",
        "controllers",
        "features",
        "index",
        "names",
        "next_producer_id",
        "offset",
        "opaque",
        "registered_at",
        "topics",
        "zk_migration_state",
    )  # fmt: skip

    def __init__(self) -> None:
        self.offset = -1
        """Offset of the last record applied that came with one."""
        self.features: dict[str, int] = {}
        self.brokers: dict[int, Broker] = {}
        self.registered_at: dict[int, int] = {}
        """Broker id -> offset of its newest registration record: it is caught up once it has read that far."""
        self.controllers: dict[int, Controller] = {}
        self.topics: dict[bytes, Topic] = {}
        self.names: dict[str, bytes] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.next_producer_id = 0
        self.zk_migration_state = 0
        self.opaque: dict[tuple[object, ...], Any] = {}
        """ACLs, SCRAM credentials, quotas, tokens: records kept whole, by kind and identity, so that none is lost."""
        self.index = PartitionIndex()
        self._mine = object()
        """Marks topics that no other image has a part in."""
        self._shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._transaction: list[Any] | None = None

    def copy(self) -> Image:
        """A twin that may go its own way. Topics are shared until one of the two changes them: who becomes active must
        not stop for a hundred thousand partitions. Settings are never changed in place, and shared as well."""
        twin = Image()
        self._mine = object()
        twin.offset = self.offset
        twin.features = dict(self.features)
        twin.brokers = dict(self.brokers)
        twin.registered_at = dict(self.registered_at)
        twin.controllers = dict(self.controllers)
        twin.topics = dict(self.topics)
        twin.names = dict(self.names)
        twin.configs = dict(self.configs)
        twin.next_producer_id = self.next_producer_id
        twin.zk_migration_state = self.zk_migration_state
        twin.opaque = dict(self.opaque)
        twin.index = self.index.copy()
        twin._shared = self._shared
        twin._transaction = None if self._transaction is None else list(self._transaction)
        return twin

    def with_settings(self, changes: Iterable[Any]) -> Image:
        """A look at this image as it would be after config and feature records. Shares all else: to read, at once."""
        twin = Image()
        for name in Image.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.configs = dict(self.configs)
        twin.features = dict(self.features)
        for record in changes:
            assert isinstance(record, records.ConfigRecord | records.FeatureLevelRecord), f"not a setting: {record!r}"
            twin.apply(record)
        return twin

    def without(self, broker_ids: Iterable[int]) -> Image:
        """A look at this image as if brokers were fenced. Shares all else: to read, at once."""
        twin = Image()
        for name in Image.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.brokers = dict(self.brokers)
        for id in broker_ids:
            if id in twin.brokers:
                twin.brokers[id] = twin.brokers[id]._replace(fenced=True)
        return twin

    # ---- look-ups

    def topic(self, name: str) -> Topic | None:
        id = self.names.get(name)
        return None if id is None else self.topics[id]

    def partition(self, topic_id: bytes, partition: int) -> Partition | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def at(self, key: Key) -> Partition:
        """The partition under a key of the index."""
        return self.topics[key[0]].partitions[key[1]]

    def partitions_on_broker(self, broker_id: int) -> Iterator[Partition]:
        """Partitions with a replica on a broker, in any order."""
        return map(self.at, self.index.assigned.get(broker_id, ()))

    def partitions_led_by(self, broker_id: int) -> Iterator[Partition]:
        """Partitions that a broker leads; NO_LEADER asks for those without a leader."""
        return map(self.at, self.index.led.get(broker_id, ()))

    def leaderless(self) -> Iterator[Partition]:
        return self.partitions_led_by(NO_LEADER)

    def partition_count(self) -> int:
        return sum(len(keys) for keys in self.index.led.values())

    def live_brokers(self) -> list[Broker]:
        """Brokers that are not fenced, by id."""
        return [self.brokers[id] for id in sorted(self.brokers) if not self.brokers[id].fenced]

    def is_active(self, broker_id: int) -> bool:
        """Registered, not fenced, not shutting down: may lead and join ISRs."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    @property
    def in_transaction(self) -> bool:
        """Whether records are held that count only from the end of their metadata transaction on (KIP-868)."""
        return self._transaction is not None

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """Settings of a resource (not to be changed); empty when it has none."""
        return self.configs.get((resource_type, name), {})

    # ---- the mutator

    def apply(self, record: Any, offset: int = -1, delta: Delta | None = None) -> None:
        """Fold one record. ``offset``: its place in the log, where known; ``delta``: note what it changed there.

        Records between Begin- and EndTransactionRecord count from the end on, and never when aborted (KIP-868).
        """
        if offset >= 0:
            assert offset > self.offset or self.offset < 0, f"record {offset} after {self.offset}"
            self.offset = offset
        fold = _FOLDS.get(type(record))
        assert fold is not None, f"a metadata record of type {type(record).__name__} is not known here: {record!r}"
        if self._transaction is not None and fold not in _TRANSACTION_FOLDS:
            self._transaction.append((record, offset))
            return
        fold(self, record, offset, delta)

    def apply_all(self, batch: Iterable[Any], last_offset: int = -1, delta: Delta | None = None) -> None:
        """Fold a run of records of which the last stands at ``last_offset`` (all without offsets when -1)."""
        if not isinstance(batch, Prepared):
            batch = prepared_without_pauses(batch)
        before = last_offset - len(batch) if last_offset >= 0 else -1
        done = 0
        for run in batch.runs:
            self._apply_each(batch[done : run.begin], before + done, delta, numbered=last_offset >= 0)
            done = run.begin
            if self._are_new(run):
                done += len(run.partitions)
                if last_offset >= 0:
                    assert before + run.begin >= self.offset, f"record {before + run.begin + 1} after {self.offset}"
                    self.offset = before + done
                self._add_partitions(run, delta)
        self._apply_each(batch[done:] if done else batch, before + done, delta, numbered=last_offset >= 0)

    def _apply_each(self, batch: Iterable[Message], before: int, delta: Delta | None, *, numbered: bool) -> None:
        for record in batch:
            before += numbered
            self.apply(record, before if numbered else -1, delta)

    def _are_new(self, run: PartitionRun) -> bool:
        """Whether a run is of many partitions of a topic that has none of them."""
        if len(run.partitions) < MANY or self._transaction is not None:
            return False
        topic = self.topics.get(run.topic_id)
        return topic is not None and topic.partitions.keys().isdisjoint(run.partitions)

    def _add_partitions(self, run: PartitionRun, delta: Delta | None) -> None:
        """Fold many new partitions."""
        self._own(self.topics[run.topic_id]).partitions.update(run.partitions)
        for keys in run.alike.values():
            self.index.add(self.at(next(iter(keys))), keys)
            if delta is not None:
                delta.partitions.update(keys)

    def _begin(self, record: records.BeginTransactionRecord, offset: int, delta: Delta | None) -> None:
        assert self._transaction is None, "a metadata transaction inside another"
        self._transaction = []

    def _end(self, record: records.EndTransactionRecord, offset: int, delta: Delta | None) -> None:
        assert self._transaction is not None, "the end of no metadata transaction"
        held, self._transaction = self._transaction, None
        for each, at in held:
            _FOLDS[type(each)](self, each, at, delta)

    def _abort(self, record: records.AbortTransactionRecord, offset: int, delta: Delta | None) -> None:
        assert self._transaction is not None, "the abort of no metadata transaction"
        self._transaction = None

    def _nothing(self, record: records.NoOpRecord, offset: int, delta: Delta | None) -> None:
        """A record that only moves the offset."""

    def _feature(self, record: records.FeatureLevelRecord, offset: int, delta: Delta | None) -> None:
        if delta is not None:
            delta.features.setdefault(record.name, self.features.get(record.name, 0))
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)

    def _register_broker(self, record: records.RegisterBrokerRecord, offset: int, delta: Delta | None) -> None:
        self._touch_broker(record.broker_id, delta)
        self.brokers[record.broker_id] = broker_from(record)
        self.registered_at[record.broker_id] = offset

    def _unregister_broker(self, record: records.UnregisterBrokerRecord, offset: int, delta: Delta | None) -> None:
        self._known_broker(record.broker_id, record.broker_epoch, record)
        self._touch_broker(record.broker_id, delta)
        del self.brokers[record.broker_id]
        self.registered_at.pop(record.broker_id, None)

    def _fence(self, record: records.FenceBrokerRecord, offset: int, delta: Delta | None) -> None:
        broker = self._known_broker(record.id, record.epoch, record)
        self._touch_broker(record.id, delta)
        self.brokers[record.id] = broker._replace(fenced=True)

    def _unfence(self, record: records.UnfenceBrokerRecord, offset: int, delta: Delta | None) -> None:
        broker = self._known_broker(record.id, record.epoch, record)
        self._touch_broker(record.id, delta)
        self.brokers[record.id] = broker._replace(fenced=False)

    def _change_broker(self, record: records.BrokerRegistrationChangeRecord, offset: int, delta: Delta | None) -> None:
        broker = self._known_broker(record.broker_id, record.broker_epoch, record)
        assert record.fenced in (-1, 0, 1), f"fenced is neither -1, 0 nor 1: {record!r}"
        assert record.in_controlled_shutdown in (0, 1), f"a controlled shutdown cannot be taken back: {record!r}"
        self._touch_broker(record.broker_id, delta)
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=True)
        if record.log_dirs:
            broker = broker._replace(log_dirs=tuple(bytes(d) for d in record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_log_dirs=dirs_of(record.cordoned_log_dirs))
        self.brokers[record.broker_id] = broker

    def _register_controller(self, record: records.RegisterControllerRecord, offset: int, delta: Delta | None) -> None:
        if delta is not None:
            delta.controllers.setdefault(record.controller_id, self.controllers.get(record.controller_id))
        self.controllers[record.controller_id] = controller_from(record)

    def _topic(self, record: records.TopicRecord, offset: int, delta: Delta | None) -> None:
        id = bytes(record.topic_id)
        assert record.name not in self.names, f"topic {record.name} is there already"
        assert id not in self.topics, f"topic id {id.hex()} is there already"
        if delta is not None:
            delta.topics.setdefault(id, (record.name, False))
        self.topics[id] = Topic(record.name, id, self._mine, {})
        self.names[record.name] = id

    def _partition(self, record: records.PartitionRecord, offset: int, delta: Delta | None) -> None:
        topic = self.topics.get(bytes(record.topic_id))
        assert topic is not None, f"a partition of an unknown topic: {record!r}"
        self._set_partition(topic, record.partition_id, from_record(record), delta)

    def _change_partition(self, record: records.PartitionChangeRecord, offset: int, delta: Delta | None) -> None:
        topic = self.topics.get(bytes(record.topic_id))
        assert topic is not None, f"a change of a partition of an unknown topic: {record!r}"
        before = topic.partitions.get(record.partition_id)
        assert before is not None, f"a change of an unknown partition: {record!r}"
        self._set_partition(topic, record.partition_id, merged(before, record), delta)

    def _clear_elr(self, record: records.ClearElrRecord, offset: int, delta: Delta | None) -> None:
        """No eligible leader replicas any more, in one topic or in all: what Kafka's controller says when a topic's
        min.insync.replicas changes. It counts as a change of each partition that had some."""
        if record.topic_name:
            assert record.topic_name in self.names, f"an unknown topic has no eligible leader replicas: {record!r}"
        name = record.topic_name
        for id in [self.names[name]] if name else sorted(self.names.values()):
            topic = self.topics[id]
            for number, one in sorted(topic.partitions.items()):
                if one.elr or one.last_known_elr:
                    change = records.PartitionChangeRecord(
                        topic_id=id, partition_id=number, eligible_leader_replicas=[], last_known_elr=[]
                    )
                    self._set_partition(topic, number, merged(one, change), delta)

    def _set_partition(self, topic: Topic, number: int, after: Partition, delta: Delta | None) -> None:
        before = topic.partitions.get(number)
        if delta is not None:
            delta.partitions.setdefault((topic.id, number), before)
        after = self._interned(after)
        self._own(topic).partitions[number] = after
        self.index.update(before, after)

    def _interned(self, one: Partition) -> Partition:
        share = self._shared.setdefault
        replicas, isr = share(one.replicas, one.replicas), share(one.isr, one.isr)
        directories = share(one.directories, one.directories)
        return Partition(
            one.topic_id, one.id, replicas, isr, one.leader, one.leader_epoch, one.partition_epoch,
            one.adding, one.removing, one.elr, one.last_known_elr, directories, one.recovery,
        )  # fmt: skip

    def _own(self, topic: Topic) -> Topic:
        """A topic to be changed here, which no other image has a part in."""
        if topic.owner is not self._mine:
            topic = self.topics[topic.id] = Topic(topic.name, topic.id, self._mine, dict(topic.partitions))
        return topic

    def _remove_topic(self, record: records.RemoveTopicRecord, offset: int, delta: Delta | None) -> None:
        topic = self.topics.pop(bytes(record.topic_id), None)
        assert topic is not None, f"an unknown topic cannot be removed: {record!r}"
        del self.names[topic.name]
        if delta is not None:
            delta.topics.setdefault(topic.id, (topic.name, True))
        for number, partition in topic.partitions.items():
            if delta is not None:
                delta.partitions.setdefault((topic.id, number), partition)
            self.index.update(partition, None)
        resource = (2, topic.name)
        if resource in self.configs:
            if delta is not None:
                delta.configs.setdefault(resource, self.configs[resource])
            del self.configs[resource]

    def _config(self, record: records.ConfigRecord, offset: int, delta: Delta | None) -> None:
        resource = (record.resource_type, record.resource_name)
        before = self.configs.get(resource, {})
        if delta is not None:
            delta.configs.setdefault(resource, before)
        settings = dict(before)
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        if settings:
            self.configs[resource] = settings
        else:
            self.configs.pop(resource, None)

    def _producer_ids(self, record: records.ProducerIdsRecord, offset: int, delta: Delta | None) -> None:
        if delta is not None and delta.producer_ids is None:
            delta.producer_ids = self.next_producer_id
        self.next_producer_id = record.next_producer_id

    def _zk_migration(self, record: records.ZkMigrationStateRecord, offset: int, delta: Delta | None) -> None:
        self.zk_migration_state = record.zk_migration_state

    def _keep(self, record: Any, offset: int, delta: Delta | None) -> None:
        key = _identity(record)
        if delta is not None:
            delta.opaque.add(key)
        if isinstance(record, records.ClientQuotaRecord) and record.remove:
            self.opaque.pop(key, None)
        else:
            self.opaque[key] = record

    def _let_go(self, record: Any, offset: int, delta: Delta | None) -> None:
        key = _identity(record)
        if delta is not None:
            delta.opaque.add(key)
        assert self.opaque.pop(key, None) is not None, f"what is not there cannot be removed: {record!r}"

    def _touch_broker(self, broker_id: int, delta: Delta | None) -> None:
        if delta is not None:
            delta.brokers.setdefault(broker_id, self.brokers.get(broker_id))

    def _known_broker(self, broker_id: int, epoch: int, record: Any) -> Broker:
        broker = self.brokers.get(broker_id)
        assert broker is not None, f"no broker is registered under that id: {record!r}"
        assert broker.epoch == epoch, f"the broker is registered under epoch {broker.epoch}: {record!r}"
        return broker


def _identity(record: Any) -> tuple[object, ...]:
    """What an opaque record is about: the same for a record and the one that removes it."""
    match record:
        case records.AccessControlEntryRecord() | records.RemoveAccessControlEntryRecord():
            return ("acl", bytes(record.id))
        case records.UserScramCredentialRecord() | records.RemoveUserScramCredentialRecord():
            return ("scram", record.name, record.mechanism)
        case records.ClientQuotaRecord():
            return quotas.identity(record)
        case _:
            return ("token", record.token_id)


_FOLDS: dict[type, Callable[[Image, Any, int, Delta | None], None]] = {
    records.RegisterBrokerRecord: Image._register_broker,
    records.UnregisterBrokerRecord: Image._unregister_broker,
    records.TopicRecord: Image._topic,
    records.PartitionRecord: Image._partition,
    records.ConfigRecord: Image._config,
    records.PartitionChangeRecord: Image._change_partition,
    records.FenceBrokerRecord: Image._fence,
    records.UnfenceBrokerRecord: Image._unfence,
    records.RemoveTopicRecord: Image._remove_topic,
    records.DelegationTokenRecord: Image._keep,
    records.UserScramCredentialRecord: Image._keep,
    records.FeatureLevelRecord: Image._feature,
    records.ClientQuotaRecord: Image._keep,
    records.ProducerIdsRecord: Image._producer_ids,
    records.BrokerRegistrationChangeRecord: Image._change_broker,
    records.AccessControlEntryRecord: Image._keep,
    records.RemoveAccessControlEntryRecord: Image._let_go,
    records.NoOpRecord: Image._nothing,
    records.ZkMigrationStateRecord: Image._zk_migration,
    records.RemoveUserScramCredentialRecord: Image._let_go,
    records.BeginTransactionRecord: Image._begin,
    records.EndTransactionRecord: Image._end,
    records.AbortTransactionRecord: Image._abort,
    records.RemoveDelegationTokenRecord: Image._let_go,
    records.RegisterControllerRecord: Image._register_controller,
    records.ClearElrRecord: Image._clear_elr,
}
_TRANSACTION_FOLDS = frozenset({Image._begin, Image._end, Image._abort, Image._nothing})
