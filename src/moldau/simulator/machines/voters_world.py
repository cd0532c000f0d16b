"""The quorum's simulation with voters that change: every node is a controller with a directory id, the first few vote.

The others know no voter, only a list of addresses, as a controller formatted without voters does. A disk may be
replaced: then the node is another replica, under another directory id (KIP-853). Read next: voters_swarm.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moldau.model import Code
from moldau.quorum import (
    Quorum,
    ReplicaKey,
    Unattached,
    Voter,
    VoterEndpoint,
    VoterLog,
    VotersAt,
    VoterSet,
    start,
)
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum.messages import (
    AddVoterRequest,
    RaftSnapshotResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeRequest,
)
from moldau.simulator.machines.quorum_world import QuorumNode, QuorumSimulation, Token

OUTSIDE = -1


def voter(id: int, port: int = 9093, disk: int = 0) -> Voter:
    """A voter as it is entered: on its first disk, or a later one."""
    return Voter(ReplicaKey(id, bytes([id + 1 + 16 * disk]) * 16), (VoterEndpoint("CONTROLLER", f"host{id}", port),))


@dataclass
class VoterSimulation(QuorumSimulation):
    """``voters`` are the first set, in the checkpoints of these nodes alone; ``observers`` may become voters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.first = VoterSet(tuple(voter(id) for id in range(self.voters)))
        self.answers: list[Code] = []
        self.disks: dict[int, int] = {}

    def entry_of(self, id: int) -> Voter:
        """A node as a voter, on the disk that it has now."""
        return voter(id, disk=self.disks.get(id, 0))

    def replace_disk(self, id: int) -> None:
        """The node is dead, and its disk is gone; it starts from an empty one, formatted without voters."""
        self.wipe(id)
        self.disks[id] = self.disks.get(id, 0) + 1

    # --- voters in the log ---

    def voter_log(self, node: QuorumNode) -> VoterLog:
        """What a start reads from checkpoint, snapshots and log."""
        disk = node.disk
        found = [VotersAt(-1, self.first)] if node.id < self.voters and node.id not in self.disks else []
        last = max(disk.snapshots, default=0)
        if last:
            found += [VotersAt(last - 1, what) for _, what in disk.snapshots[last] if isinstance(what, VoterSet)][-1:]
        for offset in range(max(disk.start, last), disk.end):
            what = disk.entry(offset)[1]
            if isinstance(what, VoterSet):
                found.append(VotersAt(offset, what))
        return VoterLog(VoterSet(()), tuple(found))

    def boot(self, id: int) -> None:
        node = self.nodes[id]
        if node.quorum is not None:
            return
        node.life += 1
        node.closed = False
        node.tick_at, node.syncing, node.sync_again, node.active = None, False, False, None
        node.waiting.clear()
        node.disk.flushed = node.disk.end
        past = self.voter_log(node)
        blank = Quorum(
            me=self.entry_of(id).key,
            voters=past.current,
            voter_log=past,
            role=Unattached(0),
            timing=self.timing,
            log=node.disk.view(),
            bootstrap=len(self.nodes),
        )
        quorum, effects = start(blank, node.disk.election, self._at())
        self._finish(node, quorum, effects, None)

    def _execute(self, node: QuorumNode, effect: do.Effect) -> None:
        disk = node.disk
        match effect:
            case do.AppendLeaderChange(offset, epoch, leader, voter_set=VoterSet() as voters):
                assert offset == disk.end
                disk.entries += [(epoch, f"leader {leader}"), (epoch, "kraft.version 1"), (epoch, voters)]
            case do.AppendVoters(offset, epoch, voters):
                assert offset == disk.end
                disk.entries.append((epoch, voters))
            case _:
                super()._execute(node, effect)

    def _serve(self, node: QuorumNode, token: Token, answer: Any, begin: int, end: int) -> None:
        found = [(offset, node.disk.entry(offset)[1]) for offset in range(begin, min(end, begin + self.fetch_batches))]
        voters = tuple(VotersAt(offset, what) for offset, what in found if isinstance(what, VoterSet))
        super()._serve(node, token, answer._replace(voters=voters), begin, end)

    def _serve_snapshot(self, node: QuorumNode, token: Token, answer: RaftSnapshotResponse) -> None:
        held = node.disk.snapshots[answer.snapshot.offset]
        found = [what for _, what in held if isinstance(what, VoterSet)]
        self.voters_served = found[-1] if found else None
        super()._serve_snapshot(node, token, answer)

    def _reply(self, node: QuorumNode, token: Token, answer: Any) -> None:  # Any: each request has its own answer
        if token.node == OUTSIDE:
            self.answers.append(answer.code)
            return
        if isinstance(answer, RaftSnapshotResponse) and answer.code is Code.NONE:
            answer = answer._replace(voters=self.voters_served)
        super()._reply(node, token, answer)

    def _send(self, node: QuorumNode, peer: int, request: Any) -> None:  # Any: each request's own kind
        super()._send(node, -2 - peer if peer < 0 else peer, request)

    # --- changes ---

    def submit(self, id: int, request: VoterChangeRequest) -> None:
        self.sequence += 1
        self.feed(id, on.RequestReceived(Token(OUTSIDE, 0, self.sequence, request), request))

    def add(self, id: int, timeout_ms: int = 5000) -> None:
        leader = self.leader()
        if leader is not None:
            self.submit(leader, AddVoterRequest(self.entry_of(id), timeout_ms))

    def remove(self, id: int, timeout_ms: int = 5000) -> None:
        leader = self.leader()
        if leader is not None:
            quorum = self.nodes[leader].quorum
            assert quorum is not None
            listed = quorum.voters.voter(id)
            self.submit(leader, RemoveVoterRequest(self.entry_of(id).key if listed is None else listed.key, timeout_ms))

    def update(self, id: int, port: int) -> None:
        leader = self.leader()
        if leader is not None:
            quorum = self.nodes[leader].quorum
            assert quorum is not None
            self.submit(leader, UpdateVoterRequest(quorum.role.epoch, voter(id, port)))

    def voting(self) -> tuple[int, ...]:
        """The newest committed set, as the newest leader has it."""
        leader = self.leader()
        if leader is None:
            return ()
        quorum = self.nodes[leader].quorum
        assert quorum is not None
        past = quorum.voter_log
        return (past.current if past.offset < quorum.high_watermark else past.before).ids

    def answered(self, goal: int) -> bool:
        return len(self.answers) >= goal
