"""What another client removed from ZooKeeper and this broker still knows: assignments, states, ids of topics.

Whoever becomes the controller writes it again before it decides anything. Taken for something new, a partition would be
led by a replica whatever it has, and the others' logs cut to that. Source: Kafka's tools before 2.8 write a topic's
znode without its id when they add partitions.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

from moldau.broker.loop import Pace, run_in_slices
from moldau.broker.zookeeper.own_logs import AHEAD_MAX, RAISED_MAX, is_ahead, latest_epoch
from moldau.broker.zookeeper.parts import ZooKeeperNode
from moldau.image import Image, Topic
from moldau.image.partition import NO_LEADER
from moldau.model import TopicPartition
from moldau.ports.zookeeper import Create, NoAuth, Op, Set, ZooKeeper
from moldau.storage.log import Log
from moldau.wire.records.metadata import PartitionRecord, ProducerIdsRecord, TopicRecord
from moldau.zookeeper import paths
from moldau.zookeeper.payload import EPOCH_MAX, LONG_MAX, BadZnode
from moldau.zookeeper.reading import SurveyResult
from moldau.zookeeper.survey import Found, get_each
from moldau.zookeeper.znodes import (
    ProducerIdBlock,
    ReplicaAssignment,
    StateZnode,
    TopicZnode,
    parse_topic,
    producer_ids_json,
    state_json,
    topic_json,
)

BYTES_AT_ONCE = 300_000
"""What one transaction writes again, about: a server takes 1 MB (``jute.maxbuffer``)."""
OP_BYTES = 60
"""What an operation has beside its path and data."""
UNHEARD = 16
"""How many changes of a partition its leader may have made of which this broker has not heard."""
IDS_AHEAD_MAX = 1 << 32
"""So many producer ids at most were handed out since an older copy."""
IDS_BELIEVED = 1 << 41
"""An id that is further ahead is a client's own: clients may write any."""
IDS_IN_BLOCK = 1_000
"""As many as Apache Kafka has in a block; its releases 3.x can read none of more than 2^31."""


def in_transactions(lost: Iterable[Sequence[Op]]) -> Iterator[list[Op]]:
    """All operations in order, in parts that a server takes; those of one thing stay together."""
    part: list[Op] = []
    size = 0
    for ops in lost:
        more = sum(OP_BYTES + len(op.path) + len(getattr(op, "data", b"")) for op in ops)
        if part and size + more > BYTES_AT_ONCE:
            yield part
            part, size = [], 0
        part += ops
        size += more
    if part:
        yield part


def known_topic_ids(image: Image, logs: Mapping[TopicPartition, Log]) -> Mapping[str, bytes]:
    """The ids by which topics are known here, by name: as the image has them, or else as logs do."""
    of_logs = {partition.topic: log.topic_id for partition, log in logs.items() if log.topic_id is not None}
    return ChainMap(image.names, of_logs)


def lost_assignments(image: Image, found: SurveyResult) -> list[list[Op]]:
    """For each topic whose znode lacks partitions that it is known to have (no topic gets fewer): what writes it with
    them."""
    stand: dict[bytes, dict[int, ReplicaAssignment]] = {}
    for record in found.records:
        if isinstance(record, PartitionRecord):
            stand.setdefault(bytes(record.topic_id), {})[record.partition_id] = ReplicaAssignment(
                tuple(record.replicas), tuple(record.adding_replicas), tuple(record.removing_replicas)
            )
    lost: list[list[Op]] = []
    for record in found.records:
        topic = image.topics.get(bytes(record.topic_id)) if isinstance(record, TopicRecord) else None
        if topic is None or paths.topic(topic.name) in found.known_znodes.unread:
            continue
        there = {
            **found.known_znodes.new_partitions.get(topic.name, {}),
            **found.known_znodes.set_apart.get(topic.name, {}),
            **stand.get(topic.id, {}),
        }
        gone = {
            n: ReplicaAssignment(p.replicas, p.adding, p.removing)
            for n, p in topic.partitions.items()
            if n not in there
        }
        if gone:
            znode = TopicZnode(topic.name, topic.id, dict(sorted({**there, **gone}.items())))
            lost.append([Set(path=paths.topic(topic.name), data=topic_json(znode))])
    return lost


def lost_states(image: Image, found: SurveyResult, controller_epoch: int) -> list[list[Op]]:
    """For each partition whose topic stands and whose state does not, though this node knows it: what writes the state
    again.

    Taken for new ones, they would be led by the first live replica, whatever it has, and their logs would be cut to
    its. The leader epoch is one more than the known one. The version of a znode is the partition epoch, below which
    brokers take nothing from it: it is set until it is above the known one.
    """
    ids = {record.name: bytes(record.topic_id) for record in found.records if isinstance(record, TopicRecord)}
    lost = []
    for name, waiting in sorted(found.known_znodes.new_partitions.items()):
        topic = image.topic(name)
        if topic is None or topic.id != ids.get(name):
            continue
        for number, assignment in sorted(waiting.items()):
            known = topic.partitions.get(number)
            isr = () if known is None else tuple(id for id in known.isr if id in assignment.replicas)
            if known is None or not isr:
                continue
            epochs = tuple(image.brokers[id].epoch if id in image.brokers else 0 for id in isr)
            leader = known.leader if known.leader in isr else NO_LEADER
            state = StateZnode(leader, known.leader_epoch + 1, isr, controller_epoch, known.recovery, epochs)
            place = paths.state(name, number)
            folders = (paths.partitions(name), paths.partition(name, number))
            ops: list[Op] = [Create(path=path) for path in folders if path not in found.known_znodes]
            found.known_znodes.add(folders)
            data = state_json(state)
            lost.append([*ops, Create(path=place, data=data)])
            versions = range(known.partition_epoch + UNHEARD)
            lost += ([Set(path=place, data=data, version=version)] for version in versions)
    return lost


def epochs_behind(found: SurveyResult, logs: Mapping[TopicPartition, Log]) -> dict[tuple[bytes, int], int]:
    """The partitions whose states have a lower leader epoch than their logs here, and how much lower it is."""
    names = {bytes(record.topic_id): record.name for record in found.records if isinstance(record, TopicRecord)}
    behind = {}
    for record in found.records:
        if isinstance(record, PartitionRecord):
            id, number = bytes(record.topic_id), record.partition_id
            latest = latest_epoch(logs, names[id], id, number)
            if is_ahead(latest, record.leader_epoch, RAISED_MAX):
                behind[id, number] = latest - record.leader_epoch
    return behind


def raised_epochs(
    found: SurveyResult, behind: Mapping[tuple[bytes, int], int], controller_epoch: int
) -> list[list[Op]]:
    """Where any partition's state is behind its log: what writes the states of all with epochs above those of every
    log. They come from one copy, and the others' later epochs are in logs elsewhere: an election to the next epoch
    would have two leaders write under one, and followers would not see where these part. All are raised by more than
    the largest difference, as the same copy may have been raised, and brought back, before. Those that are behind come
    last: whoever goes on after a crash sees by them that something is left. Everything else is as it was, also since
    when those in sync are trusted."""
    if not behind:
        return []
    names = {bytes(record.topic_id): record.name for record in found.records if isinstance(record, TopicRecord)}
    by = max(behind.values()) + AHEAD_MAX + 1
    first: list[list[Op]] = []
    last: list[list[Op]] = []
    for record in found.records:
        if not isinstance(record, PartitionRecord):
            continue
        epoch = min(record.leader_epoch + by, EPOCH_MAX)
        if epoch > record.leader_epoch:
            id, isr, recovery = bytes(record.topic_id), tuple(record.isr), record.leader_recovery_state
            since = tuple(found.since.get(member, 0) for member in isr)
            state = StateZnode(record.leader, epoch, isr, controller_epoch, recovery, since)
            path = paths.state(names[id], record.partition_id)
            into = last if (id, record.partition_id) in behind else first
            into.append([Set(path=path, data=state_json(state), version=record.partition_epoch)])
    return first + last


def passed_producer_ids_in_slices(
    found: SurveyResult, logs: Iterable[Log], step: int, *, behind: int
) -> Generator[None, None, list[Op]]:
    """What has the next producer ids begin beyond all that were handed out, where these data are an older copy: their
    leader epochs are ``behind`` by so many (0: they are not), or a log here has an id that is yet to be handed out. A
    new producer under an id that is in a log is taken for the old one: its first batches pass for repeated ones, are
    acknowledged, and are in no log. The same copy may have been brought back before, once for each time that its epochs
    were raised: the ids that were left out then have been handed out. Pauses between logs, after about ``step`` ids.
    """
    following = max((r.next_producer_id for r in found.records if isinstance(r, ProducerIdsRecord)), default=0)
    pace, newest = Pace(step), -1
    for log in list(logs):
        ids = () if log.known_producers is None else log.known_producers.ids()
        newest = max(newest, max((id for id in ids if 0 <= id - following < IDS_BELIEVED), default=-1))
        if pace.spent(1 + len(ids)):
            yield
    copies = 1 + behind // (AHEAD_MAX + 1) if behind else 0
    if not copies and newest < 0:
        return []
    begin = max(following + copies * IDS_AHEAD_MAX, following if newest < 0 else newest + 1 + IDS_AHEAD_MAX)
    if begin > LONG_MAX - IDS_BELIEVED or paths.PRODUCER_IDS in found.known_znodes.unread:
        return []
    block = ProducerIdBlock(-1, begin - IDS_IN_BLOCK, begin - 1)
    place, data = paths.PRODUCER_IDS, producer_ids_json(block)
    return [Set(path=place, data=data) if place in found.known_znodes else Create(path=place, data=data)]


async def assigned_undecided(node: ZooKeeperNode, zk: ZooKeeper) -> dict[TopicPartition, bytes]:
    """Partitions whose logs are here, that the image does not know, and that ZooKeeper knows or may know all the same,
    with their topics' ids: the topic's znode cannot be read or names them, or their states stand. No log is a stray
    for what another client has removed or damaged. ZooKeeperError as the port says."""
    image, logs, me = node.metadata.image, node.replicas.logs.logs, node.config.node_id
    unknown: dict[str, list[TopicPartition]] = {}
    for partition in logs:
        known = image.topic(partition.topic)
        if known is None or partition.partition not in known.partitions:
            unknown.setdefault(partition.topic, []).append(partition)
    found: dict[TopicPartition, bytes] = {}
    unassigned: dict[TopicPartition, bytes] = {}
    znodes = await get_each(zk, [paths.topic(name) for name in unknown])
    for (name, partitions), znode in zip(unknown.items(), znodes, strict=True):
        topic = None if znode is None or isinstance(znode, NoAuth) else _parsed(name, znode[0])
        for partition in partitions if znode is not None else ():
            assigned = None if topic is None else topic.partitions.get(partition.partition)
            id = (None if topic is None else topic.id) or logs[partition].topic_id
            if id is None or logs[partition].topic_id not in (None, id):
                continue
            if topic is None or (assigned is not None and me in assigned.replicas):
                found[partition] = id
            elif assigned is None:
                unassigned[partition] = id
    states = await get_each(zk, [paths.state(*partition) for partition in unassigned])
    found.update(
        (partition, id) for (partition, id), state in zip(unassigned.items(), states, strict=True) if state is not None
    )
    return found


async def last_assigned(node: ZooKeeperNode, zk: ZooKeeper) -> dict[tuple[str, bytes], int]:
    """Name and id of each topic of which the image lacks partitions that its znode assigns -> the highest number of
    these. A controller that cannot read a state does not tell a broker that starts of its partition, whose log may be
    on others only. ZooKeeperError as the port says."""
    topics = list(node.metadata.image.topics.values())
    znodes = await get_each(zk, [paths.topic(topic.name) for topic in topics])
    return await run_in_slices(node.world.tasks, _lacking(topics, znodes, Pace(node.world.step)))


def _lacking(
    topics: Sequence[Topic], znodes: Sequence[Found | NoAuth | None], pace: Pace
) -> Generator[None, None, dict[tuple[str, bytes], int]]:
    found: dict[tuple[str, bytes], int] = {}
    for topic, znode in zip(topics, znodes, strict=True):
        assigned = None if znode is None or isinstance(znode, NoAuth) else _parsed(topic.name, znode[0])
        if assigned is not None and assigned.id == topic.id:
            last = max(assigned.partitions, default=-1)
            if last >= len(topic.partitions):
                found[topic.name, topic.id] = last
        if pace.spent(1 + len(topic.partitions)):
            yield
    return found


def _parsed(name: str, data: bytes | None) -> TopicZnode | None:
    """A topic's znode, None when it cannot be read."""
    try:
        return parse_topic(name, data)
    except BadZnode:
        return None
