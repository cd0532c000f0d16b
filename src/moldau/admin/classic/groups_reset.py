"""What kafka-consumer-groups.sh --reset-offsets does: new offsets for groups that nobody is in, shown or committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from moldau.admin.classic.group_options import SCENARIOS
from moldau.admin.classic.groups_session import GroupSession, valid_group, wrapped
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_csv import read_plan, write_line
from moldau.admin.classic.java_json import read_file
from moldau.admin.classic.java_order import hash_order, partition_hash, string_hash
from moldau.admin.classic.java_times import java_ago_ms, java_datetime_ms
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.admin.classic.options import GivenOptions, ToolUsageError, java_integer
from moldau.admin.classic.session import executed, warn
from moldau.client import groups
from moldau.client.consumer_groups import ConsumerGroup
from moldau.client.groups import Committed
from moldau.client.reading import EARLIEST, LATEST
from moldau.model import Code, TopicPartition
from moldau.wire.varints import long as java_long

Offsets = Mapping[TopicPartition, int]


def reset(session: GroupSession, given: GivenOptions) -> None:
    """Find the new offsets of all groups, commit them when told to, and print them as a table or as CSV."""
    try:
        described = session.described(session.chosen_groups())
    except JavaError as error:
        raise wrapped(error) from None
    asked = hash_order(described, string_hash, len(described))  # in Java's order of a table of just that size
    found = {name: _reset_group(session, given, described[name]) for name in asked}
    plans = {name: found[name] for name in hash_order(asked, string_hash)}
    if given.has("export"):
        alone = len(given.values("group")) == 1
        rows = [
            ([] if alone else [name]) + [p.topic, str(p.partition), str(offset)]
            for name, plan in plans.items()
            for p, offset in plan.items()
        ]
        print("".join(map(write_line, rows)))
        return
    widths = [
        max([15, *map(len, plans)]),
        max([15, *(len(p.topic) for plan in plans.values() for p in plan)]),
    ]
    table = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] if plans else []
    table += [(name, p.topic, str(p.partition), str(o)) for name, plan in plans.items() for p, o in plan.items()]
    print("".join(f"\n{group:{widths[0]}} {topic:{widths[1]}} {n:10} {offset}" for group, topic, n, offset in table))


def with_partitions(text: str) -> list[TopicPartition]:
    """What ``topic:0,1,2`` names."""
    topic, *rest = text.rstrip(":").split(":")
    if len(rest) != 1:
        raise illegal_argument(f"Invalid topic arg '{text}', expected topic name and partitions")
    found = []
    for number in rest[0].rstrip(",").split(","):
        try:
            found.append(TopicPartition(topic, java_integer(number)))
        except ValueError:
            raise illegal_argument(f"Invalid partition '{number}' specified in topic arg '{text}''") from None
    return found


def _reset_group(session: GroupSession, given: GivenOptions, group: ConsumerGroup) -> Offsets:
    if group.outcome.code is not Code.GROUP_ID_NOT_FOUND:
        try:
            valid_group(group)
        except JavaError as error:
            raise wrapped(executed(error)) from None
        if group.state not in ("Empty", "Dead"):
            state = f"but the current state is {group.state}."
            print(f"\nError: Assignments can only be reset if the group '{group.group_id}' is inactive, {state}")
            return {}
    partitions = _scope(session, given, group.group_id)
    _check_partitions(session, partitions)
    plan = _plan(session, given, group.group_id, partitions)
    if given.has("execute") and not given.has("dry-run"):
        _commit(session, group.group_id, plan)
    return plan


def _commit(session: GroupSession, group: str, plan: Offsets) -> None:
    positions = {p: Committed(offset) for p, offset in plan.items()}
    call = "alterConsumerGroupOffsets(api=FIND_COORDINATOR)"
    codes = session.ask(call, groups.commit, group, positions) if positions else {}
    failed = [p for p in plan if codes[p] is not Code.NONE]
    if failed:
        shown = ", ".join(map(str, failed))
        why = f"Failed altering group offsets for the following partitions: [{shown}]"
        raise kafka_error(codes[failed[0]], why)


def _scope(session: GroupSession, given: GivenOptions, group: str) -> list[TopicPartition]:
    if given.has("all-topics"):
        return list(session.committed(group))
    if not given.has("topic"):
        if not given.has("from-file"):
            given.refuse("One of the reset scopes should be defined: --all-topics, --topic.")
        return []
    found = [p for one in given.values("topic") if ":" in one for p in with_partitions(one)]
    return found + session.partitions([one for one in given.values("topic") if ":" not in one])


def _check_partitions(session: GroupSession, partitions: list[TopicPartition]) -> None:
    try:
        existing = set(session.partitions({p.topic for p in partitions}))
    except JavaError as error:
        raise wrapped(executed(error)) from None
    missing = ",".join(str(p) for p in partitions if p not in existing)
    if missing:
        raise JavaError(f"{PACKAGE}UnknownTopicOrPartitionException", f'The partitions "{missing}" do not exist')
    unled = ",".join(map(str, session.without_leader(partitions)))
    if unled:
        raise JavaError(f"{PACKAGE}LeaderNotAvailableException", f'The partitions "{unled}" have no leader')


def _plan(session: GroupSession, given: GivenOptions, group: str, partitions: list[TopicPartition]) -> Offsets:
    """The new offset of each partition, in the order of Java's map."""
    order = hash_order(partitions, partition_hash)
    if given.has("to-offset"):
        offset = given.integers("to-offset", 64)[0]
        _demand_once(partitions, lambda _: str(offset))
        return _within(session, dict.fromkeys(order, offset))
    if given.has("to-earliest"):
        _demand_once(partitions, _spec("Earliest"))
        return _at(session, order, EARLIEST)
    if given.has("to-latest"):
        _demand_once(partitions, _spec("Latest"))
        return _at(session, order, LATEST)
    if given.has("shift-by"):
        shifted = _shifted(session, given, group, partitions)
        _demand_once(partitions, lambda p: str(shifted[p]))
        return _within(session, {p: shifted[p] for p in order})
    if given.has("to-datetime"):
        return _since(session, partitions, java_datetime_ms(given.values("to-datetime")[0]))
    if given.has("by-duration"):
        return _since(session, partitions, java_ago_ms(time.time_ns(), given.text("by-duration")))
    if given.has("from-file"):
        return _from_file(session, given, group)
    if given.has("to-current"):
        return _current(session, group, partitions)
    listed = ", ".join(f"[{name}]" for name in SCENARIOS)
    raise ToolUsageError(given.options, f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")


def _at(session: GroupSession, partitions: Collection[TopicPartition], end: int) -> Offsets:
    return {p: found.offset for p, found in session.offsets(dict.fromkeys(partitions, end)).items()}


def _within(session: GroupSession, wanted: Offsets) -> Offsets:
    """The wanted offsets, none outside its partition's log."""
    starts, ends = _at(session, wanted, EARLIEST), _at(session, wanted, LATEST)
    found = {}
    for p, offset in wanted.items():
        kept = ends[p] if offset > ends[p] else max(offset, starts[p])
        if kept != offset:
            bound = "higher than latest" if kept < offset else "lower than earliest"
            text = f"New offset ({offset}) is {bound} offset for topic partition {p}. Value will be set to {kept}"
            warn(text, "org.apache.kafka.tools.OffsetsUtils")
        found[p] = kept
    return found


def _shifted(session: GroupSession, given: GivenOptions, group: str, partitions: list[TopicPartition]) -> Offsets:
    committed, by = session.committed(group), given.integer("shift-by", 64) or 0
    for p in partitions:
        if p not in committed:
            raise illegal_argument(f"Cannot shift offset for partition {p} since there is no current committed offset")
    return {p: java_long(committed[p].offset + by) for p in partitions}


def _demand_once(partitions: Collection[TopicPartition], shown: Callable[[TopicPartition], str]) -> None:
    """JavaError for a partition that is there twice, which Java's maps do not take; ``shown`` is its value there."""
    seen: set[TopicPartition] = set()
    for p in partitions:
        if p in seen:
            why = f"Duplicate key {p} (attempted merging values {shown(p)} and {shown(p)})"
            raise JavaError("java.lang.IllegalStateException", why)
        seen.add(p)


def _spec(kind: str) -> Callable[[TopicPartition], str]:
    """How Java shows the place that is asked for: as an object without a text of its own, at an address."""
    return lambda p: f"org.apache.kafka.clients.admin.OffsetSpec${kind}Spec@{partition_hash(p) & 0xFFFFFFFF:x}"


def _since(session: GroupSession, given: list[TopicPartition], time_ms: int) -> Offsets:
    _demand_once(given, _spec("Timestamp"))
    partitions = hash_order(given, partition_hash)
    found = _at(session, partitions, time_ms)
    late = [p for p in partitions if found[p] < 0]
    for p in late:
        print(f"\nWarn: Partition {p.partition} from topic {p.topic} is empty. Falling back to latest known offset.")
    ends = _at(session, late, LATEST)
    return {p: ends.get(p, found[p]) for p in partitions}


def _from_file(session: GroupSession, given: GivenOptions, group: str) -> Offsets:
    path, named = given.values("from-file")[0], given.values("group")
    plans: dict[str, dict[TopicPartition, int]] = {}
    for _ in range(2):  # Kafka's tool reads it twice, and says twice what it finds odd
        try:
            text = read_file(path)
        except JavaError as error:
            raise wrapped(error) from None
        plans = read_plan(text, named[0] if len(named) == 1 else None)
    if group not in plans:
        print(f"\nError: No reset plan for group {group} found")
        return {}
    return _within(session, {p: plans[group][p] for p in hash_order(plans[group], partition_hash)})


def _current(session: GroupSession, group: str, partitions: list[TopicPartition]) -> Offsets:
    committed = session.committed(group)
    held, new = ([p for p in partitions if (p in committed) is known] for known in (True, False))
    _demand_once(held, lambda p: f"OffsetAndMetadata{{offset={committed[p].offset}, leaderEpoch=null, metadata=''}}")
    _demand_once(new, _spec("Latest"))
    stay = hash_order(held, partition_hash)
    ends = _at(session, hash_order(new, partition_hash), LATEST)
    found = {p: committed[p].offset for p in stay} | dict(ends)
    return {p: found[p] for p in hash_order(found, partition_hash)}
