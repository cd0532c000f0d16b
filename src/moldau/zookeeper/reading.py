"""Znodes -> metadata records: what a node that takes office makes of all that was read. Pure; ``survey`` reads.

The records rebuild the image as far as ZooKeeper holds it: no directories, no eligible leader replicas, nobody shutting
down. What registered is alive. A topic or a state that cannot be read stops the taking of office with BadZnode: with a
topic left out, brokers would take its replicas for strays. Source: KIP-866, which maps both ways too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from moldau.image.partition import NO_LEADER
from moldau.ports.zookeeper import Op, Set, Stat
from moldau.terms.named import NamedTuple
from moldau.terms.value import field, value
from moldau.wire.records import metadata as records
from moldau.zookeeper import paths, settings
from moldau.zookeeper.notes import parse_config
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.standing import Standing
from moldau.zookeeper.znodes import (
    Assignment,
    BrokerZnode,
    StateZnode,
    TopicZnode,
    parse_broker,
    parse_feature,
    parse_producer_ids,
    parse_state,
    parse_topic,
    topic_json,
)

Found = tuple[bytes, Stat]


@value(kw_only=True)
class Survey:
    """All znodes that count, as they were read. ``present``: paths of everything else seen on the way."""

    brokers: dict[int, Found] = field(default_factory=dict)
    topics: dict[str, Found] = field(default_factory=dict)
    states: dict[tuple[str, int], Found] = field(default_factory=dict)
    configs: dict[str, bytes] = field(default_factory=dict)
    feature: bytes | None = None
    producer_ids: bytes | None = None
    present: tuple[str, ...] = ()


class Reading(NamedTuple):
    """What a survey means.

    ``repairs``: topics from before topic ids get one, which must be written before anything else is. ``bad``: brokers
    and settings that could not be read, and were left out. ``since``: broker -> the oldest broker epoch under which a
    state has it in the ISR, or, where the state does not say, the transaction that wrote it; whoever registered later
    is another process than was in sync then. ``lives``: registered broker -> since when its process lives.
    """

    records: list[Any]
    standing: Standing
    repairs: list[Op]
    bad: list[BadZnode]
    since: dict[int, int]
    lives: dict[int, int]


def read(survey: Survey, new_id: Callable[[], bytes]) -> Reading:
    """The records of all that is there, in the order of a snapshot. ``new_id``: an id for a topic that has none."""
    work = read_in_turns(survey, new_id, len(survey.states) + 1)
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Reading = end.value
            return found


def read_in_turns(survey: Survey, new_id: Callable[[], bytes], step: int) -> Generator[None, None, Reading]:
    """The same, with a pause after every ``step`` partitions."""
    standing = Standing()
    standing.add(survey.present)
    found: list[Any] = []
    repairs: list[Op] = []
    bad: list[BadZnode] = []
    since: dict[int, int] = {}
    lives: dict[int, int] = {}
    spent = 0
    if survey.feature is not None:
        standing.add((paths.FEATURE,))
        feature = parse_feature(survey.feature)
        if feature.enabled:
            for name in sorted(feature.levels):
                found.append(records.FeatureLevelRecord(name=name, feature_level=feature.levels[name]))
    for id in sorted(survey.brokers):
        data, stat = survey.brokers[id]
        try:
            broker = parse_broker(id, data)
            found.append(broker_record(broker, stat))
            lives[id] = broker.lives_since(stat.czxid)
        except BadZnode as error:
            bad.append(error)
    for name in sorted(survey.topics):
        topic = parse_topic(name, survey.topics[name][0])
        if topic.id is None:
            topic = topic._replace(id=new_id())
            repairs.append(Set(path=paths.topic(name), data=topic_json(topic), version=survey.topics[name][1].version))
        assert topic.id is not None
        found.append(records.TopicRecord(name=topic.name, topic_id=topic.id))
        numbers = sorted(topic.partitions)
        for at in range(0, len(numbers), step):
            some = numbers[at : at + step]
            found += _partition_records(topic, some, survey, since)
            spent += len(some)
            if spent >= step:
                spent = 0
                yield
        _note_topic(topic, survey, standing)
    found += _settings(survey, standing, bad)
    block = parse_producer_ids(survey.producer_ids)
    if survey.producer_ids is not None:
        standing.add((paths.PRODUCER_IDS,))
    if block is not None:
        found.append(
            records.ProducerIdsRecord(broker_id=block.broker_id, broker_epoch=-1, next_producer_id=block.end + 1)
        )
    return Reading(found, standing, repairs, bad, since, lives)


def broker_record(broker: BrokerZnode, stat: Stat) -> records.RegisterBrokerRecord:
    """A registration: alive, and under the epoch that ZooKeeper gave it."""
    return records.RegisterBrokerRecord(
        broker_id=broker.id,
        broker_epoch=stat.czxid,
        incarnation_id=broker.incarnation_id or stat.czxid.to_bytes(16),
        is_migrating_zk_broker=False,
        end_points=[
            records.RegisterBrokerRecord.BrokerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in broker.endpoints
        ],
        features=[
            records.RegisterBrokerRecord.BrokerFeature(
                name=f.name, min_supported_version=f.low, max_supported_version=f.high
            )
            for f in broker.features
        ],
        rack=broker.rack,
        fenced=False,
    )


def partition_record(
    topic_id: bytes, number: int, assignment: Assignment, state: StateZnode, stat: Stat
) -> records.PartitionRecord:
    """A partition that has a state. Who left the replicas while a controller died has left the ISR too."""
    return records.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(assignment.replicas),
        isr=[r for r in state.isr if r in assignment.replicas],
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        leader=state.leader,
        leader_recovery_state=state.recovery,
        leader_epoch=state.leader_epoch,
        partition_epoch=stat.version,
    )


def born(
    topic_id: bytes, number: int, assignment: Assignment, live: Callable[[int], bool]
) -> records.PartitionRecord | None:
    """New -> Online for a partition that a tool asked for: all live replicas in sync, led by the first (LI-1).

    None when no replica lives: it stays unborn until one does.
    """
    isr = [r for r in assignment.replicas if live(r)]
    if not isr:
        return None
    return records.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(assignment.replicas),
        isr=isr,
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
    )


def _partition_records(topic: TopicZnode, numbers: list[int], survey: Survey, since: dict[int, int]) -> list[Any]:
    assert topic.id is not None
    found: list[Any] = []
    for number in numbers:
        state = survey.states.get((topic.name, number))
        if state is not None:
            data, stat = state
            known = parse_state(topic.name, number, data)
            record = partition_record(topic.id, number, topic.partitions[number], known, stat)
            found.append(record)
            for id, epoch in _lived(known, stat.mzxid):
                if id in record.isr:
                    since[id] = min(since.get(id, epoch), epoch)
    return found


def _lived(state: StateZnode, written: int) -> Iterable[tuple[int, int]]:
    """Under which epochs those in sync were known to live: who wrote the state may not have heard of the newest
    registrations by then."""
    return zip(state.isr, state.isr_epochs or (written,) * len(state.isr), strict=True)


def _note_topic(topic: TopicZnode, survey: Survey, standing: Standing) -> None:
    standing.add((paths.topic(topic.name),))
    unborn = {}
    for number, assignment in topic.partitions.items():
        if (topic.name, number) in survey.states:
            standing.add(
                (
                    paths.partitions(topic.name),
                    paths.partition(topic.name, number),
                    paths.state(topic.name, number),
                )
            )
        else:
            unborn[number] = assignment
    if unborn:
        standing.unborn[topic.name] = unborn


def _settings(survey: Survey, standing: Standing, bad: list[BadZnode]) -> list[Any]:
    found: list[Any] = []
    for entity in sorted(survey.configs):
        try:
            standing.settings[entity] = parse_config(entity, survey.configs[entity])
        except BadZnode as error:
            standing.settings[entity] = {}
            bad.append(error)
        standing.add((paths.config(entity),))
        kind, _, name = entity.partition("/")
        if kind == "topics" and paths.plain(name) not in survey.topics:
            continue  # left behind by a deletion that was cut short: it is nobody's
        found += settings.records_of(entity, standing.settings[entity])
    return found
