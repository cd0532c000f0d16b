"""The controller as a ledger: ``decide(image, soft_state, request, facts) -> Decision(records, reply)``. A pure
function.

Nothing changes until the records are applied to an image; the reply is true once they are committed. One subject, one
file: this table says where. The controller role (``active.py``) keeps the working image and the replies that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from moldau.controller import (
    brokers,
    configs,
    elections,
    features,
    isr,
    migration,
    parts,
    reassignment,
    requests,
    topics,
)
from moldau.controller.batched import RemainingItems, Work, begun, continued
from moldau.controller.facts import Decision, DecisionContext, Facts, SoftState
from moldau.image import Image


def _create_partitions(context: DecisionContext, request: requests.CreatePartitions) -> Work:
    """Loaded with the first request for it: none comes while a node starts."""
    from moldau.controller.more_partitions import create_partitions

    return create_partitions(context, request)


def _alter_client_quotas(context: DecisionContext, request: requests.AlterClientQuotas) -> Work:
    """Loaded as the one before."""
    from moldau.controller.quotas import alter_client_quotas

    return alter_client_quotas(context, request)


Decider = Callable[[DecisionContext, Any], "Decision | Work"]  # Any: each takes requests of its own class
DECIDERS: dict[type, Decider] = {
    requests.RegisterBroker: brokers.register_broker,
    requests.RegisterController: brokers.register_controller,
    requests.BrokerHeartbeat: brokers.heartbeat,
    requests.BrokerRefused: brokers.broker_refused,
    requests.BrokersGone: brokers.brokers_gone,
    requests.ReconcileOnFailover: brokers.reconcile_on_failover,
    requests.Tick: brokers.tick,
    requests.Idle: brokers.idle,
    requests.RemainingPartitions: parts.change_remaining,
    requests.UnregisterBroker: brokers.unregister_broker,
    requests.AdoptCluster: migration.adopt_cluster,
    requests.FinishMigration: migration.finish_migration,
    requests.CreateTopics: topics.create_topics,
    requests.DeleteTopics: topics.delete_topics,
    requests.CreatePartitions: _create_partitions,
    requests.AdoptPartitions: topics.adopt_partitions,
    requests.AdoptConfigs: configs.adopt_configs,
    requests.AlterPartition: isr.alter_partition,
    requests.ElectLeaders: elections.elect_leaders,
    requests.RebalanceLeaders: elections.rebalance_leaders,
    requests.ElectUncleanLeaders: elections.elect_unclean_leaders,
    requests.RaiseLeaderEpochs: elections.raise_leader_epochs,
    requests.AlterPartitionReassignments: reassignment.alter_reassignments,
    requests.ListPartitionReassignments: reassignment.list_reassignments,
    requests.AssignReplicasToDirs: reassignment.assign_directories,
    requests.IncrementalAlterConfigs: configs.incremental_alter_configs,
    requests.AlterConfigs: configs.alter_configs,
    requests.AlterClientQuotas: _alter_client_quotas,
    requests.UpdateFeatures: features.update_features,
    requests.AllocateProducerIds: features.allocate_producer_ids,
}
"""Class of request -> the function that decides it."""
_PLACING = frozenset(
    {
        requests.CreateTopics, requests.CreatePartitions, requests.AlterPartition, requests.ElectLeaders,
        requests.RebalanceLeaders, requests.ElectUncleanLeaders, requests.AlterPartitionReassignments,
    }
)  # fmt: skip
"""Requests that give brokers something: none is given to who is just being taken out of all partitions."""


def decide(image: Image, soft_state: SoftState, request: object, facts: Facts) -> Decision:
    """Decide one request, or the next part of one, on the image as it is. Reads ``image`` and ``soft_state``, changes
    neither."""
    rest = request if isinstance(request, RemainingItems) else None
    if rest is not None:
        request = rest.request
    parts_done = False
    if isinstance(request, requests.RemainingPartitions) and request.is_through:
        parts_done = True
        request = request.then
        if request is None:
            return Decision([], parts.NOTHING_MORE)
    if soft_state.leaving and type(request) in _PLACING:
        image = image.without(soft_state.leaving)
    decider = DECIDERS.get(type(request))
    assert decider is not None, f"nobody decides {request!r}"
    early = migration.too_early(image, request)
    if early is not None:
        return Decision([], early)
    context = DecisionContext(image, soft_state, facts, parts_done=parts_done)
    if rest is not None:
        return continued(context, rest)
    decided = decider(context, request)
    return begun(context, request, decided) if isinstance(decided, Generator) else decided
