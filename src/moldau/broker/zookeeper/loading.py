"""Taking office: everything that stands in ZooKeeper, as records for this node's image (FO-1).

Topics from before topic ids are given one first. Brokers that partitions name and that are not registered are loaded as
if they lived, and named: the office is told of their death, and does what it does at any death. Read next:
``moldau.zookeeper.reading``.
"""

from __future__ import annotations

import logging
from typing import Any

from moldau.image.registration import Broker, broker_record
from moldau.ports.zookeeper import Check
from moldau.terms.named import NamedTuple
from moldau.wire.records.metadata import PartitionRecord, RegisterBrokerRecord
from moldau.zookeeper import paths
from moldau.zookeeper.reading import read
from moldau.zookeeper.standing import Standing
from moldau.zookeeper.survey import survey

log = logging.getLogger("moldau.zookeeper")


class Loaded(NamedTuple):
    """Records of a snapshot, what stands beside them, and brokers in them that are not registered."""

    records: list[Any]
    standing: Standing
    dead: tuple[int, ...]


async def load(node: Any, zk: Any, epoch_version: int) -> Loaded:
    """Read everything. BadZnode names a topic that cannot be read; ZooKeeperError as the port says."""
    found = read(await survey(zk), node.world.random.uuid)
    for error in found.bad:
        log.error("left out: %s", error)
    if found.repairs:
        log.info("%d topic(s) from before topic ids get one", len(found.repairs))
        await zk.multi([Check(path=paths.CONTROLLER_EPOCH, version=epoch_version), *found.repairs])
    registered = {record.broker_id for record in found.records if isinstance(record, RegisterBrokerRecord)}
    named: set[int] = set()
    for record in found.records:
        if isinstance(record, PartitionRecord):
            named.update(record.replicas, record.isr, (record.leader,))
    dead = tuple(sorted(named - registered - {-1}))
    ghosts = [broker_record(Broker(id, -1, bytes(16), fenced=False)) for id in dead]
    return Loaded([*ghosts, *found.records], found.standing, dead)
