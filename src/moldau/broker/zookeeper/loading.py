"""What a new controller reads: everything that stands in ZooKeeper, as records for this node's image.

Topics from before topic ids are given one first. Brokers that lead or are in sync and are not registered are loaded as
if they lived, and named: the controller role is told of their death, and does what it does at any death. Replicas of
others that are not registered were taken out by the controller that saw them die: these are loaded as fenced. As if
they lived are loaded those too that came back while nobody was controller: what they had and did not sync may be gone,
and they must not lead on as if nothing had happened. A registration is older or newer than the state that trusts it by
ZooKeeper's transaction ids. What another client removed, and this node knows, is written again before; leader epochs
older than those of the logs here are raised (``own_logs.py``), and producer ids that logs have are passed over. Read
next: ``restoring.py``, ``moldau.zookeeper.reading``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from moldau.broker.loop import InWorld, run_in_slices
from moldau.broker.metadata.undecided import Undecided
from moldau.broker.zookeeper.folders import make_again
from moldau.broker.zookeeper.parts import ZooKeeperNode
from moldau.broker.zookeeper.restoring import (
    IDS_AHEAD_MAX,
    epochs_behind,
    in_transactions,
    known_topic_ids,
    lost_assignments,
    lost_states,
    passed_producer_ids_in_slices,
    raised_epochs,
)
from moldau.image import NO_LEADER, Image, Partition, Topic
from moldau.image.partition import Key
from moldau.image.registration import Broker, broker_record
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.ports.zookeeper import CheckVersion, NoNode, ZooKeeper
from moldau.wire.records.metadata import ConfigRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord
from moldau.wire.schema import Message
from moldau.zookeeper import paths
from moldau.zookeeper.known_znodes import KnownZnodes
from moldau.zookeeper.reading import SurveyResult, nobody_knows, read_in_slices
from moldau.zookeeper.settings import entity_of
from moldau.zookeeper.survey import survey

log = logging.getLogger(__name__)


class LoadedZnodes(NamedTuple):
    """Records of a snapshot, what stands beside them, brokers whose death no controller has seen, and those whose
    process died since the states were written and that are registered again. ``written_by``: as in what was read."""

    records: list[Message]
    known_znodes: KnownZnodes
    dead: tuple[int, ...]
    back: tuple[int, ...]
    written_by: dict[Key, int]

    @property
    def partly_read(self) -> frozenset[bytes]:
        """Ids of the topics that have partitions whose states could not be read."""
        topics = (one for one in self.records if isinstance(one, TopicRecord))
        return frozenset(bytes(one.topic_id) for one in topics if one.name in self.known_znodes.set_apart)


async def read_all(
    node: InWorld, zk: ZooKeeper, known_id: Callable[[str], bytes | None] = nobody_knows
) -> SurveyResult:
    """What stands in ZooKeeper; what of it cannot be read is named in the log. ``known_id``: see ``read_in_slices``."""
    tasks, step = node.world.tasks, node.world.step
    stands = await survey(zk)
    for path in stands.foreign:
        log.warning("neither a broker nor a topic can have this name; it is left alone: %.100s", path)
    found = await run_in_slices(tasks, read_in_slices(stands, node.world.random.uuid, step, known_id))
    for error in found.bad:
        log.error("left out: %s", error)
    return found


def keep(node: ZooKeeperNode, found: LoadedZnodes) -> None:
    """Before all that was read becomes this node's image: what it knows and could not read stays as it is, and what is
    gone without anybody's decision is only set aside."""
    image = node.metadata.image
    known_znodes = found.known_znodes
    here = {(bytes(r.topic_id), r.partition_id) for r in found.records if isinstance(r, PartitionRecord)}
    kept: set[Key] = set()
    for topic in image.topics.values():
        unread = paths.topic(topic.name) in known_znodes.unread
        apart = known_znodes.set_apart.get(topic.name, {})
        kept.update((topic.id, number) for number in topic.partitions if unread or number in apart)
    gone = (
        TopicPartition(topic.name, number)
        for topic in image.topics.values()
        for number in topic.partitions
        if (topic.id, number) not in here and (topic.id, number) not in kept and node.replicas.has((topic.id, number))
    )
    undecided = node.replicas.undecided
    undecided.unread(list(_unread(undecided, image, found)))
    undecided.kept = frozenset(kept)
    undecided.vanish(gone, only=True)


def _unread(undecided: Undecided, image: Image, found: LoadedZnodes) -> Iterator[tuple[bytes, Topic]]:
    """Topics of which something could not be read, each under the id that is read of it, as they are known: by this
    node, or by what their znodes assign."""
    known_znodes = found.known_znodes
    for record in found.records:
        if not isinstance(record, TopicRecord):
            continue
        id, apart = bytes(record.topic_id), known_znodes.set_apart.get(record.name, {})
        unread = paths.topic(record.name) in known_znodes.unread
        if not unread and not apart:
            continue
        before = image.topic(record.name)
        known = None if before is None else undecided.whole(before)
        if known is None or (not unread and known.id != id):
            known = Topic(record.name, id, None, {})
        assigned = {number: Partition(known.id, number, each.replicas, ()) for number, each in apart.items()}
        yield id, Topic(record.name, known.id, None, {**assigned, **known.partitions})


def _known_settings(image: Image, found: SurveyResult) -> list[ConfigRecord]:
    """What this node knows of settings that could not be read, or that are no good values where they stand: without
    them a topic that keeps its records for ever would be given the default retention."""
    bad = {error.path for error in found.bad if error.path.startswith(paths.CONFIG + "/")}
    if not bad:
        return []
    read = {(r.resource_type, r.resource_name, r.name) for r in found.records if isinstance(r, ConfigRecord)}
    kept = []
    for (kind, name), known in image.configs.items():
        entity = entity_of(kind, name)
        if paths.config(entity) not in bad:
            continue
        stands = found.known_znodes.settings.get(entity)
        kept += [
            ConfigRecord(resource_type=kind, resource_name=name, name=key, value=known[key])
            for key in sorted(known)
            if (not stands or key in stands) and (kind, name, key) not in read
        ]
        if not stands:
            found.known_znodes.settings[entity] = dict(known)
    return kept


async def load(node: ZooKeeperNode, zk: ZooKeeper, epoch: int, epoch_version: int) -> LoadedZnodes:
    """Read everything; what cannot be read is named in the log, and left out. ZooKeeperError as the port says."""
    image = node.metadata.image
    guard = CheckVersion(path=paths.CONTROLLER_EPOCH, version=epoch_version)
    known_ids = known_topic_ids(image, node.replicas.logs.logs)
    await make_again(zk)  # without one of them this controller could write no decision, nor could the next
    if await zk.exists(paths.TOPICS) is None:
        raise NoNode(paths.TOPICS)  # nobody is controller of what seems to have no topics, until that is mended
    found = await read_all(node, zk, known_ids.get)
    if found.repairs:
        log.info("%d topic(s) without a topic id get one", len(found.repairs))
        for some in in_transactions([op] for op in found.repairs):
            await zk.multi([guard, *some])
    for what, lost in (("assignments", lost_assignments), ("states", partial(lost_states, controller_epoch=epoch))):
        ops = lost(image, found)
        if ops:
            number = len({some[-1].path for some in ops})
            log.error("%d %s were removed by another client and are written again as they are known here", number, what)
            for some in in_transactions(ops):
                await zk.multi([guard, *some])
            found = await read_all(node, zk, known_ids.get)
    found = await _not_older(node, zk, found, guard, epoch)
    registered = {record.broker_id for record in found.records if isinstance(record, RegisterBrokerRecord)}
    named: set[int] = set()
    trusted: set[int] = set()
    for record in found.records:
        if isinstance(record, PartitionRecord):
            named.update(record.replicas, record.isr, (record.leader,))
            if record.leader != NO_LEADER:  # where nobody leads, the death of those in sync was seen
                trusted.update(record.isr, (record.leader,))
    absent = named - registered - {NO_LEADER}
    dead = tuple(sorted(absent & trusted))
    back = tuple(sorted(id for id, lives in found.lives.items() if lives > found.since.get(id, lives)))
    # As they were when the states were written; their registrations are found when the controller role looks for them.
    ghosts = [
        broker_record(Broker(id, found.since.get(id, 0), bytes(16), fenced=id not in {*dead, *back}))
        for id in sorted(absent.union(back))
    ]
    kept = [r for r in found.records if not (isinstance(r, RegisterBrokerRecord) and r.broker_id in back)]
    kept += _known_settings(image, found)
    return LoadedZnodes([*ghosts, *kept], found.known_znodes, dead, back, found.written_by)


async def _not_older(
    node: ZooKeeperNode, zk: ZooKeeper, found: SurveyResult, guard: CheckVersion, epoch: int
) -> SurveyResult:
    """What stands, once nothing is handed out or written twice of what the logs here have, and ZooKeeper lacks."""
    logs = node.replicas.logs.logs
    behind = epochs_behind(found, logs)
    raised = raised_epochs(found, behind, controller_epoch=epoch)
    if raised:
        log.error(
            "leader epochs are older than those of logs here, and those of all %d partition(s) are raised: the data of"
            " ZooKeeper are older than the logs, perhaps an older copy of them",
            len(raised),
        )
    looked = passed_producer_ids_in_slices(
        found, logs.values(), node.world.step, behind=max(behind.values(), default=0)
    )
    passed = await run_in_slices(node.world.tasks, looked)
    if passed:
        log.error(
            "producer ids that logs have are yet to be handed out by ZooKeeper's data, perhaps an older copy, or may be"
            " so: at least the next %d are left out, for a producer whose id a log has would not be written",
            IDS_AHEAD_MAX,
        )
    if not raised and not passed:
        return found
    # Ids first: that they are to be passed over shows by the states alone, as a rule.
    for some in in_transactions([passed, *raised] if passed else raised):
        await zk.multi([guard, *some])
    return await read_all(node, zk, known_topic_ids(node.metadata.image, logs).get)
