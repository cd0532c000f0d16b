"""Mistakes that only brokers with Apache Kafka's rules reveal: what a controller owes them, and what theirs says.

Shown by whole clusters in ZooKeeper mode in which brokers of both kinds are (``simulator/kafka_rules.py``). Facts about
Kafka are from its issues by number and its brokers' behaviour; the code is ours. Read next: mutants/zookeeper.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.broker.replicas.isr_updates import IsrUpdates, PendingUpdates
from moldau.broker.zookeeper import batch, translation
from moldau.broker.zookeeper.controller_requests import ControllerRequestHandler
from moldau.controller import change, isr
from moldau.image import Broker
from moldau.replication.facts import IsrAnswer
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import MIXED, ZOOKEEPER
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest


def changes_an_isr_under_the_same_leader_epoch(patches: Patches) -> None:
    patches.set(change, "_must_be_told", lambda partition, target, desired: False)


def refuses_an_isr_that_it_has_already(patches: Patches) -> None:
    """Every second answer is lost besides, which without buggify points hardly ever happens."""
    real = IsrUpdates._send
    asked: dict[int, int] = {}

    async def send(self: IsrUpdates, pending: PendingUpdates) -> dict[tuple[bytes, int], IsrAnswer]:
        answers = await real(self, pending)
        asked[id(self)] = asked.get(id(self), 0) + 1
        return {} if asked[id(self)] % 2 else answers

    patches.set(IsrUpdates, "_send", send)
    patches.set(isr, "_is_so_already", lambda context, partition, requested: False)


def leaves_it_to_brokers_to_see_that_a_replica_goes(patches: Patches) -> None:
    real = batch.stop_replica

    def stop_replica(
        broker: Broker, stops: Sequence[tuple[str, int, int]], sender: batch.SendingController, *, delete: bool
    ) -> StopReplicaRequest:
        return real(broker, stops if not delete else [], sender, delete=delete)

    patches.set(batch, "stop_replica", stop_replica)


def waits_for_a_list_that_says_it_is_complete(patches: Patches) -> None:
    def told_cluster(self: Any, request: UpdateMetadataRequest) -> None:  # Any: in place of a method
        self._cluster_known |= request.type == batch.FULL

    patches.set(ControllerRequestHandler, "_told_cluster", told_cluster)


def looks_up_no_epoch_that_it_has(patches: Patches) -> None:
    async def whose_epochs(self: Any, request: UpdateMetadataRequest) -> list[int]:  # Any: in place of a method
        return translation.newly_live(self._node.metadata.image, request)

    patches.set(ControllerRequestHandler, "_whose_epochs", whose_epochs)


MUTANTS = tuple(
    Mutant(bug, what, f"{ZOOKEEPER} {MIXED}", laws, patch, first)
    for bug, what, laws, patch, first in (
        ("KAFKA-15109", "the controller takes a replica out of an ISR, and the leader epoch stays",
         ("L2", "L3", "L4", "Z8"), changes_an_isr_under_the_same_leader_epoch, 0),
        ("KIP-497", "a leader asks again for the ISR that it has been given, and is refused as outdated",
         ("L3", "L4", "Z8"), refuses_an_isr_that_it_has_already, 0),
        ("KIP-570's kind", "brokers are not told to delete a replica that has moved away", ("C3", "C9", "L3"),
         leaves_it_to_brokers_to_see_that_a_replica_goes, 0),
        ("own (mixed)", "a broker waits for a list of the cluster that says that it is complete", ("L5",),
         waits_for_a_list_that_says_it_is_complete, 0),
        ("own (seed 25)", "a broker that registered again goes by its old epoch, unless a list says it is complete",
         ("C3", "L3"), looks_up_no_epoch_that_it_has, 25),
    )
)  # fmt: skip
