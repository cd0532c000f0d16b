"""The voter set of a cluster formatted without controller.quorum.voters (KIP-853): every snapshot repeats it, and a
start reads the newest.
"""

from __future__ import annotations

from pathlib import Path

from moldau.broker.kraft.batches import is_whole, snapshot, voters_in
from moldau.quorum import ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.wire.batch import ControlType, control_type, headers, records
from tests.packages.broker.quorum_members import LoopbackQuorum, QuorumMember, on_loop

LOG = "__cluster_metadata-0"
FIRST = "00000000000000000000-0000000000.checkpoint"


def voters(*ids: int, port: int = 0) -> VoterSet:
    return VoterSet(
        tuple(Voter(ReplicaKey(id, bytes([id]) * 16), (VoterEndpoint("CONTROLLER", "host", port or id),)) for id in ids)
    )


def newest(data: bytes) -> VoterSet | None:
    found = voters_in(data)
    return found[-1].voters if found else None


def formatted(folder: Path, record: VoterSet, name: str = FIRST) -> None:
    log = folder / LOG
    log.mkdir(parents=True, exist_ok=True)
    (log / name).write_bytes(b"".join(snapshot([], 0, 0, record)))


async def added_member(quorum: LoopbackQuorum, id: int) -> QuorumMember:
    member = quorum.members[id] = QuorumMember(quorum, id)
    member.config.voters = {}
    await member.plane.start()
    return member


def checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / LOG).glob("*.checkpoint") if path.name != FIRST)


def test_a_snapshot_says_the_version_and_then_the_voters_at_consecutive_offsets() -> None:
    data = b"".join(snapshot([], 3, 0, voters(1, 2)))
    found = [(head.base_offset, control_type(one.key)) for at, head in headers(data) for one in records(data, at)]
    assert found == [
        (0, ControlType.SNAPSHOT_HEADER),
        (1, ControlType.KRAFT_VERSION),
        (2, ControlType.KRAFT_VOTERS),
        (3, ControlType.SNAPSHOT_FOOTER),
    ]
    assert is_whole(data)
    assert newest(data) == voters(1, 2)


@on_loop
async def test_the_voter_set_is_in_every_later_snapshot_and_a_start_needs_only_that(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2), metadata_log_max_record_bytes_between_snapshots=500)
    for id in (1, 2):
        formatted(tmp_path / str(id), voters(1, 2))
        await added_member(quorum, id)
    for number in range(30):
        await quorum.write(f"t{number}")
    await quorum.until(lambda: all(checkpoints(tmp_path / str(id)) for id in (1, 2)), "snapshots")
    for id in (1, 2):
        quorum.kill(id)
    for id in (1, 2):
        assert {newest(path.read_bytes()) for path in checkpoints(tmp_path / str(id))} == {voters(1, 2)}
        (tmp_path / str(id) / LOG / FIRST).unlink()
        member = await added_member(quorum, id)
        assert member.plane.voters() == {1: ("host", 1), 2: ("host", 2)}
    await quorum.write("after")
    await quorum.stop()


@on_loop
async def test_the_newest_voter_set_counts_not_the_first(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1,))
    formatted(tmp_path / "1", voters(1, 2, 3))
    formatted(tmp_path / "1", voters(1), "00000000000000000005-0000000001.checkpoint")
    member = await added_member(quorum, 1)
    assert member.plane.voters() == {1: ("host", 1)}
    await quorum.write("alone")
    await quorum.stop()


@on_loop
async def test_voters_set_by_hand_are_not_written_into_snapshots(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1,), metadata_log_max_record_bytes_between_snapshots=500)
    await quorum.start(1)
    for number in range(30):
        await quorum.write(f"t{number}")
    await quorum.until(lambda: checkpoints(tmp_path / "1"), "a snapshot")
    assert all(newest(path.read_bytes()) is None for path in checkpoints(tmp_path / "1"))
    await quorum.stop()
