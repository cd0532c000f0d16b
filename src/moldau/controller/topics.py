"""Topics: create and delete. Items of one request stand for themselves: a bad one harms no other.

A new topic's records are the topic, its settings, its partitions, in this order. Deletion is one record: brokers delete
files as they apply it, and a topic id never comes back (C8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Sequence

from moldau.controller.batched import Work, batched
from moldau.controller.config_rules import wrong_together
from moldau.controller.configs import checked_new_configs
from moldau.controller.facts import TOO_MANY, Decision, DecisionContext, Problem
from moldau.controller.large_topics import (
    Known,
    Parts,
    Placed,
    checked,
    checked_again,
    made,
    partition_of,
    placed,
    without_pauses,
)
from moldau.controller.placement import bad_assignment
from moldau.controller.replies import (
    DeleteResult,
    Done,
    Refused,
    TopicResult,
    TopicsCreated,
    TopicsDeleted,
)
from moldau.controller.requests import (
    AdoptPartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
)
from moldau.controller.sizes import settings_too_large, topic_too_large
from moldau.image import Topic
from moldau.image.configs import ConfigSource, ResourceType, Setting, topic_setting, visible_topic_keys
from moldau.image.partition import Partition, to_record
from moldau.image.prepared import Prepared
from moldau.model import NO_UUID, Code
from moldau.model.ids import METADATA_TOPIC, is_topic_name
from moldau.wire.records.metadata import ConfigRecord, RemoveTopicRecord, TopicRecord
from moldau.wire.schema import Message

Created = tuple[Sequence[Message], TopicResult]


def create_topics(context: DecisionContext, request: CreateTopics) -> Work:
    """Create what can be created. The same name twice in one request is refused twice."""
    creation = _Creation(context, request)
    records, results = yield from batched(context, request.topics, creation.create, large=creation.large)
    return Decision(records, TopicsCreated(topics=tuple(results)))


class _Creation:
    """One request for new topics, under way."""

    def __init__(self, context: DecisionContext, request: CreateTopics) -> None:
        self._count = Counter(topic.name for topic in request.topics)
        self._names = _Names(context, self._count)
        self._defaults: dict[str, Setting] = {}
        self._validate_only = request.validate_only
        self._at_once, self._most = context.settings.partitions_at_once, context.settings.max_records
        self._usual = context.settings.number(context.image, "num.partitions")
        self._written = 0

    def create(self, context: DecisionContext, topic: NewTopic) -> Created:
        """Records and result of one topic."""
        twice = self._twice(topic)
        return self._take(topic, _create(context, topic, self._names, self._defaults) if twice is None else twice)

    def large(self, topic: NewTopic) -> Callable[[DecisionContext], Parts[Created]] | None:
        """What creates a topic of very many partitions, if this is one."""
        count = len(topic.assignments) or (self._usual if topic.partitions == -1 else topic.partitions)
        if not self._at_once < count <= self._most or self._twice(topic) is not None:
            return None
        return lambda context: self._create_in_parts(context, topic)

    def _create_in_parts(self, context: DecisionContext, topic: NewTopic) -> Parts[Created]:
        context, outcome, configs = yield from checked_again(
            context, lambda now: _checked(now, topic, self._names), lambda now, configs: _made(now, topic, configs)
        )
        if isinstance(outcome, Problem):
            return self._take(topic, outcome)
        assert configs is not None, "what was made was made with settings"
        partitions = outcome.runs[0].partitions.values()
        settings = _effective(context, configs, self._defaults)
        return self._take(topic, _created(context, topic, outcome, partitions, settings))

    def _twice(self, topic: NewTopic) -> Problem | None:
        if self._count[topic.name] == 1:
            return None
        why = f"Create topics request includes the topic {topic.name} more than once."
        return Problem(Code.INVALID_REQUEST, why)

    def _take(self, topic: NewTopic, outcome: Created | Problem) -> Created:
        if not isinstance(outcome, Problem) and self._written + len(outcome[0]) > self._most:
            outcome = TOO_MANY
        if isinstance(outcome, Problem):
            return [], TopicResult(name=topic.name, problem=outcome)
        records, result = outcome
        self._written += len(records)
        self._names.take(topic.name)
        return [] if self._validate_only else records, result


class _Names:
    """Names with dots as underscores, as metrics will have them: two topics must not be one there."""

    def __init__(self, context: DecisionContext, wanted: Iterable[str]) -> None:
        self._matter = any("." in name or "_" in name for name in wanted)
        self._known: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._end = -2

    def other(self, context: DecisionContext, name: str) -> str | None:
        """The topic that ``name`` collides with, if there is one."""
        if not self._matter:
            return None
        if context.image.offset != self._end:  # others may have created topics since the last part
            self._end = context.image.offset
            self._known = {one.replace(".", "_"): one for one in context.image.names if "." in one or "_" in one}
        shown = name.replace(".", "_")
        return self._known.get(shown) or self._taken.get(shown)

    def take(self, name: str) -> None:
        """A topic of this name is being created."""
        if self._matter:
            self._taken[name.replace(".", "_")] = name


def bad_name(name: str) -> Problem | None:
    """What is wrong with a topic's name, if anything."""
    if is_topic_name(name) or name == METADATA_TOPIC:
        return None
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = "'.' or '..' is not allowed"
    elif len(name) > 249:
        why = f"the length of '{name}' is longer than the max allowed length 249"
    else:
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return Problem(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")


def _checked(context: DecisionContext, topic: NewTopic, names: _Names) -> dict[str, str] | Problem:
    """The settings of a topic that can be created, as far as its partitions can be."""
    problem = bad_name(topic.name)
    if problem is not None:
        return problem
    if topic.name == METADATA_TOPIC:
        return Problem(Code.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if (id := context.image.names.get(topic.name)) is not None:
        how = "is marked for deletion" if id in context.soft_state.marked_for_deletion else "already exists"
        return Problem(Code.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' {how}.")
    other = names.other(context, topic.name)
    if other is not None:
        return Problem(Code.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {other}")
    configs = checked_new_configs(topic.configs)
    if isinstance(configs, Problem):
        return configs
    problem = wrong_together(context, ResourceType.TOPIC, configs) or settings_too_large(context.settings, configs)
    return problem or configs


def _create(
    context: DecisionContext, topic: NewTopic, names: _Names, defaults: dict[str, Setting]
) -> Created | Problem:
    """Records and result of one topic. ``defaults``: what all new topics have, as far as it was looked up before."""
    configs = _checked(context, topic, names)
    if isinstance(configs, Problem):
        return configs
    _, replicas = without_pauses(context, _replicas(context, topic))
    if isinstance(replicas, Problem):
        return replicas
    id = _new_id(context)
    partitions = _new_partitions(context, id, 0, replicas)
    if isinstance(partitions, Problem):
        return partitions
    records = [*_head(topic, id, configs), *map(to_record, partitions)]
    return _created(context, topic, records, partitions, _effective(context, configs, defaults))


def _made(
    context: DecisionContext, topic: NewTopic, configs: dict[str, str]
) -> Parts[tuple[DecisionContext, Prepared | Problem]]:
    """The records of one topic, with pauses."""
    context, replicas = yield from _replicas(context, topic)
    if isinstance(replicas, Problem):
        return context, replicas
    id = _new_id(context)
    return (yield from made(context, _head(topic, id, configs), id, 0, replicas))


def _new_id(context: DecisionContext) -> bytes:
    id = context.rng.uuid()
    assert id not in context.image.topics, "a topic id came twice"
    return id


def _head(topic: NewTopic, id: bytes, configs: dict[str, str]) -> list[Message]:
    """The records of a topic before those of its partitions."""
    named = sorted(configs.items())
    settings = [ConfigRecord(resource_type=2, resource_name=topic.name, name=name, value=text) for name, text in named]
    return [TopicRecord(name=topic.name, topic_id=id), *settings]


def _effective(
    context: DecisionContext, configs: dict[str, str], defaults: dict[str, Setting]
) -> tuple[tuple[str, Setting], ...]:
    """Every setting that the new topic will have."""
    if not defaults:
        static = context.settings.static
        defaults.update({key: topic_setting(context.image, "", key, static) for key in visible_topic_keys()})
    return tuple(
        (key, Setting(key, configs[key], ConfigSource.DYNAMIC_TOPIC) if key in configs else default)
        for key, default in defaults.items()
    )


def _created(
    context: DecisionContext,
    topic: NewTopic,
    records: Sequence[Message],
    partitions: Collection[Partition],
    settings: tuple[tuple[str, Setting], ...],
) -> Created | Problem:
    """The records of a topic, which may be too large, and its result. ``settings``: all that it will have."""
    if (large := topic_too_large(context.settings, partitions)) is not None:
        return large
    first = next(iter(partitions))
    return records, TopicResult(
        name=topic.name,
        topic_id=first.topic_id,
        partitions=len(partitions),
        replication_factor=len(first.replicas),
        configs=settings,
    )


def _replicas(context: DecisionContext, topic: NewTopic) -> Parts[tuple[DecisionContext, Placed | Problem]]:
    """Replicas of the new topic's partitions, with pauses."""
    return (yield from (_assigned if topic.assignments else _placed)(context, topic))


def _assigned(context: DecisionContext, topic: NewTopic) -> Parts[tuple[DecisionContext, Placed | Problem]]:
    """Replicas as given by hand: partitions 0..n-1, all with as many replicas."""
    if topic.replication_factor != -1:
        why = "A manual partition assignment was specified, but replication factor was not set to -1."
        return context, Problem(Code.INVALID_REQUEST, why)
    if topic.partitions != -1:
        why = "A manual partition assignment was specified, but numPartitions was not set to -1."
        return context, Problem(Code.INVALID_REQUEST, why)
    if len(topic.assignments) > context.settings.max_records:
        return context, TOO_MANY
    given: dict[int, tuple[int, ...]] = {}

    def wrong(context: DecisionContext, one: tuple[int, tuple[int, ...]]) -> Problem | None:
        number, replicas = one
        if number in given:
            why = f"Found multiple manual partition assignments for partition {number}"
            return Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
        factor = len(next(iter(given.values()))) if given else None
        given[number] = replicas
        return bad_assignment(context.image, replicas, factor)

    context, problem = yield from checked(context, topic.assignments, wrong)
    if problem is not None:
        return context, problem
    if max(given) != len(given) - 1 or min(given) != 0:
        why = "partitions should be a consecutive 0-based integer sequence"
        return context, Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
    return context, [given[number] for number in range(len(given))]


def _placed(context: DecisionContext, topic: NewTopic) -> Parts[tuple[DecisionContext, Placed | Problem]]:
    """Replicas by the placer, for the numbers given or the defaults."""
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        why = "Replication factor must be larger than 0, or -1 to use the default value."
        return context, Problem(Code.INVALID_REPLICATION_FACTOR, why)
    if topic.partitions < -1 or topic.partitions == 0:
        wrong = "Number of partitions was set to an invalid non-positive value."
        return context, Problem(Code.INVALID_PARTITIONS, wrong)
    count = topic.partitions
    if count == -1:
        count = context.settings.number(context.image, "num.partitions")
    if count > context.settings.max_records:  # refused before it is placed: the work would be done for nothing
        return context, TOO_MANY
    factor = topic.replication_factor
    if factor == -1:
        factor = context.settings.number(context.image, "default.replication.factor")
    return (yield from placed(context, count, factor))


def _new_partitions(
    context: DecisionContext, topic_id: bytes, first: int, placed: Sequence[tuple[int, ...]]
) -> list[Partition] | Problem:
    """Partitions ``first``.. of a topic."""
    partitions: list[Partition] = []
    known: Known = {}
    for number, replicas in enumerate(placed, first):
        partition = partition_of(context, known, topic_id, number, replicas)
        if isinstance(partition, Problem):
            return partition
        partitions.append(partition)
    return partitions


def delete_topics(context: DecisionContext, request: DeleteTopics) -> Work:
    """Delete topics by name or id. The same topic twice in one request is refused twice."""
    count = Counter(topic.id for item in request.topics if (topic := _find(context, item)) is not None)

    def delete(context: DecisionContext, item: str | bytes) -> tuple[list[Message], DeleteResult]:
        topic = _find(context, item)
        name = item if isinstance(item, str) else None
        if topic is None:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION if isinstance(item, str) else Code.UNKNOWN_TOPIC_ID
            id = NO_UUID if isinstance(item, str) else item
            return [], DeleteResult(name=name, topic_id=id, problem=Problem(code, "The topic does not exist."))
        if count[topic.id] > 1:
            twice = Problem(Code.INVALID_REQUEST, "The topic is named more than once in the request.")
            return [], DeleteResult(name=name or topic.name, topic_id=topic.id, problem=twice)
        if not context.settings.delete_topic_enable:
            off = Problem(Code.TOPIC_DELETION_DISABLED, "delete.topic.enable is false.")
            return [], DeleteResult(name=topic.name, topic_id=topic.id, problem=off)
        moving = [number for number, partition in topic.partitions.items() if partition.reassigning]
        if _must_wait(context, topic, request.deleted, moving):
            why = _obstacle(context, topic, moving)
            said = "its replicas are deleted first" if why is None else f"which waits: {why}"
            waits = Problem(Code.REQUEST_TIMED_OUT, f"Topic {topic.name} is marked for deletion, {said}.")
            # Once it is marked no move begins: what is read here still holds when its replicas are told to go.
            may_begin = not moving and topic.id in context.soft_state.marked_for_deletion
            waiting = why is not None
            return [], DeleteResult(
                name=topic.name, topic_id=topic.id, problem=waits, may_begin=may_begin, waits=waiting
            )
        return [RemoveTopicRecord(topic_id=topic.id)], DeleteResult(name=topic.name, topic_id=topic.id)

    records, results = yield from batched(context, request.topics, delete)
    return Decision(records, TopicsDeleted(topics=tuple(results)))


def _must_wait(context: DecisionContext, topic: Topic, deleted: Container[bytes], moving: Sequence[int]) -> bool:
    """Whether a topic stays for now: in ZooKeeper mode while a partition of it moves, and until all replicas went."""
    return context.settings.deletions_wait and (bool(moving) or topic.id not in deleted)


def _obstacle(context: DecisionContext, topic: Topic, moving: Sequence[int]) -> str | None:
    """What keeps a topic from being deleted now (TD-1): a partition that is being reassigned, or a replica that is not
    online. None when only its replicas have to go first."""
    if moving:
        return f"partition {moving[0]} is being reassigned"
    brokers = context.image.brokers
    for number, partition in topic.partitions.items():
        for replica in partition.replicas:
            if not context.image.is_active(replica):
                return f"broker {replica} is not alive, which has a replica of partition {number}"
            if not brokers[replica].has_online_dir(partition.directory(replica)):
                return f"broker {replica} has lost the directory of its replica of partition {number}"
    return None


def _find(context: DecisionContext, item: str | bytes) -> Topic | None:
    return context.image.topic(item) if isinstance(item, str) else context.image.topics.get(item)


def adopt_partitions(context: DecisionContext, request: AdoptPartitions) -> Decision:
    """Give partitions that a tool put down their first leaders: those of which a replica lives; the others wait."""
    topic = context.image.topic(request.name)
    id = topic.id if topic is not None else request.topic_id or context.rng.uuid()
    if topic is None and id in context.image.topics:
        why = f"Topic {request.name} has the id of topic {context.image.topics[id].name}."
        return Decision([], Refused(Code.INCONSISTENT_TOPIC_ID, why))
    if topic is not None and topic.id in context.soft_state.marked_for_deletion:
        return Decision([], Refused(Code.INVALID_TOPIC_EXCEPTION, f"Topic {request.name} is being deleted."))
    records: list[Message] = []
    for number, replicas in request.partitions:
        isr = tuple(r for r in replicas if context.image.is_active(r))
        if isr and (topic is None or number not in topic.partitions):
            directories = tuple(context.default_directory(r) for r in replicas)
            records.append(to_record(Partition(id, number, replicas, isr, leader=isr[0], directories=directories)))
    if topic is None and records:
        named = [ConfigRecord(resource_type=2, resource_name=request.name, name=n, value=v) for n, v in request.configs]
        records = [TopicRecord(name=request.name, topic_id=id), *named, *records]
    return Decision(records, Done())
