"""The controller as a ledger: ``decide(image, soft, ask, facts) -> Decision(records, reply)``. A pure function.

Nothing changes until the records are applied to an image; the reply is true once they are committed. One subject, one
file: this table says where. The controller role (``active.py``) keeps the working image and the replies that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from moldau.controller import (
    asks,
    brokers,
    configs,
    elections,
    features,
    isr,
    migration,
    parts,
    quotas,
    reassignment,
    topics,
)
from moldau.controller.batched import RemainingItems, Work, begun, continued
from moldau.controller.facts import Decision, DecisionContext, Facts, SoftState
from moldau.image import Image

DECISIONS: dict[type, Callable[[DecisionContext, Any], Decision | Work]] = {  # Any: each takes asks of its own class
    asks.RegisterBroker: brokers.register_broker,
    asks.RegisterController: brokers.register_controller,
    asks.Heartbeat: brokers.heartbeat,
    asks.BrokerRefused: brokers.broker_refused,
    asks.BrokersGone: brokers.brokers_gone,
    asks.TakeStock: brokers.take_stock,
    asks.Tick: brokers.tick,
    asks.Idle: brokers.idle,
    asks.RemainingPartitions: parts.change_remaining,
    asks.UnregisterBroker: brokers.unregister_broker,
    asks.AdoptCluster: migration.adopt_cluster,
    asks.FinishMigration: migration.finish_migration,
    asks.CreateTopics: topics.create_topics,
    asks.DeleteTopics: topics.delete_topics,
    asks.CreatePartitions: topics.create_partitions,
    asks.AdoptPartitions: topics.adopt_partitions,
    asks.AdoptConfigs: configs.adopt_configs,
    asks.AlterPartition: isr.alter_partition,
    asks.ElectLeaders: elections.elect_leaders,
    asks.RebalanceLeaders: elections.rebalance_leaders,
    asks.ElectUncleanLeaders: elections.elect_unclean_leaders,
    asks.RaiseLeaderEpochs: elections.raise_leader_epochs,
    asks.AlterPartitionReassignments: reassignment.alter_reassignments,
    asks.ListPartitionReassignments: reassignment.list_reassignments,
    asks.AssignReplicasToDirs: reassignment.assign_directories,
    asks.IncrementalAlterConfigs: configs.incremental_alter_configs,
    asks.AlterConfigs: configs.alter_configs,
    asks.AlterClientQuotas: quotas.alter_client_quotas,
    asks.UpdateFeatures: features.update_features,
    asks.AllocateProducerIds: features.allocate_producer_ids,
}
"""Ask -> the function that decides it."""
_PLACING = frozenset(
    {
        asks.CreateTopics, asks.CreatePartitions, asks.AlterPartition, asks.ElectLeaders, asks.RebalanceLeaders,
        asks.ElectUncleanLeaders, asks.AlterPartitionReassignments,
    }
)  # fmt: skip
"""Asks that give brokers something: none is given to who is just being taken out of all partitions."""


def decide(image: Image, soft: SoftState, ask: Any, facts: Facts) -> Decision:  # Any: each request's own kind
    """Decide one ask, or the next part of one, on the image as it is. Reads ``image`` and ``soft``, changes neither."""
    rest = ask if isinstance(ask, RemainingItems) else None
    if rest is not None:
        ask = rest.ask
    parts_done = isinstance(ask, asks.RemainingPartitions) and ask.is_through
    if parts_done:
        ask = ask.then
        if ask is None:
            return Decision([], parts.NOTHING_MORE)
    if soft.going and type(ask) in _PLACING:
        image = image.without(soft.going)
    decision = DECISIONS.get(type(ask))
    assert decision is not None, f"nobody decides {ask!r}"
    early = migration.too_early(image, ask)
    if early is not None:
        return Decision([], early)
    view = DecisionContext(image, soft, facts, parts_done=parts_done)
    if rest is not None:
        return continued(view, rest)
    decided = decision(view, ask)
    return begun(view, ask, decided) if isinstance(decided, Generator) else decided
