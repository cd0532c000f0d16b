"""Bad input to AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853): each is refused by a named error, and
neither the voters nor the log change. Over real files, through the handlers that controllers answer with.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from moldau.broker.api import k80_add_raft_voter, k81_remove_raft_voter, k82_update_raft_voter
from moldau.model import Code
from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterRequest
from moldau.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from moldau.wire.messages.k82_update_raft_voter import UpdateRaftVoterRequest
from tests.packages.broker.doubles import controller_services
from tests.packages.broker.quorum_members import CLUSTER, LoopbackQuorum, QuorumMember, on_loop
from tests.packages.broker.test_quorum_voters_on_record import added_member, formatted, voters

ME, OTHER, NOBODY = bytes([1]) * 16, bytes([2]) * 16, bytes(16)
STRANGE = CLUSTER[::-1]


def listeners(kind: Any, *names: str) -> list[Any]:
    return [kind.Listener(name=name, host="host", port=2) for name in names]


def add(id: int = 2, directory: bytes = OTHER, *names: str, **more: Any) -> AddRaftVoterRequest:
    kind = AddRaftVoterRequest
    fields = {"cluster_id": CLUSTER, "timeout_ms": 50, **more}
    return kind(
        voter_id=id, voter_directory_id=directory, listeners=listeners(kind, *names or ("CONTROLLER",)), **fields
    )


def remove(id: int, directory: bytes, cluster_id: str | None = CLUSTER) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=id, voter_directory_id=directory)


def update(id: int = 1, directory: bytes = ME, *names: str, **more: Any) -> UpdateRaftVoterRequest:
    kind = UpdateRaftVoterRequest
    speaks = kind.KRaftVersionFeature(max_supported_version=more.pop("speaks", 1))
    fields = {"cluster_id": CLUSTER, "current_leader_epoch": more.pop("epoch", None), **more}
    given = listeners(kind, *names or ("CONTROLLER",))
    return kind(voter_id=id, voter_directory_id=directory, listeners=given, k_raft_version_feature=speaks, **fields)


BAD = (
    (add(cluster_id=STRANGE), Code.INCONSISTENT_CLUSTER_ID),
    (add(1), Code.DUPLICATE_VOTER),
    (add(1, ME), Code.DUPLICATE_VOTER),
    (add(-1), Code.INVALID_REQUEST),
    (add(2, NOBODY), Code.INVALID_REQUEST),
    (add(2, OTHER, "PLAINTEXT"), Code.INVALID_REQUEST),
    (add(2, OTHER, "PLAINTEXT", "EXTERNAL"), Code.INVALID_REQUEST),
    (add(), Code.REQUEST_TIMED_OUT),
    (remove(1, ME, STRANGE), Code.INCONSISTENT_CLUSTER_ID),
    (remove(2, OTHER), Code.VOTER_NOT_FOUND),
    (remove(-1, ME), Code.VOTER_NOT_FOUND),
    (remove(1, OTHER), Code.VOTER_NOT_FOUND),
    (remove(1, NOBODY), Code.VOTER_NOT_FOUND),
    (remove(1, ME), Code.INVALID_REQUEST),
    (update(cluster_id=STRANGE), Code.INCONSISTENT_CLUSTER_ID),
    (update(epoch=0), Code.FENCED_LEADER_EPOCH),
    (update(epoch=99), Code.UNKNOWN_LEADER_EPOCH),
    (update(2, OTHER), Code.VOTER_NOT_FOUND),
    (update(1, OTHER), Code.VOTER_NOT_FOUND),
    (update(1, ME, "PLAINTEXT"), Code.INVALID_REQUEST),
    (update(speaks=0), Code.INVALID_REQUEST),
)
"""Wishes to a quorum of one voter; the last voter cannot go, and whoever is not there never catches up."""


async def ask(member: QuorumMember, wish: Any) -> Any:
    """The answer, over the wire's bytes in both directions."""
    handlers: dict[type, ModuleType] = {
        AddRaftVoterRequest: k80_add_raft_voter,
        RemoveRaftVoterRequest: k81_remove_raft_voter,
        UpdateRaftVoterRequest: k82_update_raft_voter,
    }
    node = controller_services(plane=member.plane)
    version = wish.versions[1]
    request = type(wish).decode(wish.encode(version), version)
    answer = await handlers[type(wish)].control(node, request, None)
    return type(answer).decode(answer.encode(version), version)


def stand(member: QuorumMember) -> tuple[Any, int]:
    quorum = member.plane.quorum
    assert quorum is not None
    return quorum.voters, quorum.log.end


def now(member: QuorumMember, wish: Any) -> Any:
    """An update is of an epoch; without one it is meant for this one."""
    if isinstance(wish, UpdateRaftVoterRequest) and wish.current_leader_epoch is None:
        assert member.plane.quorum is not None
        wish.current_leader_epoch = member.plane.quorum.role.epoch
    return wish


@on_loop
async def test_a_change_of_voters_that_cannot_be_is_refused_and_the_next_good_one_is_made(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1,))
    formatted(tmp_path / "1", voters(1))
    member = await added_member(quorum, 1)
    await quorum.write("a")
    before = stand(member)
    for wish, code in BAD:
        answer = await ask(member, now(member, wish))
        assert answer.error_code == code, (wish, Code(answer.error_code))
        assert isinstance(wish, UpdateRaftVoterRequest) or answer.error_message, wish
        assert stand(member) == before, wish
    good = now(member, update())
    good.listeners[0].port = 77
    assert (await ask(member, good)).error_code == Code.NONE
    found = stand(member)[0].voter(1)
    assert [one.port for one in found.endpoints] == [77]
    await quorum.stop()


@on_loop
async def test_voters_set_by_hand_are_changed_by_no_request_and_nobody_but_the_leader_changes_any(
    tmp_path: Path,
) -> None:
    quorum = LoopbackQuorum(tmp_path, (1,))
    await quorum.start(1, 2)
    await quorum.write("a")
    leader, other = quorum.members[1], quorum.members[2]
    before = stand(leader)
    for wish in (add(), remove(1, ME), update()):
        assert (await ask(leader, now(leader, wish))).error_code == Code.UNSUPPORTED_VERSION
        assert (await ask(other, wish)).error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert stand(leader) == before
    await quorum.stop()
