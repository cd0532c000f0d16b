"""kafka-reassign-partitions.sh: moves replicas between brokers and log directories.

Read next: reassign_files.py (what it reads), reassign_throttles.py, reassign_directories.py; reassign.py of the package
above is the same of our own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from moldau.admin.classic import reassign_directories as directories
from moldau.admin.classic import reassign_throttles as throttles
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_json import read_file
from moldau.admin.classic.java_order import hash_order, partition_hash
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.admin.classic.options import GivenOptions
from moldau.admin.classic.reassign_files import (
    ListedReplica,
    Moves,
    brokers_in,
    executable,
    moves_in,
    text_of,
    topics_in,
)
from moldau.admin.classic.reassign_options import OPTIONS, action_of
from moldau.admin.classic.session import (
    ADMIN_FAILED,
    ADMIN_OPERATION,
    ToolSession,
    checked,
    executed,
    no_name,
    read_config,
)
from moldau.client import admin
from moldau.client.admin import Reassignment
from moldau.client.described import DescribedTopic, describe_topics
from moldau.client.view import Outcome
from moldau.controller.facts import SeededRng
from moldau.controller.placement import Placer
from moldau.image import Broker
from moldau.model import NO_UUID, Code, TopicPartition

ALREADY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
NO_RACKS = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
    "without rack information."
)


class Terse(Exception):
    """A failure that is told in a line, without a trace."""


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    return run(GivenOptions(OPTIONS, arguments))


def run(given: GivenOptions) -> int:
    """Do what the options say; the exit status."""
    action = action_of(given)
    try:
        places = given.value("bootstrap-server"), given.value("bootstrap-controller")
        config = read_config(given.value("command-config"))
        if places == (None, None):  # the option is there, its value is not
            raise JavaError("java.lang.NullPointerException", None)
        with ToolSession(config, places[0], controllers=places[1]) as session:
            ACTIONS[action](session, given)
    except Terse as error:
        print(error)
        return 1
    except JavaError as error:
        of_broker = error.kind.startswith(PACKAGE) and not error.kind.endswith("InvalidReplicationFactorException")
        return failed(executed(error) if of_broker else error)
    return 0


def failed(error: JavaError) -> int:
    """Tell of a failure, on standard output as this tool does; the exit status."""
    print(f"Error: {error.said}\n{error.trace}")
    return 1


# ---- verify


def _verify(session: ToolSession, given: GivenOptions) -> None:
    moves = moves_in(read_file(given.text("reassignment-json-file")))
    under_way = _under_way(session)
    targets = dict(moves.partitions)
    found = _topics(session, {p.topic for p in targets if p not in under_way})
    states = [_state(partition, targets[partition], under_way, found) for partition in sorted(targets)]
    print("\n".join(["Status of partition reassignment:", *states]))
    where = directories.where(session, moves.directories)
    print("\n".join(directories.states(where, moves.directories)))
    copying = any(at.now is None or at.next is not None for at in where.values())
    if not under_way and not copying and not given.has("preserve-throttles"):
        _clear_throttles(session, moves)


def _state(
    partition: TopicPartition,
    wanted: Sequence[int],
    under_way: Mapping[TopicPartition, Reassignment],
    topics: Mapping[str, DescribedTopic],
) -> str:
    if partition in under_way:
        return f"Reassignment of partition {partition} is still in progress."
    topic = topics[partition.topic]
    current: list[int] = []
    if topic.code not in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION):
        raise kafka_error(topic.code)
    if topic.code is Code.NONE and len(topic.partitions) >= partition.partition:
        parts = sorted(topic.partitions, key=lambda part: part.number)
        if not 0 <= partition.partition < len(parts):
            text = f"Index {partition.partition} out of bounds for length {len(parts)}"
            raise JavaError("java.lang.IndexOutOfBoundsException", text)
        current = parts[partition.partition].replicas
    if current == wanted:
        return f"Reassignment of partition {partition} is completed."
    sets = f"but replica set is {_ids(current)} rather than {_ids(wanted)}."
    return f"There is no active reassignment of partition {partition}, {sets}"


def _clear_throttles(session: ToolSession, moves: Moves) -> None:
    session.know("listNodes", [])
    alive = list(session.cluster.client.view.brokers)
    named = [id for _, replicas in moves.partitions for id in replicas]
    throttles.clear(session, [*alive, *named], [p.topic for p, _ in moves.partitions])


# ---- generate


def _generate(session: ToolSession, given: GivenOptions) -> None:
    text = read_file(given.text("topics-to-move-json-file"))
    ids = brokers_in(given.text("broker-list"))
    topics = topics_in(text)
    current = _replicas(session, topics)
    session.know("listNodes", [])
    view = session.cluster.client.view
    brokers = {id: view.brokers[id].rack for id in ids if id in view.brokers}
    if given.has("disable-rack-aware"):
        brokers = dict.fromkeys(brokers)
    elif len({rack is None for rack in brokers.values()}) > 1:
        raise JavaError(ADMIN_OPERATION, NO_RACKS)
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in dict.fromkeys(topics):
        theirs = [replicas for p, replicas in sorted(current.items()) if p.topic == topic]
        placed = _placed(brokers, len(theirs), len(theirs[0])) if theirs else []
        proposed.update({TopicPartition(topic, number): replicas for number, replicas in enumerate(placed)})
    print(f"Current partition replica assignment\n{text_of(current, _directories(session, current))}\n")
    print(f"Proposed partition reassignment configuration\n{text_of(proposed)}")


def _placed(racks: Mapping[int, str | None], partitions: int, replicas: int) -> list[list[int]]:
    """Replicas dealt out as a controller deals those of a new topic."""
    if replicas > len(racks):
        why = f"only {len(racks)} broker(s) are registered or some brokers have all their log directories cordoned."
        text = f"The target replication factor of {replicas} cannot be reached because {why}"
        raise JavaError(f"{PACKAGE}InvalidReplicationFactorException", text)
    brokers = [Broker(id=id, epoch=0, incarnation_id=NO_UUID, rack=rack, fenced=False) for id, rack in racks.items()]
    placer = Placer(brokers, SeededRng(os.urandom(16)))
    return [list(placer.place(replicas)) for _ in range(partitions)]


# ---- execute


def _execute(session: ToolSession, given: GivenOptions) -> None:
    text = read_file(given.text("reassignment-json-file"))
    rate, directory_rate = given.integer("throttle", 64), given.integer("replica-alter-log-dirs-throttle", 64)
    timeout_ms = given.integer("timeout", 64)
    assert rate is not None
    assert directory_rate is not None
    assert timeout_ms is not None, "it has a default"
    moves = moves_in(text)
    wanted = executable(moves)
    under_way = _under_way(session)
    if under_way and not given.has("additional"):
        raise Terse(ALREADY)
    _refuse_unknown(session, [id for replicas in wanted.values() for id in replicas])
    current = _current(session, wanted)
    print(f"Current partition replica assignment\n\n{text_of(current, _directories(session, current))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if rate >= 0 or directory_rate >= 0:
        print(VERIFY_LATER)
    if rate >= 0:
        throttles.throttle_replicas(session, throttles.moves_of(under_way, wanted, current), rate)
    if directory_rate >= 0:
        brokers = hash_order([replica.broker for replica in moves.directories], int)
        throttles.throttle_directories(session, brokers, directory_rate)
    keeps = given.has("disallow-replication-factor-change")
    _alter(session, wanted, "Error reassigning partition(s):", other_factor=not keeps)
    several = "" if len(wanted) == 1 else "s"
    print(f"Successfully started partition reassignment{several} for {partitions_of(wanted)}")
    if moves.directories:
        _move_directories(session, moves.directories, timeout_ms)


def _alter(
    session: ToolSession,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    title: str,
    *,
    other_factor: bool = True,
) -> None:
    call = "alterPartitionReassignments"
    whole, outcomes = session.ask(call, admin.reassign, targets, other_factor=other_factor)
    wrong = {p: outcomes.get(p, Outcome(Code.UNKNOWN_SERVER_ERROR)) for p in targets}
    wrong = {p: one for p, one in wrong.items() if not one.ok} if whole.ok else dict.fromkeys(targets, whole)
    if wrong:
        lines = [f"{p}: {kafka_error(one.code, one.message).said}" for p, one in sorted(wrong.items())]
        raise Terse("\n".join([title.replace("(S)", "" if len(wrong) == 1 else "s"), *lines]))


def _move_directories(session: ToolSession, wanted: Mapping[ListedReplica, str], timeout_ms: int) -> None:
    late = directories.move(session, wanted, timeout_ms)
    if late is not None:
        raise Terse(late)


def _refuse_unknown(session: ToolSession, ids: Iterable[int]) -> None:
    session.know("listNodes", [])
    known = session.cluster.client.view.brokers
    for id in hash_order(ids, int):
        if id not in known:
            raise JavaError(ADMIN_FAILED, f"Unknown broker id {id}")


# ---- cancel, list


def _cancel(session: ToolSession, given: GivenOptions) -> None:
    text = read_file(given.text("reassignment-json-file"))
    timeout_ms = given.integer("timeout", 64)
    assert timeout_ms is not None, "it has a default"
    moves = moves_in(text)
    partitions = list(dict.fromkeys(p for p, _ in moves.partitions))
    under_way = {p: one for p, one in _under_way(session, partitions).items() if one.adding or one.removing}
    if under_way:
        _alter(session, dict.fromkeys(under_way), "Error cancelling partition reassignment(S) for:")
        several = "" if len(under_way) == 1 else "s"
        print(f"Successfully cancelled partition reassignment{several} for: {partitions_of(under_way)}")
    else:
        print("None of the specified partition reassignments are active.")
    where = directories.where(session, moves.directories)
    back = {replica: at.now for replica, at in where.items() if at.next is not None and at.now is not None}
    if back:
        _move_directories(session, back, timeout_ms)
    else:
        print("None of the specified partition moves are active.", end="")
    if not given.has("preserve-throttles"):
        _clear_throttles(session, moves)


def _list(session: ToolSession, _given: GivenOptions) -> None:
    under_way = _under_way(session)
    if not under_way:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, one in sorted(under_way.items()):
        adding = f" adding: {_ids(one.adding)}." if one.adding else ""
        removing = f" removing: {_ids(one.removing)}." if one.removing else ""
        print(f"{partition}: replicas: {_ids(one.replicas)}.{adding}{removing}")


ACTIONS = {"verify": _verify, "generate": _generate, "execute": _execute, "cancel": _cancel, "list": _list}


# ---- what the cluster says


def _under_way(
    session: ToolSession, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    if any(not p.topic for p in partitions or ()):
        raise no_name()
    outcome, moving = session.ask("listPartitionReassignments", admin.reassignments, partitions)
    checked(outcome)
    return moving


def _topics(session: ToolSession, names: Iterable[str]) -> dict[str, DescribedTopic]:
    wanted = sorted(set(names))
    if "" in wanted:
        raise no_name()
    return session.ask("describeTopicPartitions", describe_topics, wanted) if wanted else {}


def _replicas(session: ToolSession, names: Iterable[str]) -> dict[TopicPartition, list[int]]:
    """The replicas of all partitions of topics; JavaError when a topic is not there."""
    out = {}
    for topic in _topics(session, names).values():
        if topic.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise kafka_error(topic.code, f"Topic {topic.name} not found.")
        if topic.code is not Code.NONE:
            raise kafka_error(topic.code)
        for part in topic.partitions:
            out[TopicPartition(topic.name, part.number)] = part.replicas
    return out


def _current(session: ToolSession, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """The replicas of these partitions; JavaError when one is not there."""
    partitions = list(wanted)
    found = _replicas(session, [p.topic for p in partitions])
    missing = hash_order([p for p in partitions if p not in found], partition_hash)
    if missing:
        text = f"Unable to find partition: {', '.join(map(str, missing))}"
        raise kafka_error(Code.UNKNOWN_TOPIC_OR_PARTITION, text)
    return {p: found[p] for p in partitions}


def _directories(
    session: ToolSession, assignment: Mapping[TopicPartition, Sequence[int]]
) -> dict[ListedReplica, str | None]:
    replicas = [ListedReplica(id, *partition) for partition, ids in assignment.items() for id in ids]
    return {replica: at.now for replica, at in directories.where(session, replicas).items()}


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def partitions_of(partitions: Iterable[TopicPartition]) -> str:
    """Partitions in their order, as they are listed."""
    return ",".join(map(str, sorted(partitions)))
