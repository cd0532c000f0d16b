"""Where Kafka's tools of the ZooKeeper era put replicas: around the live brokers, over racks where brokers have them.

The same brokers, start and number of a partition give the same replicas as there (AdminUtils of Kafka 2.8.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import zip_longest
from random import randrange

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.admin.classic.reassign_partitions import NO_RACKS
from moldau.admin.classic.zookeeper_session import ADMIN_OPERATION
from moldau.ports.zookeeper import ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.znodes import parse_broker


async def live_brokers(zk: ZooKeeper, *, racks: bool, among: Collection[int] | None = None) -> dict[int, str | None]:
    """The racks of the live brokers, by id; JavaError when some have one and others do not. ``racks``: they count."""
    ids = sorted(paths.broker_ids(await zk.children(paths.BROKER_IDS))[0])
    ids = [id for id in ids if among is None or id in among]
    found = await zk.get_many([paths.broker(id) for id in ids]) if ids else []
    rack_of = {id: parse_broker(id, one[0]).rack for id, one in zip(ids, found, strict=True) if one is not None}
    if not racks:
        return dict.fromkeys(rack_of)
    if len({rack is None for rack in rack_of.values()}) > 1:
        raise JavaError(ADMIN_OPERATION, NO_RACKS)
    return rack_of


def place_replicas(
    brokers: Mapping[int, str | None], count: int, factor: int, *, start: int = -1, number: int = 0
) -> list[list[int]]:
    """Replicas of ``count`` new partitions, the first of which has this number; ``start`` < 0: begin anywhere."""
    if count <= 0:
        raise JavaError(f"{PACKAGE}InvalidPartitionsException", "Number of partitions must be larger than 0.")
    kind = f"{PACKAGE}InvalidReplicationFactorException"
    if factor <= 0:
        raise JavaError(kind, "Replication factor must be larger than 0.")
    if factor > len(brokers):
        raise JavaError(kind, f"Replication factor: {factor} larger than available brokers: {len(brokers)}.")
    ids = alternated(brokers)
    begin = start if start >= 0 else randrange(len(ids))
    shift = start if start >= 0 else randrange(len(ids))
    found = []
    for at in range(number, number + count):
        if at > 0 and at % len(ids) == 0:
            shift += 1
        found.append(_around(ids, brokers, (at + begin) % len(ids), shift, factor))
    return found


def alternated(brokers: Mapping[int, str | None]) -> list[int]:
    """Brokers in the order of their ids, one of each rack after the other.

    >>> alternated({0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"})
    [0, 3, 1, 5, 4, 2]
    """
    by_rack: dict[str, list[int]] = {}
    for id in sorted(brokers):
        by_rack.setdefault(brokers[id] or "", []).append(id)
    turns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [id for turn in turns for id in turn if id is not None]


def _around(ids: list[int], brokers: Mapping[int, str | None], first: int, shift: int, factor: int) -> list[int]:
    """Replicas of one partition: no broker twice, and no rack twice before each has one."""
    replicas = [ids[first]]
    racks = {rack for rack in brokers.values() if rack is not None}
    used = {brokers[ids[first]]}
    step = 0
    while len(replicas) < factor:
        among = len(racks) if racks else 1
        id = ids[(first + 1 + (shift * among + step) % (len(ids) - 1)) % len(ids)]
        step += 1
        rack_may = brokers[id] not in used or len(used) >= len(racks)
        if id not in replicas and rack_may:
            replicas.append(id)
            used.add(brokers[id])
    return replicas
