"""Topics: create, delete, and more partitions. Items of one ask stand for themselves: a bad one harms no other.

A new topic's records are the topic, its settings, its partitions, in this order. Deletion is one record: brokers delete
files as they apply it, and a topic id never comes back (C8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from moldau.controller.asks import (
    AdoptPartitions,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
)
from moldau.controller.batched import Work, batched
from moldau.controller.config_rules import wrong_together
from moldau.controller.configs import checked_new_configs
from moldau.controller.facts import FINE, Decision, Problem, View
from moldau.controller.placement import bad_assignment, place
from moldau.controller.replies import (
    DeleteResult,
    Done,
    PartitionsCreated,
    Refused,
    TopicResult,
    TopicsCreated,
    TopicsDeleted,
)
from moldau.controller.sizes import settings_too_large, topic_too_large
from moldau.image import Topic
from moldau.image.configs import Resource, Setting, Source, topic_setting, visible_topic_keys
from moldau.image.partition import Partition, to_record
from moldau.terms import NO_UUID, Code
from moldau.terms.ids import METADATA_TOPIC, is_topic_name
from moldau.wire.records.metadata import ConfigRecord, RemoveTopicRecord, TopicRecord
from moldau.wire.schema import Struct

Placed = list[tuple[int, ...]]


_TOO_MANY = Problem(Code.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def create_topics(view: View, ask: CreateTopics) -> Work:
    """Create what can be created. The same name twice in one ask is refused twice."""
    count = Counter(topic.name for topic in ask.topics)
    names = _Names(view, count)
    defaults: dict[str, Setting] = {}
    written = 0

    def create(view: View, topic: NewTopic) -> tuple[list[Struct], TopicResult]:
        nonlocal written
        if count[topic.name] > 1:
            why = f"Create topics request includes the topic {topic.name} more than once."
            return [], TopicResult(name=topic.name, problem=Problem(Code.INVALID_REQUEST, why))
        outcome = _create(view, topic, names, defaults)
        if not isinstance(outcome, Problem) and written + len(outcome[0]) > view.settings.max_records:
            outcome = _TOO_MANY
        if isinstance(outcome, Problem):
            return [], TopicResult(name=topic.name, problem=outcome)
        made, result = outcome
        written += len(made)
        names.take(topic.name)
        return [] if ask.validate_only else made, result

    records, results = yield from batched(view, ask.topics, create)
    return Decision(records, TopicsCreated(topics=tuple(results)))


class _Names:
    """Names with dots as underscores, as metrics will have them: two topics must not be one there."""

    def __init__(self, view: View, wanted: Iterable[str]) -> None:
        self._matter = any("." in name or "_" in name for name in wanted)
        self._known: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._end = -2

    def other(self, view: View, name: str) -> str | None:
        """The topic that ``name`` collides with, if there is one."""
        if not self._matter:
            return None
        if view.image.offset != self._end:  # others may have created topics since the last part
            self._end = view.image.offset
            self._known = {one.replace(".", "_"): one for one in view.image.names if "." in one or "_" in one}
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


def _create(
    view: View, topic: NewTopic, names: _Names, defaults: dict[str, Setting]
) -> tuple[list[Struct], TopicResult] | Problem:
    """Records and result of one topic. ``defaults``: what all new topics have, as far as it was looked up before."""
    problem = bad_name(topic.name)
    if problem is not None:
        return problem
    if topic.name == METADATA_TOPIC:
        return Problem(Code.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if topic.name in view.image.names:
        return Problem(Code.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    other = names.other(view, topic.name)
    if other is not None:
        return Problem(Code.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {other}")
    configs = checked_new_configs(topic.configs)
    if isinstance(configs, Problem):
        return configs
    wrong = wrong_together(view, Resource.TOPIC, configs) or settings_too_large(view.settings, configs)
    if wrong is not None:
        return wrong
    placed = _assigned(view, topic) if topic.assignments else _placed(view, topic)
    if isinstance(placed, Problem):
        return placed
    id = view.chance.uuid()
    assert id not in view.image.topics, "a topic id came twice"
    partitions = _new_partitions(view, id, 0, placed)
    if isinstance(partitions, Problem):
        return partitions
    if (large := topic_too_large(view.settings, partitions)) is not None:
        return large
    records: list[Struct] = [TopicRecord(name=topic.name, topic_id=id)]
    records += [
        ConfigRecord(resource_type=2, resource_name=topic.name, name=name, value=value)
        for name, value in sorted(configs.items())
    ]
    records += map(to_record, partitions)
    return records, TopicResult(
        name=topic.name,
        topic_id=id,
        partitions=len(placed),
        replication_factor=len(placed[0]),
        configs=_effective(view, configs, defaults),
    )


def _effective(view: View, configs: dict[str, str], defaults: dict[str, Setting]) -> tuple[tuple[str, Setting], ...]:
    """Every setting that the new topic will have."""
    if not defaults:
        defaults.update({key: topic_setting(view.image, "", key, view.settings.static) for key in visible_topic_keys()})
    return tuple(
        (key, Setting(key, configs[key], Source.DYNAMIC_TOPIC) if key in configs else default)
        for key, default in defaults.items()
    )


def _assigned(view: View, topic: NewTopic) -> Placed | Problem:
    """Replicas as given by hand: partitions 0..n-1, all with as many replicas."""
    if topic.replication_factor != -1:
        why = "A manual partition assignment was specified, but replication factor was not set to -1."
        return Problem(Code.INVALID_REQUEST, why)
    if topic.partitions != -1:
        why = "A manual partition assignment was specified, but numPartitions was not set to -1."
        return Problem(Code.INVALID_REQUEST, why)
    if len(topic.assignments) > view.settings.max_records:
        return _TOO_MANY
    given: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for number, replicas in topic.assignments:
        if number in given:
            why = f"Found multiple manual partition assignments for partition {number}"
            return Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
        problem = bad_assignment(view.image, replicas, factor)
        if problem is not None:
            return problem
        given[number] = replicas
        factor = len(replicas)
    if sorted(given) != list(range(len(given))):
        why = "partitions should be a consecutive 0-based integer sequence"
        return Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
    return [given[number] for number in range(len(given))]


def _placed(view: View, topic: NewTopic) -> Placed | Problem:
    """Replicas by the placer, for the numbers given or the defaults."""
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        why = "Replication factor must be larger than 0, or -1 to use the default value."
        return Problem(Code.INVALID_REPLICATION_FACTOR, why)
    if topic.partitions < -1 or topic.partitions == 0:
        return Problem(Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = topic.partitions
    if count == -1:
        count = view.settings.number(view.image, "num.partitions")
    if count > view.settings.max_records:  # refused before it is placed: the work would be done for nothing
        return _TOO_MANY
    factor = topic.replication_factor
    if factor == -1:
        factor = view.settings.number(view.image, "default.replication.factor")
    return place(view.image, count, factor, view.chance)


def _new_partitions(
    view: View, topic_id: bytes, first: int, placed: Sequence[tuple[int, ...]]
) -> list[Partition] | Problem:
    """Partitions ``first``.. with all active replicas in the ISR, led by the first of them. Of a thousand partitions
    most have the same replicas as others: what these mean is looked up once."""
    partitions = []
    known: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[bytes, ...]]] = {}
    for number, replicas in enumerate(placed, first):
        if replicas not in known:
            active = tuple(r for r in replicas if view.image.is_active(r))
            known[replicas] = active, tuple(view.default_directory(r) for r in replicas)
        isr, directories = known[replicas]
        if not isr:  # only by hand: the placer gives every partition an active leader
            why = (
                f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
                "controlled shutdown."
            )
            return Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
        partitions.append(Partition(topic_id, number, replicas, isr, leader=isr[0], directories=directories))
    return partitions


def delete_topics(view: View, ask: DeleteTopics) -> Work:
    """Delete topics by name or id. The same topic twice in one ask is refused twice."""
    count = Counter(topic.id for item in ask.topics if (topic := _find(view, item)) is not None)

    def delete(view: View, item: str | bytes) -> tuple[list[Struct], DeleteResult]:
        topic = _find(view, item)
        name = item if isinstance(item, str) else None
        if topic is None:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION if isinstance(item, str) else Code.UNKNOWN_TOPIC_ID
            id = NO_UUID if isinstance(item, str) else item
            return [], DeleteResult(name=name, topic_id=id, problem=Problem(code, "The topic does not exist."))
        if count[topic.id] > 1:
            twice = Problem(Code.INVALID_REQUEST, "The topic is named more than once in the request.")
            return [], DeleteResult(name=name or topic.name, topic_id=topic.id, problem=twice)
        if not view.settings.delete_topic_enable:
            off = Problem(Code.TOPIC_DELETION_DISABLED, "delete.topic.enable is false.")
            return [], DeleteResult(name=topic.name, topic_id=topic.id, problem=off)
        return [RemoveTopicRecord(topic_id=topic.id)], DeleteResult(name=topic.name, topic_id=topic.id)

    records, results = yield from batched(view, ask.topics, delete)
    return Decision(records, TopicsDeleted(topics=tuple(results)))


def _find(view: View, item: str | bytes) -> Topic | None:
    return view.image.topic(item) if isinstance(item, str) else view.image.topics.get(item)


def adopt_partitions(view: View, ask: AdoptPartitions) -> Decision:
    """Give partitions that a tool put down their first leaders: those of which a replica lives; the others wait."""
    topic = view.image.topic(ask.name)
    id = topic.id if topic is not None else ask.topic_id or view.chance.uuid()
    if topic is None and id in view.image.topics:
        why = f"Topic {ask.name} has the id of topic {view.image.topics[id].name}."
        return Decision([], Refused(Code.INCONSISTENT_TOPIC_ID, why))
    records: list[Struct] = []
    for number, replicas in ask.partitions:
        isr = tuple(r for r in replicas if view.image.is_active(r))
        if isr and (topic is None or number not in topic.partitions):
            directories = tuple(view.default_directory(r) for r in replicas)
            records.append(to_record(Partition(id, number, replicas, isr, leader=isr[0], directories=directories)))
    if topic is None and records:
        named = [ConfigRecord(resource_type=2, resource_name=ask.name, name=n, value=v) for n, v in ask.configs]
        records = [TopicRecord(name=ask.name, topic_id=id), *named, *records]
    return Decision(records, Done())


def create_partitions(view: View, ask: CreatePartitions) -> Work:
    """Add partitions to topics; fewer than there are is refused (LI-2)."""
    count = Counter(item.name for item in ask.topics)
    written = 0

    def add(view: View, item: MorePartitions) -> tuple[list[Struct], tuple[str, Problem]]:
        nonlocal written
        if count[item.name] > 1:
            return [], (item.name, Problem(Code.INVALID_REQUEST, "Duplicate topic name."))
        outcome = _more(view, item)
        if not isinstance(outcome, Problem):
            present = view.image.topics[view.image.names[item.name]].partitions.values()
            outcome = topic_too_large(view.settings, (*present, *outcome)) or outcome
        if not isinstance(outcome, Problem) and written + len(outcome) > view.settings.max_records:
            outcome = _TOO_MANY
        if isinstance(outcome, Problem):
            return [], (item.name, outcome)
        written += len(outcome)
        return [] if ask.validate_only else list(map(to_record, outcome)), (item.name, FINE)

    records, results = yield from batched(view, ask.topics, add)
    return Decision(records, PartitionsCreated(topics=tuple(results)))


def _more(view: View, item: MorePartitions) -> list[Partition] | Problem:
    topic = view.image.topic(item.name)
    if topic is None:
        return Problem(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    now = len(topic.partitions)
    if any(number not in topic.partitions for number in range(now or 1)):
        why = f"Some partitions of topic {item.name} have no state yet, or none that can be read."
        return Problem(Code.INVALID_PARTITIONS, why)
    if item.count == now:
        return Problem(Code.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if item.count < now:
        why = f"The topic {item.name} currently has {now} partition(s); {item.count} would not be an increase."
        return Problem(Code.INVALID_PARTITIONS, why)
    added = item.count - now
    if added > view.settings.max_records:
        return _TOO_MANY
    factor = len(topic.partitions[0].original_replicas)
    if item.assignments is None:
        placed = place(view.image, added, factor, view.chance)
        if isinstance(placed, Problem):
            return placed
        return _new_partitions(view, topic.id, now, placed)
    if len(item.assignments) != added:
        why = (
            f"Attempted to add {added} additional partition(s), but only {len(item.assignments)} assignment(s) were "
            "specified."
        )
        return Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
    for replicas in item.assignments:
        problem = bad_assignment(view.image, replicas, factor)
        if problem is not None:
            return problem
    return _new_partitions(view, topic.id, now, item.assignments)
