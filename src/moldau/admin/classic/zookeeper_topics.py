"""kafka-topics.sh --zookeeper, as Apache Kafka 2.8.2 has it: topics in znodes, which the controller carries out.

Read next: zookeeper_placing.py (where new replicas go), zookeeper_topics_options.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.admin.classic.options import GivenOptions
from moldau.admin.classic.topics import COLLISION, assignment_of, configs_of, demand_one_action, exclude_others
from moldau.admin.classic.topics_named import REPORTS, include_list
from moldau.admin.classic.zookeeper_placing import live_brokers, place_replicas
from moldau.admin.classic.zookeeper_session import ADMIN_OPERATION, fitting, in_zookeeper
from moldau.admin.classic.zookeeper_settings import change_settings, read_settings, read_topic, write_settings
from moldau.admin.classic.zookeeper_topics_options import KEYS, OPTIONS
from moldau.model.ids import uuid_text
from moldau.ports.zookeeper import NodeExists, ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.payload import in_table_order
from moldau.zookeeper.znodes import ReplicaAssignment, StateZnode, TopicZnode, parse_state, topic_json

INTERNAL = ("__consumer_offsets", "__transaction_state")
LONGEST = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_AT_BROKERS = " (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    given = GivenOptions(OPTIONS, arguments)
    _check(given)

    async def work(zk: ZooKeeper) -> int:
        try:
            await _act(zk, given)
        except JavaError as error:
            print(f"Error while executing topic command : {error.said}")
            return 1
        return 0

    return in_zookeeper(given.text("zookeeper"), work)


async def _act(zk: ZooKeeper, given: GivenOptions) -> None:
    if given.has("create"):
        await _create(zk, given)
        return
    if given.has("list"):
        doomed = await zk.children(paths.DELETE_TOPICS)
        for name in await _topics(zk, given):
            print(f"{name} - marked for deletion" if name in doomed else name)
        return
    names = await _topics(zk, given)
    topic = given.value("topic")
    if given.has("alter"):
        changes = (configs_of(given, KEYS), assignment_of(given))
    if topic is not None and not names and not given.has("if-exists"):
        raise illegal_argument(f"Topic '{topic}' does not exist as expected")
    for name in names:
        if given.has("alter"):
            await _alter(zk, given, name, *changes)
        elif given.has("delete"):
            await _delete(zk, name)
    if given.has("describe"):
        await _describe(zk, given, names)


# ---- what is asked for


def _check(given: GivenOptions) -> None:
    demand_one_action(given)
    if given.has("bootstrap-server"):
        raise illegal_argument("Only one of --bootstrap-server or --zookeeper must be specified")
    if (given.has("describe") and given.has("if-exists")) or not (given.has("list") or given.has("describe")):
        given.require("topic")
    if given.has("create") and not given.has("replica-assignment"):
        given.require("partitions", "replication-factor")

    only_with = partial(exclude_others, given)
    only_with("config", "alter", "create")
    only_with("delete-config", "alter")
    only_with("partitions", "alter", "create")
    only_with("replication-factor", "create")
    only_with("replica-assignment", "create", "alter")
    if given.has("create"):
        given.exclude("replica-assignment", ["partitions", "replication-factor"])
    for report in REPORTS:
        only_with(report, "describe")
        given.exclude(report, [*(other for other in REPORTS if other != report), "topics-with-overrides"])
        if "min-isr" in report:
            given.exclude(report, ["zookeeper"])
    only_with("topics-with-overrides", "describe")
    given.exclude("topics-with-overrides", list(REPORTS))
    only_with("if-exists", "alter", "delete", "describe")
    only_with("if-not-exists", "create")
    only_with("exclude-internal", "list", "describe")


async def _topics(zk: ZooKeeper, given: GivenOptions) -> list[str]:
    """The topics that --topic, a regular expression, names, or all."""
    hide, text = given.has("exclude-internal"), given.value("topic")
    pattern = include_list(".*" if text is None else text)
    names = sorted(await zk.children(paths.TOPICS))
    return [name for name in names if pattern.fullmatch(name) and not (hide and name in INTERNAL)]


# ---- changes


async def _create(zk: ZooKeeper, given: GivenOptions) -> None:
    name = given.text("topic")
    partitions, factor = given.integer("partitions"), given.integer("replication-factor")
    chosen = list(assignment_of(given).values())
    configs = configs_of(given, KEYS)
    if "." in name or "_" in name:
        print(COLLISION)
    if not chosen:
        brokers = await live_brokers(zk, racks=not given.has("disable-rack-aware"))
        chosen = place_replicas(brokers, partitions or 0, factor or 0)
    try:
        refuse_name(name)
        await _refuse_taken_name(zk, name)
        new = TopicZnode(name, None, {at: ReplicaAssignment(tuple(replicas)) for at, replicas in enumerate(chosen)})
        data = fitting(topic_json(new))
        await write_settings(zk, f"topics/{name}", configs)
        try:
            await zk.create(paths.topic(name), data)
        except NodeExists:
            raise _exists(name) from None
    except JavaError as error:
        if given.has("if-not-exists") and error.kind.endswith(".TopicExistsException"):
            return
        raise
    print(f"Created topic {name}.")


def refuse_name(name: str) -> None:
    """JavaError for a name that no topic can have."""
    wrong = ""
    if not name:
        wrong = "Topic name is illegal, it can't be empty"
    elif name in (".", ".."):
        wrong = 'Topic name cannot be "." or ".."'
    elif len(name) > LONGEST:
        wrong = f"Topic name is illegal, it can't be longer than {LONGEST} characters, topic name: {name}"
    elif not _NAME.fullmatch(name):
        what = "a character other than ASCII alphanumerics, '.', '_' and '-'"
        wrong = f'Topic name "{name}" is illegal, it contains {what}'
    if wrong:
        raise JavaError(f"{PACKAGE}InvalidTopicException", wrong)


async def _refuse_taken_name(zk: ZooKeeper, name: str) -> None:
    """JavaError for a name that is another topic's, or too like one."""
    others = await zk.children(paths.TOPICS)
    if name in others:
        raise _exists(name)
    alike = [other for other in others if other.replace(".", "_") == name.replace(".", "_")]
    if alike and ("." in name or "_" in name):
        what = f"Topic '{name}' collides with existing topics: {', '.join(alike)}"
        raise JavaError(f"{PACKAGE}InvalidTopicException", what)


def _exists(name: str) -> JavaError:
    return JavaError(f"{PACKAGE}TopicExistsException", f"Topic '{name}' already exists.")


async def _alter(
    zk: ZooKeeper, given: GivenOptions, name: str, added: dict[str, str], assignment: dict[int, list[int]]
) -> None:
    if given.has("config") or given.has("delete-config"):
        deprecated = "Altering topic configuration from this script has been deprecated and may be removed"
        print(f"WARNING: {deprecated} in future releases.")
        print("         Going forward, please use kafka-configs.sh for this functionality")
        gone = {word.strip() for word in given.values("delete-config")}
        configs = {**await read_settings(zk, f"topics/{name}"), **added}
        await change_settings(zk, f"topics/{name}", {key: configs[key] for key in configs if key not in gone})
        print(f"Updated config for topic {name}.")
    count = given.integer("partitions")
    if count is None:
        return
    if name in INTERNAL:
        raise illegal_argument(f"The number of partitions for the internal topic {name} cannot be changed.")
    lost = "the partition logic or ordering of the messages will be affected"
    print(f"WARNING: If partitions are increased for a topic that has a key, {lost}")
    topic = await read_topic(zk, name)
    if topic is None:
        raise JavaError(f"{PACKAGE}InvalidTopicException", f"The topic {name} does not exist")
    chosen = list(assignment.values())[len(topic.partitions) :]
    new = await _new_partitions(zk, topic, count, chosen)
    everything = {
        **topic.partitions,
        **{len(topic.partitions) + at: ReplicaAssignment(tuple(r)) for at, r in enumerate(new)},
    }
    await zk.set(paths.topic(name), fitting(topic_json(topic._replace(partitions=everything))))
    print("Adding partitions succeeded!")


async def _new_partitions(
    zk: ZooKeeper, topic: TopicZnode, count: int, chosen: Sequence[Sequence[int]]
) -> Sequence[Sequence[int]]:
    """Replicas of the partitions that a topic is to have more; JavaError where there would not be more."""
    brokers = await live_brokers(zk, racks=True)
    there = len(topic.partitions)
    if count <= there:
        what = f"Topic {topic.name} currently has {there} partitions, {count} would not be an increase."
        rule = "The number of partitions for a topic can only be increased. "
        raise JavaError(f"{PACKAGE}InvalidPartitionsException", rule + what)
    first = topic.partitions[0].replicas
    if not chosen:
        start = next((at for at, id in enumerate(sorted(brokers)) if id >= first[0]), 0)
        return place_replicas(brokers, count - there, len(first), start=start, number=there)
    kind = f"{PACKAGE}InvalidReplicaAssignmentException"
    unknown = sorted({id for replicas in chosen for id in replicas} - set(brokers))
    if unknown:
        listed = ", ".join(map(str, unknown))
        raise JavaError(kind, f"Unknown broker(s) in replica assignment: {listed}.")
    odd = [(there + at, len(replicas)) for at, replicas in enumerate(chosen) if len(replicas) != len(first)]
    if odd:
        numbers, factors = (", ".join(str(one[at]) for one in odd) for at in (0, 1))
        what = f"partition 0 has {len(first)} while partitions [{numbers}] have replication factors [{factors}]"
        raise JavaError(kind, f"Inconsistent replication factor between partitions, {what}, respectively.")
    return chosen


async def _delete(zk: ZooKeeper, name: str) -> None:
    if name in INTERNAL:
        what = f"Topic {name} is a kafka internal topic and is not allowed to be marked for deletion."
        raise JavaError(ADMIN_OPERATION, what)
    try:
        await zk.create(paths.delete_topic(name))
    except NodeExists:
        print(f"Topic {name} is already marked for deletion.")
        return
    print(f"Topic {name} is marked for deletion.")
    print("Note: This will have no impact if delete.topic.enable is not set to true.")


# ---- describe


async def _describe(zk: ZooKeeper, given: GivenOptions, names: Sequence[str]) -> None:
    alive = set(paths.broker_ids(await zk.children(paths.BROKER_IDS))[0])
    doomed = await zk.children(paths.DELETE_TOPICS)
    reports, overrides = [one for one in REPORTS if given.has(one)], given.has("topics-with-overrides")
    for name in names:
        topic = await read_topic(zk, name)
        if topic is None:
            print(f"Topic {name} doesn't exist!")
            continue
        end = "\tMarkedForDeletion: true" if name in doomed else ""
        configs = await read_settings(zk, f"topics/{name}")
        if not reports and (configs or not overrides):
            print(_headline(topic, configs) + end)
        if overrides:
            continue
        numbers = sorted(topic.partitions)
        for number, found in zip(numbers, await zk.get_many([paths.state(name, at) for at in numbers]), strict=True):
            state = None if found is None else parse_state(name, number, found[0])
            replicas = topic.partitions[number].replicas
            if not reports or any(_is_reported(report, replicas, state, alive) for report in reports):
                print(_line(name, number, replicas, state) + end)


def _headline(topic: TopicZnode, configs: dict[str, str]) -> str:
    words = [f"Topic: {topic.name}"]
    words += [] if topic.id is None else [f"TopicId: {uuid_text(topic.id)}"]
    factor = len(topic.partitions[0].replicas)
    words += [f"PartitionCount: {len(topic.partitions)}", f"ReplicationFactor: {factor}"]
    words.append("Configs: " + ",".join(f"{key}={configs[key]}" for key in in_table_order(configs)))
    return "\t".join(words)


def _is_reported(report: str, replicas: Sequence[int], state: StateZnode | None, alive: set[int]) -> bool:
    if report == "under-replicated-partitions":
        return len(replicas) > (0 if state is None else len(state.isr))
    return state is None or state.leader not in alive


def _line(name: str, number: int, replicas: Sequence[int], state: StateZnode | None) -> str:
    leader = "none" if state is None or state.leader < 0 else str(state.leader)
    isr = () if state is None else state.isr
    words = (f"Partition: {number}", f"Leader: {leader}", f"Replicas: {_ids(replicas)}", f"Isr: {_ids(isr)}")
    return "\t".join((f"\tTopic: {name}", *words))


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
