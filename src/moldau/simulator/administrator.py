"""An administrator who works during faults: makes and deletes topics, moves partitions, elects leaders, sets configs.

It keeps what the cluster answered, which must hold at the end (C13). There is one administrator, which does one thing
at a time, drawn by the seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from moldau.client.admin import (
    ElectionType,
    NewTopic,
    add_voter,
    create_topics,
    delete_topics,
    elect_leaders,
    reassign,
    remove_voter,
)
from moldau.client.client import CONTROLLER
from moldau.client.view import Outcome
from moldau.controller.facts import ELR_FEATURE
from moldau.model import Code, TopicPartition
from moldau.simulator.cluster import CONTROLLER_PORT, SimCluster
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.feature_upgrades import SAFE_DOWNGRADE, set_levels
from moldau.simulator.load import EXPECTED_ERRORS, Actor
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest


class Administrator(Actor):
    """``made`` (with their ids) and ``gone`` are topics whose creation or deletion was answered; ``doubtful`` are those
    that were not. ``free``: of the gone those whose names may be taken again, for no try to delete them names another.
    """

    def __init__(self, cluster: SimCluster, observer: ClusterObserver) -> None:
        super().__init__(cluster, "admin")
        self.observer = observer
        self.made: dict[str, bytes] = {}
        self.gone: dict[str, None] = {}
        self.free: dict[str, None] = {}
        self.doubtful: set[str] = set()
        self._number = 0

    async def administrate(self) -> None:
        """Draw one action after another until ``going`` is False."""
        actions = [self._make, self._make, self._delete, self._move, self._move, self._elect]
        if any(topic.unclean for topic in self.cluster.plan.topics):
            actions += [self._elect_unclean] * 2
        if self.cluster.plan.first_voters:
            actions += [self._add_voter] * 2 + [self._remove_voter] * 2
        while self.going:
            await asyncio.sleep(self.rng.choice((0.1, 0.5, 2.0)))
            if self.going:
                await self.rng.choice(actions)()

    async def _make(self) -> None:
        again = bool(self.free) and self.rng.random() < 0.5
        if again:
            name = self.rng.choice(list(self.free))
            del self.free[name], self.gone[name]
        else:
            self._number += 1
            name = f"t{self._number}"
        self.cluster.record_event(f"admin creates {name}{' again' if again else ''}")
        brokers = len(self.cluster.plan.brokers)
        new = NewTopic(
            name=name, partitions=self.rng.randint(1, 2), replication_factor=self.rng.randint(2, min(3, brokers))
        )
        self.doubtful.add(name)
        try:
            answer = (await create_topics(self.client, [new]))[name]
        except EXPECTED_ERRORS:
            return
        if answer.code is Code.NONE:
            self.made[name] = answer.topic_id
            self.doubtful.discard(name)

    async def _delete(self) -> None:
        if not self.made:
            return
        name = self.rng.choice(list(self.made))
        id = self.made.pop(name)
        by_id = self.rng.random() < 0.7
        self.cluster.record_event(f"admin deletes {name}{' by its id' if by_id else ''}")
        self.doubtful.add(name)
        try:
            code = await self._delete_id(id) if by_id else (await delete_topics(self.client, [name]))[name].code
        except EXPECTED_ERRORS:
            return
        # An earlier try may have been the one that did it.
        if code in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID):
            self.gone[name] = None
            self.doubtful.discard(name)
            if by_id:  # a try under the name may be carried out when nobody waits for it any more
                self.free[name] = None

    async def _delete_id(self, id: bytes) -> Code:
        request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=id)])
        response = await self.client.ask(request, CONTROLLER, codes=lambda r: [t.error_code for t in r.responses])
        return Code(response.responses[0].error_code)

    async def _move(self) -> None:
        """Other replicas for a partition, or the same in another order; now and then a move is called off."""
        topics = [
            one for one in self.observer.image.topics.values() if one.partitions and not one.name.startswith("__")
        ]
        if not topics:
            return
        topic = self.rng.choice(topics)
        partition = self.rng.choice(list(topic.partitions.values()))
        brokers = list(self.cluster.plan.brokers)
        self.rng.shuffle(brokers)
        target = None if self.rng.random() < 0.2 else brokers[: len(partition.original_replicas)]
        where = TopicPartition(topic.name, partition.id)
        what = "calls off a move of" if target is None else "moves"
        self.cluster.record_event(f"admin {what} {where} {target or ''}")
        try:
            await reassign(self.client, {where: target})
        except EXPECTED_ERRORS:
            return

    async def begin_lower(self) -> bool:
        """Features are at the plan's levels, as of a cluster that was made long ago; whether it is so."""
        levels = {**self.cluster.plan.levels, **({} if self.cluster.plan.elr else {ELR_FEATURE: 0})}
        return not levels or await set_levels(self.client, levels, SAFE_DOWNGRADE) is Code.NONE

    async def _elect_unclean(self) -> None:
        """Ask for an unclean election where no replica leads; only of topics for which the plan allows it."""
        where = [
            TopicPartition(one.name, n)
            for one in self.cluster.plan.topics
            if one.unclean
            for n in range(one.partitions)
        ]
        self.cluster.record_event("admin elects leaders for risky, even unclean ones")
        try:
            await elect_leaders(self.client, where, ElectionType.UNCLEAN)
        except EXPECTED_ERRORS:
            return

    async def _add_voter(self) -> None:
        id = self.rng.choice(self.cluster.plan.controllers)
        where = [("CONTROLLER", f"n{id}", CONTROLLER_PORT)]
        directory = self.cluster.directories[id]
        await self._change_voters(f"adds n{id} to", add_voter(self.client, id, directory, where, timeout_ms=5_000))

    async def _remove_voter(self) -> None:
        id = self.rng.choice(self.cluster.plan.controllers)
        await self._change_voters(f"removes n{id} from", remove_voter(self.client, id, self.cluster.directories[id]))

    async def _change_voters(self, what: str, change: Coroutine[Any, Any, Outcome]) -> None:
        """Not while a controller's disk is replaced: with two gone, those that are left may be no majority."""
        if self.cluster.replaced:
            change.close()
            return
        self.cluster.record_event(f"admin {what} the voters")
        try:
            with self.cluster.changing_voters():
                await change
        except EXPECTED_ERRORS:
            return

    async def _elect(self) -> None:
        self.cluster.record_event("admin elects preferred leaders")
        try:
            await elect_leaders(self.client, None, ElectionType.PREFERRED)
        except EXPECTED_ERRORS:
            return
