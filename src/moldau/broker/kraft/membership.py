"""A controller looks after its own entry in the voter set (KIP-853): its address is right, and it is in the set if it
is to join by itself.

Asks the leader when what the log says differs from what is: UpdateRaftVoter after a move, AddRaftVoter where
``controller.quorum.auto.join.enable`` says so, before it RemoveRaftVoter for the disk that voted under this id. Decides
nothing: the leader does (``moldau.quorum.changes``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.host import WithClusterId
from moldau.broker.loop import sleep
from moldau.broker.node_parts import WithControllerChannel
from moldau.model import Code
from moldau.model.backoff import longer_ms
from moldau.model.protocol import Protocol
from moldau.ports import Handle, World
from moldau.quorum import Quorum, ReplicaKey, VoterEndpoint
from moldau.wire.schema import Request

if TYPE_CHECKING:
    from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from moldau.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from moldau.wire.messages.k82_update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

log = logging.getLogger(__name__)

RETRY_MS = 200
RETRY_MAX_MS = 5_000
PATIENCE_MS = 10_000


class MembershipNode(WithControllerChannel, WithClusterId, Protocol):
    """A node that takes part in the quorum."""

    @property
    def config(self) -> NodeConfig: ...

    @property
    def world(self) -> World: ...

    @property
    def plane(self) -> MembershipPlane: ...


class MembershipPlane(Protocol):
    """The node's plane; ``quorum`` is None while it does not take part."""

    @property
    def quorum(self) -> Quorum | None: ...


RaftVoterRequest: TypeAlias = "AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest"
RaftVoterResponse: TypeAlias = "AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse"


class Membership:
    """One controller's entry. ``update`` is called whenever the voters or the leader may have changed."""

    def __init__(self, node: MembershipNode, me: ReplicaKey, endpoints: Callable[[], Sequence[VoterEndpoint]]) -> None:
        self._node = node
        self._me = me
        self._endpoints = endpoints
        self._joins: bool = node.config["controller.quorum.auto.join.enable"]
        self._task: Handle | None = None

    def update(self, quorum: Quorum) -> None:
        """Begin to mend what is wrong, if nothing is under way."""
        if self._task is None and self._request_needed(quorum) is not None:
            self._task = self._node.world.tasks.spawn(self._mend(), "quorum membership")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _mend(self) -> None:
        wait_ms = RETRY_MS
        try:
            while (quorum := self._node.plane.quorum) is not None:
                wanted = self._request_needed(quorum)
                if wanted is None:
                    return
                await self._submit(wanted)
                await sleep(self._node.world.tasks, wait_ms)
                wait_ms = longer_ms(wait_ms, RETRY_MS, RETRY_MAX_MS)
        finally:
            self._task = None

    def _request_needed(self, quorum: Quorum) -> RaftVoterRequest | None:
        """What to ask of the leader, if anything."""
        endpoints = tuple(self._endpoints())
        if not quorum.kraft_version or not endpoints:
            return None
        from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterRequest  # here: see peers.py
        from moldau.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
        from moldau.wire.messages.k82_update_raft_voter import UpdateRaftVoterRequest

        found = quorum.voters.voter(self._me.id)
        if found is not None and found.key == self._me:
            if found.endpoints == endpoints:
                return None
            kind = UpdateRaftVoterRequest
            return kind(
                cluster_id=self._node.cluster_id,
                current_leader_epoch=quorum.role.epoch,
                voter_id=self._me.id,
                voter_directory_id=self._me.directory_id,
                listeners=[kind.Listener(name=one.name, host=one.host, port=one.port) for one in endpoints],
                k_raft_version_feature=kind.KRaftVersionFeature(max_supported_version=1),
            )
        if not self._joins:
            return None
        if found is not None:
            return RemoveRaftVoterRequest(
                cluster_id=self._node.cluster_id,
                voter_id=found.key.id,
                voter_directory_id=found.key.directory_id,
            )
        return AddRaftVoterRequest(
            cluster_id=self._node.cluster_id,
            timeout_ms=PATIENCE_MS,
            voter_id=self._me.id,
            voter_directory_id=self._me.directory_id,
            listeners=[AddRaftVoterRequest.Listener(name=one.name, host=one.host, port=one.port) for one in endpoints],
            ack_when_committed=False,
        )

    async def _submit(self, wanted: RaftVoterRequest) -> None:
        try:
            request: Request[RaftVoterResponse] = wanted
            answer = await self._node.controller_channel.send(request, PATIENCE_MS)
        except OSError as error:
            log.debug("the leader was not asked to change the voters: %s", error)
            return
        what = f"{type(wanted).__name__} for controller {wanted.voter_id}"
        level = logging.INFO if answer.error_code in (Code.NONE, Code.REQUEST_TIMED_OUT) else logging.WARNING
        log.log(level, "%s: %s", what, Code(answer.error_code).name)
