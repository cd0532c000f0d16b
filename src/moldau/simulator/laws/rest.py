"""Laws checked at quiescence: what clients saw against what is there, groups, administration, folders on disk.

S1 S6 S15 S16 S19 L2 by moldau.history (as for real processes), S18, L9, C8, C9, C13 and L2's other half (no request
waits in a broker) here. Each function returns the sentences of what does not hold.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import accumulate

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.history.checks import check
from moldau.history.rows import History
from moldau.model import TopicPartition
from moldau.replication.roles import Role
from moldau.simulator.administrator import Administrator
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.load import SimulatedMember, SimulatedReader, TopicWriter
from moldau.simulator.plan import TopicPlan

SHOWN = 3
Commit = tuple[int, int, int, int, int]
"""When it was asked and acknowledged, generation, partition, offset."""
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\Z")


def history_of(
    writers: Iterable[TopicWriter], readers: Iterable[SimulatedReader], final: SimulatedReader, ends: dict[int, int]
) -> History:
    """All that the clients of one topic saw."""
    return History(
        [send for writer in writers for send in writer.sends],
        [read for reader in readers for read in reader.reads],
        final.reads, ends, [],
    )  # fmt: skip


def histories(history: History, topic: TopicPlan, unclean: Collection[int]) -> list[str]:
    """S1, S6, S15, S16, S19, L2 of one topic; of partitions that had an unclean election what is promised there."""
    found = check(history.of(lambda partition: partition not in unclean), topic.promise)
    if unclean:
        found += check(history.of(lambda partition: partition in unclean), topic.promise._replace(kept=False))
    more = [f"... and {len(found) - SHOWN} more of {topic.name}"] if len(found) > SHOWN else []
    return [f"{one.law}: {topic.name}: {one.kind}: {one.text}" for one in found[:SHOWN]] + more


def groups(members: list[SimulatedMember], committed: Mapping[TopicPartition, int]) -> list[str]:
    """S18: an acknowledged commit is never taken back, none is of an older generation than one acknowledged before it
    was asked, and nothing below a committed position was withheld from the group.
    """
    broken = []
    rows = sorted(row for member in members for row in member.commits)
    for _, _, generation, partition, offset in rows:
        end = max((at for p, at in committed.items() if p.partition == partition), default=-1)
        if end < offset:
            broken.append(f"S18: generation {generation} committed {offset} of partition {partition}, now it is {end}")
    for partition in sorted({row[3] for row in rows}):
        broken += _generations(partition, [row for row in rows if row[3] == partition])
    for target, offset in committed.items():
        given = set().union(*(member.given.get(target.partition, set()) for member in members))
        missing = [one for one in range(offset) if one not in given]
        if missing:
            broken.append(f"S18: {target} is committed at {offset}, and {missing[:3]} were given to nobody")
    return broken[:SHOWN]


def _generations(partition: int, rows: list[Commit]) -> Iterator[str]:
    """S18: no commit of a partition is of an older generation than one that was acknowledged before it was asked."""
    acknowledged = sorted((row[1], row[2]) for row in rows)
    times = [at for at, _ in acknowledged]
    newest = list(accumulate((generation for _, generation in acknowledged), max))
    for asked, _, generation, _, _ in rows:
        before = bisect_left(times, asked)
        if before and newest[before - 1] > generation:
            first = next(row[2] for row in rows if row[1] < asked and row[2] > generation)
            yield f"S18: generation {generation} committed after {first} had, in partition {partition}"


def positions(members: list[SimulatedMember], told: list[tuple[int, dict[int, int]]]) -> list[str]:
    """S18: a fetch of the group's offsets returns every commit that was acknowledged before the request, or a later
    one: through coordinators that change, and logs of theirs that are compacted.
    """
    rows = sorted((answered, partition, at) for member in members for _, answered, _, partition, at in member.commits)
    broken: list[str] = []
    least: dict[int, int] = {}
    done = 0
    for asked, found in told:
        while done < len(rows) and rows[done][0] < asked:
            _, partition, at = rows[done]
            least[partition] = max(at, least.get(partition, -1))
            done += 1
        broken += [
            f"S18: partition {partition} was at {at}, and {asked / 1e9:.1f} s after the start at {found.get(partition)}"
            for partition, at in least.items()
            if found.get(partition, -1) < at
        ]
    return broken[:SHOWN]


def unread(members: list[SimulatedMember], observer: ClusterObserver) -> str:
    """L9: what is committed and was given to no member of the group yet; empty when there is nothing."""
    for partition, of in observer.replicas(members[0].topic.name).items() if members else ():
        end = max(one.machine.high_watermark for one in of.values())
        given = max((max(found) for member in members if (found := member.given.get(partition[1]))), default=-1)
        if given < end - 1:
            return f"partition {partition[1]} ends at {end}, the group was given it up to {given}"
    return ""


def coordinated(observer: ClusterObserver) -> list[str]:
    """L9: whoever leads a partition of the groups' log coordinates its groups, or is about to."""
    return [
        f"L9: n{id} leads {replica.partition} (epoch {replica.machine.leader_epoch}), and coordinates no group"
        for of in observer.replicas(OFFSETS).values()
        for id, replica in of.items()
        if replica.machine.role is Role.LEADER
        and replica.partition.partition not in dict(observer.nodes())[id].coordinator.shards
    ]


def behind(readers: Iterable[SimulatedReader], observer: ClusterObserver) -> str:
    """L3: what is committed and was given to one of the readers in racks not yet; empty when there is nothing."""
    for reader in readers:
        for partition, of in observer.replicas(reader.topic.name).items():
            end = max(one.machine.high_watermark for one in of.values())
            if (at := reader.position(partition[1])) < end:
                return f"partition {partition[1]} of {reader.topic.name} ends at {end}, {reader.name} is at {at}"
    return ""


def administration(admin: Administrator, observer: ClusterObserver) -> list[str]:
    """C13, C8: what was answered is so."""
    names = observer.image.names
    lost = [
        f"C13: topic {name} was created, and is not there" for name, id in admin.made.items() if names.get(name) != id
    ]
    return lost + [f"C8: topic {name} was deleted, and is there" for name in admin.gone if name in names]


def folders(observer: ClusterObserver) -> list[str]:
    """C9: a living broker has a folder for each replica that it is assigned, and no other (but those being deleted).

    Where brokers go by Kafka's rules those of topics that are gone may be left (decision 48). Of a topic that is to be
    deleted and waits for a broker, each may have its folder or not.
    """
    broken, marked = [], observer.marked()
    for id, node in observer.nodes():
        if not node.loaded:
            continue
        assigned = {f"{name}" for name, _, partition in observer.partitions() if id in partition.replicas}
        disk, found = observer.cluster.hosts[id].disk, set()
        for folder in observer.cluster.folders:
            for name in disk.list_dir(folder):
                if disk.is_dir(f"{folder}/{name}") and _FOLDER.match(name) and not name.startswith("__cluster"):
                    found.add(name)
        if observer.cluster.plan.kafka:
            found = {name for name in found if name.rpartition("-")[0] in observer.image.names}
        found, assigned = (
            {name for name in names if name.rpartition("-")[0] not in marked} for names in (found, assigned)
        )
        if found != assigned:
            broken.append(
                f"C9: n{id} has folders {sorted(found - assigned)} too many and {sorted(assigned - found)} too few"
            )
    return broken


def nobody_waits(observer: ClusterObserver) -> list[str]:
    """L2, L4: no produce waits in a broker, no change of an ISR is under way."""
    broken = []
    for of in observer.replicas().values():
        for id, replica in of.items():
            if any(not waiter.done for _, waiter, _ in (*replica.commit_waiters, *replica.unflushed)):
                broken.append(f"L2: produces to {replica.partition} still wait on n{id}")
            if replica.machine.proposal is not None:
                broken.append(f"L4: n{id} still asks for an ISR of {replica.partition}: {replica.machine.proposal}")
    return broken
