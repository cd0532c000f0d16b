"""The throttles that kafka-reassign-partitions.sh sets while it moves replicas, and takes away again (KIP-73)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.session import ToolSession, checked
from moldau.client import admin
from moldau.client.admin import AlterOp, Reassignment, Resource, ResourceType
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATE_SET = "The inter-broker throttle limit was set to {} B/s"
Changes = dict[Resource, list[tuple[str, AlterOp, str | None]]]


class MovedPartition(NamedTuple):
    """Who has a partition, and who is to get it."""

    sources: set[int]
    destinations: set[int]


def moves_of(
    under_way: Mapping[TopicPartition, Reassignment],
    wanted: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, MovedPartition]:
    """The moves under way and those that are to begin."""
    moves = {p: MovedPartition(set(one.replicas) - set(one.adding), set(one.adding)) for p, one in under_way.items()}
    for partition, replicas in wanted.items():
        sources = moves[partition].sources if partition in moves else set(current[partition])
        moves[partition] = MovedPartition(sources, set(replicas) - sources)
    return moves


def throttle_replicas(session: ToolSession, moves: Mapping[TopicPartition, MovedPartition], rate: int) -> None:
    """Hold back what leaders send and newcomers fetch of these moves."""
    changes: Changes = {}
    for topic, texts in throttled_replicas(moves).items():
        changes[Resource(ResourceType.TOPIC, topic)] = [(key, AlterOp.SET, text) for key, text in texts.items()]
    change(session, changes)
    _set_rates(session, brokers_of(moves), RATES, rate)
    print(RATE_SET.format(rate))


def throttled_replicas(moves: Mapping[TopicPartition, MovedPartition]) -> dict[str, dict[str, str]]:
    """What topics are configured with, so that these moves are held back."""
    found = {}
    for topic in sorted({p.topic for p in moves}):
        theirs = {p.partition: move for p, move in moves.items() if p.topic == topic}
        leaders = sorted(f"{p}:{id}" for p, move in theirs.items() for id in move.sources)
        followers = sorted(f"{p}:{id}" for p, move in theirs.items() for id in move.destinations - move.sources)
        found[topic] = dict(zip(REPLICAS, (",".join(leaders), ",".join(followers)), strict=True))
    return found


def brokers_of(moves: Mapping[TopicPartition, MovedPartition]) -> list[int]:
    """The brokers that take part in these moves."""
    return sorted({id for move in moves.values() for id in move.sources | move.destinations})


def throttle_directories(session: ToolSession, brokers: Iterable[int], rate: int) -> None:
    """Hold back what brokers copy from one log directory to another."""
    _set_rates(session, brokers, (DIRECTORY_RATE,), rate)
    print(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def _set_rates(session: ToolSession, brokers: Iterable[int], keys: Iterable[str], rate: int) -> None:
    ops = [(key, AlterOp.SET, str(rate)) for key in keys]
    change(session, {Resource(ResourceType.BROKER, str(id)): list(ops) for id in brokers})


def clear(session: ToolSession, brokers: Collection[int], topics: Collection[str]) -> None:
    """Take all throttles away: from brokers, and from topics."""
    order = hash_order(brokers, int)
    print(f"Clearing broker-level throttles on broker{'' if len(order) == 1 else 's'} {','.join(map(str, order))}")
    keys = (*RATES, DIRECTORY_RATE)
    change(session, {Resource(ResourceType.BROKER, str(id)): _deleted(keys) for id in order})
    names = hash_order(topics, string_hash)
    print(f"Clearing topic-level throttles on topic{'' if len(names) == 1 else 's'} {','.join(names)}")
    change(session, {Resource(ResourceType.TOPIC, name): _deleted(REPLICAS) for name in names})


def _deleted(keys: Iterable[str]) -> list[tuple[str, AlterOp, str | None]]:
    return [(key, AlterOp.DELETE, None) for key in keys]


def change(session: ToolSession, changes: Changes) -> None:
    """Change configurations; JavaError when one is refused."""
    outcomes = session.ask("incrementalAlterConfigs", admin.alter_configs, changes) if changes else {}
    for outcome in outcomes.values():
        checked(outcome)
