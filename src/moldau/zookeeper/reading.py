"""Znodes -> metadata records: what a node that becomes active makes of all that was read. Pure; ``survey`` reads.

The records rebuild the image as far as ZooKeeper holds it: no directories, no eligible leader replicas, nobody shutting
down. What registered is alive. What cannot be read costs itself: a partition is left out, a topic keeps its name and
nothing else, and whoever serves their replicas goes on as before, for nobody decides about them until they are mended.
Source: KIP-866, which maps both ways too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping

from moldau.image.partition import NO_LEADER, Key
from moldau.model.named import NamedTuple
from moldau.model.value import field, value
from moldau.ports.zookeeper import Op, Set, Stat
from moldau.wire.records import metadata as records
from moldau.wire.schema import Message
from moldau.zookeeper import paths, settings
from moldau.zookeeper.known_znodes import KnownZnodes
from moldau.zookeeper.notes import parse_config
from moldau.zookeeper.payload import LONG_MAX, BadZnode
from moldau.zookeeper.znodes import (
    BrokerZnode,
    ProducerIdBlock,
    ReplicaAssignment,
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
    producer_ids: Found | None = None
    present: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    """Paths of what is named as no broker and no topic can be: left alone."""
    denied: frozenset[str] = frozenset()
    """Paths of znodes that are there, and whose data an ACL keeps from us."""

    def check(self, path: str) -> None:
        """BadZnode when the data of this znode could not be read."""
        if path in self.denied:
            raise BadZnode(path, "not allowed, by the ACL of this znode")

    def written(self, path: str, stat: Stat) -> int:
        """The transaction that wrote what could not be understood, -1 for what could not be read: an ACL changes
        without one."""
        return -1 if path in self.denied else stat.mzxid


class SurveyResult(NamedTuple):
    """What a survey means.

    ``repairs``: topics from before topic ids get one, which must be written before anything else is. ``bad``: what
    could not be read, and was left out; what of it nobody may decide about is in ``known_znodes.unread``. ``since``:
    broker -> the oldest broker epoch under which a state has it in the ISR, or, where the state does not say, the
    transaction that wrote it; whoever registered later is another process than was in sync then. ``lives``: registered
    broker -> since when its process lives. ``written_by``: partition -> the epoch of the controller that wrote its
    state.
    """

    records: list[Message]
    known_znodes: KnownZnodes
    repairs: list[Op]
    bad: list[BadZnode]
    since: dict[int, int]
    lives: dict[int, int]
    written_by: dict[Key, int]


def read(survey: Survey, new_id: Callable[[], bytes]) -> SurveyResult:
    """The records of all that is there, in the order of a snapshot. ``new_id``: an id for a topic that has none."""
    work = read_in_slices(survey, new_id, len(survey.states) + 1)
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: SurveyResult = end.value
            return found


def nobody_knows(_name: str) -> bytes | None:
    """No topic has been known by an id."""
    return None


def read_in_slices(
    survey: Survey, new_id: Callable[[], bytes], step: int, known_id: Callable[[str], bytes | None] = nobody_knows
) -> Generator[None, None, SurveyResult]:
    """The same, with a pause after every ``step`` partitions. ``known_id``: the id by which a topic was known that has
    none now, because a tool from before topic ids wrote its znode."""
    known_znodes = KnownZnodes()
    known_znodes.add(survey.present)
    found: list[Message] = []
    repairs: list[Op] = []
    bad: list[BadZnode] = []
    since: dict[int, int] = {}
    lives: dict[int, int] = {}
    written_by: dict[Key, int] = {}
    spent = 0
    found += _features(survey, known_znodes, bad)
    for id in sorted(survey.brokers):
        data, stat = survey.brokers[id]
        try:
            survey.check(paths.broker(id))
            broker = parse_broker(id, data)
            found.append(broker_record(broker, stat))
            lives[id] = broker.lives_since(stat.czxid)
        except BadZnode as error:
            bad.append(error)
    parsed, owners = yield from _parsed_in_turns(survey, step)
    for name in sorted(survey.topics):
        topic = _topic(parsed[name], survey, known_znodes, owners, bad)
        if topic.id is None:
            known = known_id(name) if _has_state(survey, topic) else None
            topic = topic._replace(id=known if known is not None and known not in owners else new_id())
            repairs.append(Set(path=paths.topic(name), data=topic_json(topic), version=survey.topics[name][1].version))
        assert topic.id is not None
        owners[topic.id] = name
        found.append(records.TopicRecord(name=topic.name, topic_id=topic.id))
        numbers = sorted(topic.partitions)
        for at in range(0, len(numbers), step):
            some = numbers[at : at + step]
            found += _partition_records(topic, some, survey, _Noted(known_znodes, bad, since, written_by))
            spent += len(some)
            if spent >= step:
                spent = 0
                yield
        _note_topic(topic, survey, known_znodes)
    found += _settings(survey, known_znodes, bad)
    found += _producer_ids(survey, known_znodes, bad)
    return SurveyResult(found, known_znodes, repairs, bad, since, lives, written_by)


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
    topic_id: bytes, number: int, assignment: ReplicaAssignment, state: StateZnode, stat: Stat
) -> records.PartitionRecord:
    """A partition that has a state. Who left the replicas while a controller died has left the ISR too, and leads no
    more: another is elected."""
    isr = [r for r in state.isr if r in assignment.replicas]
    return records.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(assignment.replicas),
        isr=isr,
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        leader=state.leader if state.leader in isr else NO_LEADER,
        leader_recovery_state=state.recovery,
        leader_epoch=state.leader_epoch,
        partition_epoch=stat.version,
    )


def judge(path: str, assignment: ReplicaAssignment, state: StateZnode) -> None:
    """BadZnode for a state that no controller writes, though each of its values could stand there. Taken, it would be
    the ground of decisions: who leads on would be deposed, or an election held among brokers that hold nothing.

    An empty ISR is such a state. Kafka before 1.1 wrote it where unclean election was allowed and the last replica in
    sync had died; where a hand wrote it, a replica may lead on, and another would be elected in its place.
    """
    if not state.isr:
        raise BadZnode(
            path,
            'nobody is in sync ("isr":[]), which no controller since Kafka 1.1 writes; write in "isr" and "leader"'
            ' who led, or else the replica with the longest log, with a higher "leader_epoch"',
        )
    if state.leader != NO_LEADER and state.leader not in state.isr:
        raise BadZnode(path, f"leader {state.leader} is not among those in sync, {list(state.isr)!r:.100}")
    if not set(state.isr) & set(assignment.replicas):
        raise BadZnode(
            path, f"nobody in sync, of {list(state.isr)!r:.100}, is one of {list(assignment.replicas)!r:.100}"
        )
    if state.recovery and len(state.isr) > 1:
        raise BadZnode(path, f"a leader that was elected unclean is in sync with {list(state.isr)!r:.100}")


def _features(survey: Survey, known_znodes: KnownZnodes, bad: list[BadZnode]) -> list[Message]:
    """Levels of features. Those that cannot be read are as if nobody had set any."""
    if survey.feature is None:
        return []
    known_znodes.add((paths.FEATURE,))
    try:
        survey.check(paths.FEATURE)
        feature = parse_feature(survey.feature)
    except BadZnode as error:
        bad.append(error)
        return []
    levels = feature.levels if feature.enabled else {}
    return [records.FeatureLevelRecord(name=name, feature_level=levels[name]) for name in sorted(levels)]


def _producer_ids(survey: Survey, known_znodes: KnownZnodes, bad: list[BadZnode]) -> list[Message]:
    """Which producer id is next. Where that cannot be read none is left, for an id that is given out twice would let
    one producer's batches pass for another's."""
    if survey.producer_ids is None:
        return []
    known_znodes.add((paths.PRODUCER_IDS,))
    try:
        survey.check(paths.PRODUCER_IDS)
        block = parse_producer_ids(survey.producer_ids[0])
    except BadZnode as error:
        bad.append(error)
        known_znodes.unread[paths.PRODUCER_IDS] = survey.written(paths.PRODUCER_IDS, survey.producer_ids[1])
        block = ProducerIdBlock(-1, 0, LONG_MAX - 1)
    if block is None:
        return []
    return [records.ProducerIdsRecord(broker_id=block.broker_id, broker_epoch=-1, next_producer_id=block.end + 1)]


def _has_state(survey: Survey, topic: TopicZnode) -> bool:
    """Whether a controller has decided of it: only then can it have had an id. A topic that a tool has made anew under
    a name has none yet."""
    return any((topic.name, number) in survey.states for number in topic.partitions)


class _Parsed(NamedTuple):
    """A topic's znode: what it says, or why it cannot be read."""

    name: str
    topic: TopicZnode | BadZnode


def _parsed_in_turns(survey: Survey, step: int) -> Generator[None, None, tuple[dict[str, _Parsed], dict[bytes, str]]]:
    """All topics' znodes by name, and whose each topic id is. No controller gives two topics one, so all but one are
    somebody's copies of its znode: the topic is the one that a controller has decided of. Of several it is the one
    whose znode was created first, which says little where a tool has created all of them anew."""
    parsed: dict[str, _Parsed] = {}
    owners: dict[bytes, tuple[bool, int, str]] = {}
    spent = 0
    for name, (data, stat) in survey.topics.items():
        try:
            survey.check(paths.topic(name))
            topic = parse_topic(name, data)
        except BadZnode as error:
            parsed[name] = _Parsed(name, error)
            continue
        parsed[name] = _Parsed(name, topic)
        if topic.id is not None:
            claim = (not _has_state(survey, topic), stat.czxid, name)
            owners[topic.id] = min(owners.get(topic.id, claim), claim)
        spent += 1 + len(topic.partitions)
        if spent >= step:
            spent = 0
            yield
    return parsed, {id: name for id, (_, _, name) in owners.items()}


def _topic(
    parsed: _Parsed, survey: Survey, known_znodes: KnownZnodes, owners: Mapping[bytes, str], bad: list[BadZnode]
) -> TopicZnode:
    """A topic's znode. One that cannot be read is a topic without partitions, so that nobody takes its name."""
    name, topic = parsed
    path = paths.topic(name)
    if isinstance(topic, TopicZnode):
        owner = name if topic.id is None else owners[topic.id]
        if owner == name:
            return topic
        why = f"topic_id is that of topic {owner}, of which {name} must be a copy; remove the znode of {name}"
        topic = BadZnode(path, why)
    bad.append(topic)
    known_znodes.unread[path] = survey.written(path, survey.topics[name][1])
    return TopicZnode(name, hashlib.sha256(name.encode()).digest()[:16], {})


class _Noted(NamedTuple):
    """What is noted of a survey beside its records."""

    known_znodes: KnownZnodes
    bad: list[BadZnode]
    since: dict[int, int]
    written_by: dict[Key, int]


def _partition_records(topic: TopicZnode, numbers: list[int], survey: Survey, noted: _Noted) -> list[Message]:
    """Records of the partitions whose states can be read; the others are set apart."""
    assert topic.id is not None
    found: list[Message] = []
    for number in numbers:
        state = survey.states.get((topic.name, number))
        if state is not None:
            data, stat = state
            path = paths.state(topic.name, number)
            try:
                survey.check(path)
                known = parse_state(topic.name, number, data)
                judge(path, topic.partitions[number], known)
            except BadZnode as error:
                noted.bad.append(error)
                noted.known_znodes.unread[path] = survey.written(path, stat)
                noted.known_znodes.set_apart.setdefault(topic.name, {})[number] = topic.partitions[number]
                continue
            record = partition_record(topic.id, number, topic.partitions[number], known, stat)
            found.append(record)
            noted.written_by[topic.id, number] = known.controller_epoch
            for id, epoch in _lived(known, stat.mzxid):
                if id in record.isr:
                    noted.since[id] = min(noted.since.get(id, epoch), epoch)
    return found


def _lived(state: StateZnode, written: int) -> Iterable[tuple[int, int]]:
    """Under which epochs those in sync were known to live: who wrote the state may not have heard of the newest
    registrations by then."""
    return zip(state.isr, state.isr_epochs or (written,) * len(state.isr), strict=True)


def _note_topic(topic: TopicZnode, survey: Survey, known_znodes: KnownZnodes) -> None:
    known_znodes.add((paths.topic(topic.name),))
    new_partitions = {}
    for number, assignment in topic.partitions.items():
        if (topic.name, number) in survey.states:
            known_znodes.add(
                (
                    paths.partitions(topic.name),
                    paths.partition(topic.name, number),
                    paths.state(topic.name, number),
                )
            )
        else:
            new_partitions[number] = assignment
    if new_partitions:
        known_znodes.new_partitions[topic.name] = new_partitions


def _settings(survey: Survey, known_znodes: KnownZnodes, bad: list[BadZnode]) -> list[Message]:
    found: list[Message] = []
    for entity in sorted(survey.configs):
        try:
            survey.check(paths.config(entity))
            known_znodes.settings[entity] = parse_config(entity, survey.configs[entity])
        except BadZnode as error:
            known_znodes.settings[entity] = {}
            bad.append(error)
            if error.path in survey.denied:
                known_znodes.unread[error.path] = -1
        known_znodes.add((paths.config(entity),))
        kind, _, name = entity.partition("/")
        if kind == "topics" and paths.plain(name) not in survey.topics:
            continue  # left behind by a deletion that was cut short: it is nobody's
        good, complaints = settings.judged(entity, known_znodes.settings[entity])
        bad += [BadZnode(paths.config(entity), complaint) for complaint in complaints]
        found += settings.records_of(entity, good)
    return found
