"""Voters in the log, over real files: written there when kraft.version is raised, and kept right by the controllers
themselves (KIP-853).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moldau.model import Code
from moldau.quorum import ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterRequest
from moldau.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from tests.packages.broker.quorum_members import CLUSTER, LoopbackQuorum, QuorumMember, on_loop
from tests.packages.broker.test_quorum_voters_on_record import added_member, formatted, voters


def all_count_by(quorum: LoopbackQuorum, wanted: VoterSet) -> bool:
    return all(
        member.plane.quorum is not None and member.plane.quorum.voters == wanted for member in quorum.members.values()
    )


async def until_all_count_by(quorum: LoopbackQuorum, wanted: VoterSet) -> None:
    await quorum.until(lambda: all_count_by(quorum, wanted), f"all to count by {wanted}")


async def joining(quorum: LoopbackQuorum, id: int, **changes: Any) -> QuorumMember:
    """A controller that knows nobody but where the others listen."""
    quorum.joining = (id,)
    member = quorum.members[id] = QuorumMember(quorum, id, **changes)
    member.config.voters = {}
    member.config.bootstrap_controllers = (("host", 99), ("host", 2), ("host", 1))
    await member.plane.start()
    return member


@on_loop
async def test_voters_set_by_hand_are_written_into_the_log_and_survive_a_restart(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3, 4)
    await quorum.write("a")
    follower = next(member for member in quorum.members.values() if member is not quorum.active())
    assert (await follower.plane.upgrade(5000)).code is Code.NOT_LEADER_OR_FOLLOWER
    wish = RemoveRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=bytes([1]) * 16)
    assert await quorum.asked(lambda leader: leader.change_voters(wish)) is Code.UNSUPPORTED_VERSION
    assert await quorum.asked(lambda leader: leader.upgrade(60_000)) is Code.NONE
    await until_all_count_by(quorum, voters(1, 2, 3))
    assert await quorum.asked(lambda leader: leader.upgrade(60_000)) is Code.NONE, "it is done"
    for id in (1, 2, 3, 4):
        quorum.kill(id)
    await quorum.start(1, 2, 3, 4)
    await quorum.write("b")
    assert all_count_by(quorum, voters(1, 2, 3))
    await quorum.stop()


@on_loop
async def test_a_controller_that_moved_says_so(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    for id in (1, 2, 3):
        formatted(tmp_path / str(id), voters(1, 2, 3))
        await added_member(quorum, id)
    await quorum.write("a")
    leader = (await quorum.leader()).config.node_id
    moved = leader  # whoever leads next knows it under the old address only
    quorum.kill(moved)
    quorum.ports[moved] = 100 + moved
    await quorum.leader()
    await added_member(quorum, moved)
    await quorum.write("b")
    there = Voter(ReplicaKey(moved, bytes([moved]) * 16), (VoterEndpoint("CONTROLLER", "host", 100 + moved),))
    await until_all_count_by(quorum, voters(1, 2, 3).with_voter(there))
    await quorum.stop()


@on_loop
async def test_a_controller_joins_by_itself_and_again_with_another_disk(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2))
    for id in (1, 2):
        formatted(tmp_path / str(id), voters(1, 2))
        await added_member(quorum, id)
    await quorum.write("a")
    await joining(quorum, 3, controller_quorum_auto_join_enable=True)
    await until_all_count_by(quorum, voters(1, 2, 3))
    quorum.kill(3)
    (tmp_path / "3").rename(tmp_path / "lost")
    quorum.disks[3] = 77
    await joining(quorum, 3, controller_quorum_auto_join_enable=True)
    again = voters(1, 2, 3).with_voter(
        Voter(ReplicaKey(3, bytes([77]) * 16), (VoterEndpoint("CONTROLLER", "host", 3),))
    )
    await until_all_count_by(quorum, again)
    await quorum.write("b")
    await quorum.until(lambda: quorum.members[3].listener.names == ["a", "b"], "3 to learn of b")
    await quorum.stop()


@on_loop
async def test_who_fetches_a_snapshot_in_tiny_pieces_learns_the_voters_in_it(tmp_path: Path) -> None:
    """Simulated seed 47: a first piece that ended within the voters left a node without a list of them (R9)."""
    tiny = {"controller_quorum_fetch_snapshot_max_bytes": 50, "metadata_log_max_record_bytes_between_snapshots": 2000}
    quorum = LoopbackQuorum(tmp_path, (1, 2), metadata_max_retention_bytes=4000, **tiny)
    for id in (1, 2):
        formatted(tmp_path / str(id), voters(1, 2))
        await added_member(quorum, id)
    names = [f"topic-{number}" for number in range(100)]
    for name in names:
        await quorum.write(name)
    cut = [member.plane._driver for member in quorum.members.values() if member.plane._driver]
    await quorum.until(lambda: all(driver.quorum.log.start > 0 for driver in cut), "logs that were cut")
    late = await joining(quorum, 3)
    await quorum.until(lambda: sorted(late.listener.names) == sorted(names), "3 to learn all names")
    assert late.listener.told[0].startswith("snapshot")
    assert all_count_by(quorum, voters(1, 2))
    await quorum.stop()


@on_loop
async def test_a_wish_of_another_cluster_is_refused(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1,))
    formatted(tmp_path / "1", voters(1))
    member = await added_member(quorum, 1)
    await quorum.leader()
    wish = AddRaftVoterRequest(cluster_id=CLUSTER[::-1], timeout_ms=100, voter_id=2, voter_directory_id=bytes([2]) * 16)
    assert (await member.plane.change_voters(wish)).code is Code.INCONSISTENT_CLUSTER_ID
    wish.cluster_id = None
    assert (await member.plane.change_voters(wish)).code is Code.INVALID_REQUEST, "it has no endpoint"
    wish.listeners = [AddRaftVoterRequest.Listener(name="CONTROLLER", host="host", port=2)]
    assert (await member.plane.change_voters(wish)).code is Code.REQUEST_TIMED_OUT, "it is not there"
    await quorum.stop()
