"""Voters that lost their metadata logs: they wait for one that has it; the last one that has it cuts nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from moldau.broker.config.storage_format import METADATA_FOLDER
from moldau.broker.kraft import committed, watch
from moldau.quorum.follower import CommittedMetadataLost
from tests.packages.broker.quorum_members import LoopbackQuorum, on_loop

TOPICS = [f"topic-{number}" for number in range(50)]


def metadata_log(folder: Path, id: int) -> Path:
    return folder / str(id) / METADATA_FOLDER


def noted(folder: Path, id: int) -> int:
    """Up to where a node has noted that the log is committed."""
    note = Path(committed.note_path(str(folder / str(id))))
    return int(note.read_text().split()[-2]) if note.exists() else 0


async def written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> LoopbackQuorum:
    """Three voters that hold, and have noted, fifty topics."""
    monkeypatch.setattr(committed, "NOTE_MS", 1)
    quorum = LoopbackQuorum(folder, (1, 2, 3))
    await quorum.start(1, 2, 3)
    end = await quorum.write(*TOPICS)
    for id in (1, 2, 3):
        await quorum.until(lambda id=id: noted(folder, id) > end, f"node {id} notes it")  # type: ignore[misc]
    return quorum


async def of_epoch(fresh: LoopbackQuorum, epoch: int) -> bool:
    """Run voters on new disks, and stop them; whether the last records of their logs are of this epoch."""
    fresh.folder.mkdir()
    await fresh.start(1, 2)
    while (at := (await fresh.leader()).listener.active) is not None and at < epoch:
        (await fresh.leader()).plane.resign()
        await fresh.until(lambda at=at: (one := fresh.active()) and one.listener.active > at, "the next leader")  # type: ignore[misc]
    await fresh.write("other")
    machine = (await fresh.leader()).plane.quorum
    await fresh.until(lambda: noted(fresh.folder, 1) and noted(fresh.folder, 2), "both hold it")
    await fresh.stop()
    return machine is not None and machine.log.last_epoch == epoch


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("lost", [(3,), (1, 2)])
@on_loop
async def test_voters_that_lost_their_metadata_folders_get_it_back_from_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: tuple[int, ...], is_killed: bool
) -> None:
    """Two empty voters elected one of themselves, and the third cut its log of 1,748 records without a word."""
    quorum = await written(tmp_path, monkeypatch)
    if is_killed:
        for id in (1, 2, 3):
            quorum.kill(id)
    await quorum.stop()
    for id in lost:
        shutil.rmtree(metadata_log(tmp_path, id))

    await quorum.start(1, 2)
    if lost == (3,):
        await quorum.write("without it")
    await quorum.start(3)

    await quorum.write("anew")
    for member in quorum.members.values():
        await quorum.until(lambda member=member: {*TOPICS, "anew"} <= set(member.listener.names), "all is there")  # type: ignore[misc]
    await quorum.stop()


@on_loop
async def test_voters_that_lost_their_metadata_elect_none_of_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    quorum = await written(tmp_path, monkeypatch)
    await quorum.stop()
    for id in (1, 2):
        shutil.rmtree(metadata_log(tmp_path, id))
    await quorum.start(1, 2, controller_quorum_election_timeout_ms=20)
    asked = [0, 0]

    def both_looked_for_a_leader() -> bool:
        for index, id in enumerate((1, 2)):
            machine = quorum.members[id].plane.quorum
            asked[index] = 0 if machine is None else machine.serial
        return min(asked) > 20

    await quorum.until(both_looked_for_a_leader, "each asks the other again and again")

    assert quorum.active() is None
    assert sum("it was lost, or a part of it" in record.getMessage() for record in caplog.records) == 2
    await quorum.stop()


@on_loop
async def test_the_last_voter_with_the_metadata_stops_and_keeps_it_when_a_leader_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others were put on new disks, so that nothing told them what they lack."""
    quorum = await written(tmp_path, monkeypatch)
    machine = quorum.members[3].plane.quorum
    assert machine is not None
    await quorum.stop()
    (kept,) = metadata_log(tmp_path, 3).glob("*.log")
    before, end = kept.read_bytes(), noted(tmp_path, 3)
    fresh = LoopbackQuorum(tmp_path / "fresh", (1, 2, 3))
    fresh.folder.mkdir()
    await fresh.start(1, 2)
    epoch: int | None = 0
    while epoch is not None and epoch <= machine.log.last_epoch + 1:  # elections, until its epochs are beyond the log's
        await fresh.write("other")
        leader = await fresh.leader()
        epoch = leader.listener.active
        leader.plane.resign()
        await fresh.until(
            lambda epoch=epoch: (member := fresh.active()) and member.listener.active > epoch,  # type: ignore[misc]
            "the next leader",
        )
    shutil.copytree(tmp_path / "3", fresh.folder / "3")

    for _ in range(2):  # each start ends in the same way
        await fresh.start(3)
        await fresh.until_failure()
        (error,) = fresh.failures
        assert isinstance(error, CommittedMetadataLost)
        fresh.failures.clear()
        await fresh.members.pop(3).plane.stop()
        (copy,) = metadata_log(fresh.folder, 3).glob("*.log")
        assert copy.read_bytes() == before
        assert noted(fresh.folder, 3) == end
    await fresh.stop()


@on_loop
async def test_a_leader_whose_batches_lie_across_the_end_of_a_log_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Voters on new disks wrote an epoch anew. Where the one with the old log led then, the others asked it for the
    same records for ever, and nobody said why nothing was committed."""
    quorum = await written(tmp_path, monkeypatch)
    machine = quorum.members[3].plane.quorum
    assert machine is not None
    await quorum.stop()
    fresh = LoopbackQuorum(tmp_path / "fresh", (1, 2, 3))
    while not await of_epoch(fresh, machine.log.last_epoch):  # there were more elections than we wanted
        fresh = LoopbackQuorum(tmp_path / f"{fresh.folder.name}-again", (1, 2, 3))
    shutil.copytree(tmp_path / "3", fresh.folder / "3")
    monkeypatch.setattr(watch, "WARN_MS", 100)

    await fresh.start(1, 3)  # of these two only the one with the longer log can lead

    for told in ("do not continue this log at", "leads, and can commit nothing for"):
        await fresh.until(lambda told=told: any(told in one.getMessage() for one in caplog.records), told)  # type: ignore[misc]
    await fresh.stop()


@on_loop
async def test_a_voter_without_a_majority_says_whom_it_does_not_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "WARN_MS", 200)
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1)

    def warnings() -> list[str]:
        return [one.getMessage() for one in caplog.records if "has no leader for" in one.getMessage()]

    await quorum.until(lambda: len(warnings()) > 10, "a warning again and again")
    assert "no answer from 2 at host:2 (for " in warnings()[-1]
    assert "3 at host:3 (for " in warnings()[-1]
    monkeypatch.setattr(watch, "WARN_MS", 30_000)
    await quorum.start(2)
    await quorum.write("a majority")
    found = len(warnings())
    await quorum.write("and no more warnings")
    assert len(warnings()) == found
    await quorum.stop()


@on_loop
async def test_a_sole_voter_that_lost_its_log_goes_on_and_notes_what_it_commits_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its old note it would neither stand nor vote once there are others, until the log was as long as before."""
    monkeypatch.setattr(committed, "NOTE_MS", 1)
    quorum = LoopbackQuorum(tmp_path, (1,))
    await quorum.start(1)
    end = await quorum.write(*TOPICS)
    await quorum.until(lambda: noted(tmp_path, 1) > end, "it notes it")
    await quorum.stop()
    shutil.rmtree(metadata_log(tmp_path, 1))

    await quorum.start(1)
    await quorum.write("anew")
    await quorum.until(lambda: 0 < noted(tmp_path, 1) < end, "it notes what there is")
    machine = quorum.members[1].plane.quorum

    assert machine is not None
    assert not machine.lacks_committed
    assert machine.committed_before <= machine.high_watermark
    await quorum.stop()


@on_loop
async def test_a_broker_that_is_no_controller_notes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a migration back to ZooKeeper the next quorum begins in epoch 1, below its note, and it never joined."""
    monkeypatch.setattr(committed, "NOTE_MS", 1)
    quorum = LoopbackQuorum(tmp_path, (1,))
    await quorum.start(1, 2)
    end = await quorum.write(*TOPICS)
    await quorum.until(lambda: quorum.members[2].listener.offset >= end, "it follows")
    await quorum.until(lambda: noted(tmp_path, 1) > end, "the controller notes it")
    await quorum.stop()

    assert noted(tmp_path, 2) == 0
