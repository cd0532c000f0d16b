"""Mistakes in ZooKeeper mode: elections, fences, sessions, watches, and which states a new controller trusts.

Shown by whole clusters (``simulator/run.py``), so hunts are short. Facts about Kafka's bugs are from its issues by
number; the code is ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from moldau.broker.zookeeper import admin_znodes, channels, writer
from moldau.broker.zookeeper.controller_requests import ControllerRequestHandler
from moldau.broker.zookeeper.election import ControllerElection, ControllerHere
from moldau.broker.zookeeper.lifecycle import ZooKeeperLifecycle
from moldau.broker.zookeeper.settings import ZnodeSettings
from moldau.controller.replica_states import ReplicaStates, ReplicaStep
from moldau.controller.states import ReplicaState
from moldau.model import Code
from moldau.ports.zookeeper import BadVersion, CheckVersion, NodeExists, NoNode, Set
from moldau.simulator.mutants import controller
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import ZOOKEEPER
from moldau.storage.log_dirs import LogDirs
from moldau.zookeeper import paths, reading, writing
from moldau.zookeeper.znodes import BrokerZnode, ControllerZnode, StateZnode, controller_epoch_text, controller_json


def writes_whoever_is_controller(patches: Patches) -> None:
    def unchecked(*, path: str, version: int) -> CheckVersion:
        return CheckVersion(path=path, version=-1)

    patches.set(writer, "CheckVersion", unchecked)


def removes_requests_whoever_is_controller(patches: Patches) -> None:
    async def write(self: Any, op: Any) -> None:
        with contextlib.suppress(NoNode, BadVersion):
            await self._plane.zk.multi([op])

    patches.set(admin_znodes.AdminZnodes, "_write", write)


def is_elected_before_the_epoch_is(patches: Patches) -> None:
    async def elect(self: Any) -> ControllerHere | None:  # Any: it stands in another class
        epoch, version = await self._epoch()
        self._elected_for = epoch + 1
        data = controller_json(ControllerZnode(broker_id=self._node.config.node_id))
        try:
            await self._zk.create(paths.CONTROLLER, data, ephemeral=True)
            await self._zk.set(paths.CONTROLLER_EPOCH, controller_epoch_text(epoch + 1), version)
        except (NodeExists, BadVersion):
            self._changed()
            return None
        return ControllerHere(epoch + 1, version + 1)

    patches.set(ControllerElection, "elect", elect)


def obeys_what_was_said_to_an_earlier_life(patches: Patches) -> None:
    def refusal(self: Any, request: Any, said: object = None) -> Code | None:  # Any: in place of a method
        if request.controller_epoch < self.controller_epoch:
            return Code.STALE_CONTROLLER_EPOCH
        self.saw(request.controller_epoch)
        return None

    patches.set(ControllerRequestHandler, "_refusal", refusal)


def obeys_a_deposed_controller(patches: Patches) -> None:
    def refusal(self: Any, request: Any, said: object = None) -> Code | None:  # Any: in place of a method
        claimed_epoch = self._plane.claimed_epoch
        if claimed_epoch is not None and request.controller_epoch <= claimed_epoch:  # it still rules by its own word
            return Code.STALE_CONTROLLER_EPOCH
        own = self._node.lifecycle
        if not own.registered or 0 <= request.broker_epoch < own.epoch:
            return Code.STALE_BROKER_EPOCH
        self.saw(request.controller_epoch)
        return None

    patches.set(ControllerRequestHandler, "_refusal", refusal)


def sets_states_whatever_they_were(patches: Patches) -> None:
    def unconditional(*, path: str, data: bytes, version: int = -1) -> Set:
        return Set(path=path, data=data)

    patches.set(writing, "Set", unconditional)


def resigns_for_others(patches: Patches) -> None:
    async def resign(self: Any) -> None:
        with contextlib.suppress(NoNode):
            await self._zk.delete(paths.CONTROLLER)

    patches.set(ControllerElection, "resign", resign)


def serves_on_without_its_session(patches: Patches) -> None:
    patches.set(ZooKeeperLifecycle, "lost", lambda self: None)


def watches_no_settings(patches: Patches) -> None:
    async def notes(self: Any) -> list[str]:
        found: list[str] = await self._plane.zk.children(paths.CONFIG_CHANGES)
        return found

    patches.set(ZnodeSettings, "_notes", notes)


def a_deposed_controller_believes_what_it_decided_last(patches: Patches) -> None:
    patches.set(ZnodeSettings, "read_again", lambda self: None)


def trusts_who_died_unseen(patches: Patches) -> None:
    patches.set(BrokerZnode, "lives_since", lambda self, czxid: 0)


def takes_a_state_for_newer_than_what_its_writer_knew(patches: Patches) -> None:
    def lived(state: StateZnode, written: int) -> Iterable[tuple[int, int]]:
        return zip(state.isr, (written,) * len(state.isr), strict=True)

    patches.set(reading, "_lived", lived)


def takes_any_numbers_for_a_state(patches: Patches) -> None:
    patches.set(reading, "judge", lambda path, assignment, state: None)


def forgets_a_log_and_leaves_its_folder(patches: Patches) -> None:
    def delete_all(self: Any, partitions: Iterable[Any], now_ms: int, *, strays: Any = ()) -> None:
        for partition in partitions:
            self.logs.pop(partition, None)

    patches.set(LogDirs, "delete_all", delete_all)


def lets_a_topic_go_before_its_replicas(patches: Patches) -> None:
    patches.set(channels.Channels, "deleted", lambda self: frozenset(self._node.metadata.image.topics))


def counts_replicas_of_the_dead_as_deleted(patches: Patches) -> None:
    real = ReplicaStates.delete

    def delete(self: Any, image: Any, topic: Any) -> list[ReplicaStep]:  # Any: in place of a method
        steps = real(self, image, topic)
        self._deleting[topic.id].left -= sum(step.now is ReplicaState.DELETION_INELIGIBLE for step in steps)
        return steps

    patches.set(ReplicaStates, "delete", delete)


def tells_nobody_again_to_delete(patches: Patches) -> None:
    patches.set(channels.Channels, "_deletions", lambda self, image, broker, steps: [])


def takes_a_refusal_for_a_deletion(patches: Patches) -> None:
    real = ReplicaStates.answered

    def answered(self: Any, *about: Any, deleted: bool) -> list[ReplicaStep]:  # Any: in place of a method
        return real(self, *about, deleted=True)

    patches.set(ReplicaStates, "answered", answered)


def elects_whoever_lives(patches: Patches) -> None:
    controller.the_offline_selector_asks_no_isr(patches)


def moves_the_lead_to_the_last_in_sync(patches: Patches) -> None:
    controller.the_reassigned_selector_takes_the_last_in_sync(patches)


def prefers_a_replica_that_is_not_in_sync(patches: Patches) -> None:
    controller.the_preferred_selector_asks_no_isr(patches)


def hands_over_to_the_last_who_stays(patches: Patches) -> None:
    controller.the_shutdown_selector_takes_the_last_who_stays(patches)


TOOLS = f"{ZOOKEEPER} tools"
MUTANTS = tuple(
    Mutant(bug, what, world, laws, patch, first)
    for bug, what, world, laws, patch, first in (
        ("KAFKA-6082", "decisions are written whoever is controller by then", ZOOKEEPER, ("Z1",),
         writes_whoever_is_controller, 0),
        ("KAFKA-6082's kind", "requests of tools are removed whoever is controller by then", TOOLS, ("Z1",),
         removes_requests_whoever_is_controller, 0),
        ("KAFKA-6082's kind", "/controller is taken, and the epoch a moment later", ZOOKEEPER, ("Z2",),
         is_elected_before_the_epoch_is, 0),
        ("KIP-380", "a broker obeys what was said to an earlier life of it", ZOOKEEPER, ("Z3",),
         obeys_what_was_said_to_an_earlier_life, 27),
        ("KAFKA-1188", "a broker obeys a controller that is deposed, but where it rules itself",
         f"{ZOOKEEPER} expire-controller", ("Z3", "Z6"), obeys_a_deposed_controller, 19),
        ("own (Z4)", "states are set whatever they were", ZOOKEEPER, ("Z4",), sets_states_whatever_they_were, 0),
        ("own (Z5)", "who resigns removes /controller whoever holds it", f"{ZOOKEEPER} stop", ("Z5",),
         resigns_for_others, 0),
        ("KAFKA-9307's kind", "a broker serves on when its session is over", ZOOKEEPER, ("Z6", "Z3"),
         serves_on_without_its_session, 1),
        ("own (TD-2)", "a topic goes before its replicas do", TOOLS, ("C8",), lets_a_topic_go_before_its_replicas, 0),
        ("own (TD-1)", "a topic goes though a broker that is down has a replica", ZOOKEEPER, ("C8",),
         counts_replicas_of_the_dead_as_deleted, 3),
        ("own (TD-1)", "a broker that was down is not told of deletions that wait for it", ZOOKEEPER,
         ("L3", "C8", "Z7"), tells_nobody_again_to_delete, 3),
        ("own (TD-2)", "a broker that could not delete a replica counts as one that did", f"{ZOOKEEPER} hung-disk",
         ("C8",), takes_a_refusal_for_a_deletion, 3),
        ("own (Z7)", "settings are read, and not watched", TOOLS, ("Z7",), watches_no_settings, 0),
        ("own (Z7)", "a deposed controller reads no setting again that it had heard of and not decided",
         f"{ZOOKEEPER} damaged-znodes", ("C3",), a_deposed_controller_believes_what_it_decided_last, 7107),
        ("own (seed 319)", "a state counts whose ISR has no replica", f"{ZOOKEEPER} damaged-znodes", ("C2",),
         takes_any_numbers_for_a_state, 0),
        ("own (SE-1)", "the offline selector takes whoever lives, in sync or not", ZOOKEEPER, ("C11", "C10", "S2"),
         elects_whoever_lives, 0),
        ("own (SE-1)", "a move gives the lead to the last of its target that is in sync", TOOLS, ("C11",),
         moves_the_lead_to_the_last_in_sync, 0),
        ("own (SE-1)", "a preferred replica is elected though it is not in sync", TOOLS, ("C11", "C2", "C10", "S2"),
         prefers_a_replica_that_is_not_in_sync, 2),
        ("own (SE-1)", "who stops hands over to the last in sync that stays", f"{ZOOKEEPER} stop", ("C11",),
         hands_over_to_the_last_who_stays, 1),
        ("KAFKA-14616's kind", "a deleted topic's folders stay", ZOOKEEPER, ("C9", "C8"),
         forgets_a_log_and_leaves_its_folder, 0),
        ("own (seed 13)", "a new controller trusts who died and came back", ZOOKEEPER,
         ("S2", "S3", "S4", "S7", "S8", "S12"), trusts_who_died_unseen, 58),
        ("own (unseen)", "a state vouches for a registration that its writer had not heard of", f"{ZOOKEEPER} unseen",
         ("S2", "S3", "S4", "S7", "S8", "S12"), takes_a_state_for_newer_than_what_its_writer_knew, 11),
    )
)  # fmt: skip
