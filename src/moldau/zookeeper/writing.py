"""Metadata records -> operations on znodes: what a controller's decision means in ZooKeeper. Pure.

Each change of a partition sets its state znode once, under the version that the image has as partition epoch, so that
the two stay equal and a write that somebody overtook fails (law Z4). The plane adds the check of the controller epoch
(Z1) and sends all in one multi. Where replicas go stands in the topic's znode. What ZooKeeper does not hold is not
written: fencing, directories, eligible leaders. Next: known_znodes.py. Source: KIP-455, KIP-497, KIP-866.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.image import Image, Partition
from moldau.image.partition import from_record, merged, to_record
from moldau.ports.zookeeper import Create, Delete, Op, Set
from moldau.wire.records import metadata as records
from moldau.wire.schema import Message
from moldau.zookeeper import paths
from moldau.zookeeper.known_znodes import KnownZnodes
from moldau.zookeeper.notes import config_change_json, config_json
from moldau.zookeeper.settings import setting_of
from moldau.zookeeper.znodes import (
    FeatureZnode,
    ProducerIdBlock,
    ReplicaAssignment,
    StateZnode,
    TopicZnode,
    feature_json,
    producer_ids_json,
    state_json,
    topic_json,
)

NOT_HERE = (
    records.RegisterBrokerRecord,
    records.UnregisterBrokerRecord,
    records.FenceBrokerRecord,
    records.UnfenceBrokerRecord,
    records.BrokerRegistrationChangeRecord,
    records.RegisterControllerRecord,
    records.NoOpRecord,
    records.BeginTransactionRecord,
    records.EndTransactionRecord,
    records.AbortTransactionRecord,
    records.ZkMigrationStateRecord,
)
"""Records of things that are not written: brokers register themselves, and a multi is a transaction already."""


def operations(
    batch: Iterable[Message], image: Image, known_znodes: KnownZnodes, controller_epoch: int, *, later: bool = False
) -> list[Op]:
    """What to send for one decision's records, given the image and what stands before it. Changes neither.

    Tell ``known_znodes.applied`` of it once it went through. Deletions come first, then settings, topics, states,
    notes. ``later``: brokers may hear of a decision before it stands here, so that new topics' settings need a note
    too.
    """
    draft = TransactionDraft(image, known_znodes, controller_epoch, later=later)
    for record in batch:
        draft.take(record)
    return draft.operations()


class TransactionDraft:
    """A decision while it is put together: the newest value of each znode that it writes once, states in order."""

    def __init__(self, image: Image, known_znodes: KnownZnodes, controller_epoch: int, *, later: bool = False) -> None:
        self._image, self._known_znodes, self._epoch, self._later = image, known_znodes, controller_epoch, later
        self._names: dict[bytes, str] = {}
        self._new_topics: dict[bytes, None] = {}
        self._partitions: dict[bytes, dict[int, Partition]] = {}
        self._assigned: dict[bytes, None] = {}
        self._states: dict[bytes, list[Op]] = {}
        self._folders: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._told: dict[str, None] = {}
        self._quiet: dict[str, None] = {}
        self._levels: dict[str, int] | None = None
        self._producer_ids: ProducerIdBlock | None = None

    def take(self, record: Message) -> None:
        match record:
            case records.TopicRecord():
                id = bytes(record.topic_id)
                self._names[id] = record.name
                self._new_topics[id] = self._assigned[id] = None
                if not self._later:
                    self._quiet[_entity(record.name)] = None
                if not self._stands(paths.topic(record.name)):  # made by a tool, it has its settings already
                    self._settings.setdefault(_entity(record.name), {})
            case records.PartitionRecord():
                self._partition(record)
            case records.PartitionChangeRecord():
                self._change(record)
            case records.RemoveTopicRecord():
                self._remove(bytes(record.topic_id))
            case records.FeatureLevelRecord():
                self._levels = dict(self._image.features) if self._levels is None else self._levels
                self._levels[record.name] = record.feature_level
            case records.ProducerIdsRecord():
                before = self._producer_ids
                start = self._image.next_producer_id if before is None else before.start
                self._producer_ids = ProducerIdBlock(record.broker_id, start, record.next_producer_id - 1)
            case _:
                self._setting(record)

    def _partition(self, record: records.PartitionRecord) -> None:
        after = from_record(record)
        assert after.partition_epoch <= 0, f"a new partition begins at epoch 0, as its znode: {record!r}"
        id = bytes(record.topic_id)
        self._partitions.setdefault(id, {})[after.id] = after
        self._assigned[id] = None
        name = self._name(id)
        states = self._states.setdefault(id, [])
        states += self._new_folders(paths.partitions(name), paths.partition(name, after.id))
        states.append(Create(path=paths.state(name, after.id), data=self._state(after)))

    def _change(self, record: records.PartitionChangeRecord) -> None:
        id = bytes(record.topic_id)
        before = self._partitions.get(id, {}).get(record.partition_id) or self._image.at((id, record.partition_id))
        after = merged(before, record)
        self._partitions.setdefault(id, {})[after.id] = after
        if _assignment(after) != _assignment(before):
            self._assigned[id] = None
        path = paths.state(self._name(id), after.id)
        self._states.setdefault(id, []).append(
            Set(path=path, data=self._state(after), version=max(before.partition_epoch, 0))
        )

    def write_state_again(self, after: Partition) -> None:
        """Make a partition what it is elsewhere already: its state is set as often as it changed since, so that its
        version stays its epoch; once at least, if it differs."""
        known = self._image.topics.get(after.topic_id)
        before = None if known is None else known.partitions.get(after.id)
        after = after._replace(directories=(), elr=(), last_known_elr=())
        if before is None:
            before = after._replace(partition_epoch=0)
            self._partition(to_record(before))
        elif _assignment(after) != _assignment(before):
            self._assigned[after.topic_id] = None
        self._partitions.setdefault(after.topic_id, {})[after.id] = after
        same = before._replace(directories=()) == after._replace(partition_epoch=before.partition_epoch)
        times = max(after.partition_epoch - before.partition_epoch, 0 if same else 1)
        path = paths.state(self._name(after.topic_id), after.id)
        self._states.setdefault(after.topic_id, []).extend(
            Set(path=path, data=self._state(after), version=before.partition_epoch + n) for n in range(times)
        )

    def _remove(self, id: bytes) -> None:
        name = self._name(id)
        for table in (self._names, self._partitions, self._assigned, self._states):
            table.pop(id, None)
        self._settings.pop(_entity(name), None)
        for path in [path for path in self._folders if path.startswith(paths.topic(name) + "/")]:
            del self._folders[path]
        if id in self._new_topics:
            del self._new_topics[id]
        else:
            self._removed[name] = None

    def _setting(self, record: Message) -> None:
        setting = setting_of(record)
        if setting is None:
            assert isinstance(record, NOT_HERE), f"nobody knows where this stands in ZooKeeper: {record!r}"
            return
        if setting.entity not in self._settings:
            stands = self._stands(paths.config(setting.entity))
            self._settings[setting.entity] = dict(self._known_znodes.settings.get(setting.entity, {})) if stands else {}
        values = self._settings[setting.entity]
        if setting.value is None:
            values.pop(setting.key, None)
        else:
            values[setting.key] = setting.value
        if setting.entity not in self._quiet:  # who creates a topic reads its settings as they are
            self._told[setting.entity] = None

    def operations(self) -> list[Op]:
        ops: list[Op] = []
        for name in self._removed:
            ops += [Delete(path=path) for path in self._known_znodes.below(paths.topic(name))]
            ops += [Delete(path=paths.topic(name))]
            if paths.config(_entity(name)) in self._known_znodes:
                ops.append(Delete(path=paths.config(_entity(name))))
        for entity in sorted(self._settings, key=_depth):  # an entity is the folder of those within it
            parts = entity.split("/")
            ops += self._new_folders(*(paths.config("/".join(parts[:n])) for n in range(1, len(parts))))
            ops.append(self._put(paths.config(entity), config_json(self._settings[entity])))
            self._folders[paths.config(entity)] = None
        for id in self._assigned:
            ops.append(self._put(paths.topic(self._name(id)), topic_json(self._topic(id))))
        for states in self._states.values():
            ops += states
        if self._levels is not None:
            levels = {name: level for name, level in self._levels.items() if level}
            ops.append(self._put(paths.FEATURE, feature_json(FeatureZnode(levels))))
        if self._producer_ids is not None:
            ops.append(self._put(paths.PRODUCER_IDS, producer_ids_json(self._producer_ids)))
        for entity in self._told:
            if entity in self._settings:
                ops.append(Create(path=paths.NEW_CONFIG_CHANGE, data=config_change_json(entity), sequential=True))
        return ops

    def _stands(self, path: str) -> bool:
        """Whether a znode stands, once the deletions of this decision are done."""
        return path in self._known_znodes and not any(
            path == paths.config(_entity(name)) or f"{path}/".startswith(paths.topic(name) + "/")
            for name in self._removed
        )

    def _put(self, path: str, data: bytes) -> Op:
        return Set(path=path, data=data) if self._stands(path) else Create(path=path, data=data)

    def _new_folders(self, *wanted: str) -> list[Op]:
        """Folders that do not stand yet and nobody in this decision has created."""
        new = [path for path in wanted if path not in self._folders and not self._stands(path)]
        self._folders.update(dict.fromkeys(new))
        return [Create(path=path) for path in new]

    def _name(self, id: bytes) -> str:
        return self._names[id] if id in self._names else self._image.topics[id].name

    def _topic(self, id: bytes) -> TopicZnode:
        """A topic's assignments after the decision; those without a state yet stay as the tool wrote them."""
        name = self._name(id)
        known_znodes = self._known_znodes
        partitions = (
            {}
            if name in self._removed
            else {**known_znodes.new_partitions.get(name, {}), **known_znodes.set_apart.get(name, {})}
        )
        known = self._image.topics.get(id)
        for part in ({} if known is None else known.partitions, self._partitions.get(id, {})):
            partitions.update((number, _assignment(partition)) for number, partition in part.items())
        return TopicZnode(name, id, dict(sorted(partitions.items())))

    def _state(self, partition: Partition) -> bytes:
        return state_json(
            StateZnode(
                leader=partition.leader,
                leader_epoch=max(partition.leader_epoch, 0),
                isr=partition.isr,
                controller_epoch=self._epoch,
                recovery=partition.recovery,
                isr_epochs=self._lives(partition.isr),
            )
        )

    def _lives(self, isr: Iterable[int]) -> tuple[int, ...]:
        """Under which epochs those in sync are known: a registration that this controller has not heard of may be
        another process's. A quorum's epochs (KIP-866) do not compare with ZooKeeper's transactions: nothing is said."""
        brokers = self._image.brokers
        return () if self._later else tuple(brokers[id].epoch if id in brokers else 0 for id in isr)


def _assignment(partition: Partition) -> ReplicaAssignment:
    return ReplicaAssignment(partition.replicas, partition.adding, partition.removing)


def _depth(entity: str) -> int:
    return entity.count("/")


def _entity(topic: str) -> str:
    return f"topics/{paths.sanitized(topic)}"
