"""Clusters that a node of Moldau keeps out of, by name and before it writes anything: migrations from ZooKeeper that
Apache Kafka's own controllers began, levels that are newer than it is, and those of another id.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.config.storage_format import format_storage
from moldau.broker.kraft import batches, tail
from moldau.broker.kraft.batches import NewerLevel
from moldau.broker.kraft.peers import TOPIC_ID, WrongCluster
from moldau.broker.kraft.start_checks import UndecidedLevel, refuse_own_log
from moldau.broker.node import StartRefused
from moldau.controller.feature_support import UnsupportedLevel
from moldau.controller.features import NEWEST_LEVEL
from moldau.controller.kafkas_migration import KafkasMigration
from moldau.controller.migration import MigrationState
from moldau.model import Code
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealRandom
from moldau.wire.batch import headers
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k18_api_versions import ApiVersionsResponse
from moldau.wire.records.metadata import FeatureLevelRecord, ZkMigrationStateRecord
from moldau.wire.schema import Message
from tests.packages.broker.crossing import QUORUM, READY, ZK, Crossing
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.hostile_peer import HostilePeer

KAFKA_3_9, KAFKA_4 = 21, 25
ANOTHER = "AAAAAAAAAAAAAAAAAAAAAQ"
UNDER_WAY = MigrationState.PRE_MIGRATION, MigrationState.MIGRATION


class Controller(HostilePeer):
    """A controller that says how far up it supports metadata.version, and that it takes part in a migration."""

    highest = KAFKA_3_9

    def _handshake(self) -> ApiVersionsResponse:
        answer = super()._handshake()
        feature = ApiVersionsResponse.SupportedFeatureKey(
            name="metadata.version", min_version=1, max_version=self.highest
        )
        answer.supported_features, answer.zk_migration_ready = [feature], True
        return answer


@asynccontextmanager
async def migrating(folder: Path) -> AsyncIterator[tuple[Crossing, Controller]]:
    """Three brokers on ZooKeeper, none of which runs; of controllers 101 and 102 the second one is Kafka's."""
    async with Crossing(folder, 2) as crossing:
        for id in crossing.brokers:
            await crossing.stop(id)
        peer = Controller()
        crossing.ports[102] = await peer.listen()
        crossing.voters = ",".join(f"{id}@127.0.0.1:{crossing.ports[id]}" for id in crossing.controllers)
        try:
            yield crossing, peer
        finally:
            peer.close()


def contents(folder: Path) -> dict[Path, bytes]:
    """All files but those that only say that a process is there."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != ".lock"}


async def refusal(crossing: Crossing, starting: Awaitable[object]) -> Exception:
    """Why a node does not start, or ends soon after it has."""
    task = asyncio.ensure_future(starting)
    await until(lambda: crossing.failures or (task.done() and task.exception()), "it ends")
    if crossing.failures:
        task.cancel()
        ((_, error),) = crossing.failures
        crossing.failures.clear()
    else:
        error = task.exception()
    assert isinstance(error, StartRefused | UnsupportedLevel | WrongCluster), error
    return error


async def ends(crossing: Crossing, id: int, mode: str) -> str:
    """What a node says that does not start; it has changed neither a file nor a znode."""
    before, znodes = contents(crossing.folder), dict(crossing.server.znodes)
    error = await refusal(crossing, crossing.boot(id, mode))
    await crossing.nodes.pop(id).stop()
    assert contents(crossing.folder) == before
    assert crossing.server.znodes == znodes
    return str(error)


@pytest.mark.parametrize(("id", "mode"), [(1, READY), (101, READY), (1, QUORUM)])
def test_a_node_beside_kafkas_migrating_controllers_is_refused(tmp_path: Path, id: int, mode: str) -> None:
    """A broker on ZooKeeper that would take part, a controller, a broker that would cross over."""

    async def scenario() -> None:
        async with migrating(tmp_path) as (crossing, peer):
            if id == 101:
                await crossing.boot(101, ZK)  # it is formatted, and has a log of its own
                await crossing.stop(101)
            said = await ends(crossing, id, mode)
            assert f"the controllers at 127.0.0.1:{peer.port} are Apache Kafka's" in said

    run(scenario)


def test_a_broker_that_was_formatted_for_kraft_mode_ends_at_their_first_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with migrating(tmp_path) as (crossing, peer):
            node = crossing.begin(1, QUORUM, log_dirs=str(tmp_path / "another"))
            format_storage(node.config, crossing.cluster_id, RealDisk(), RealRandom())
            assert isinstance(await refusal(crossing, node.start()), KafkasMigration)
            assert not peer.met
            await crossing.nodes.pop(1).stop()
            log = (tmp_path / "another" / "__cluster_metadata-0").glob("*.log")
            assert not any(segment.stat().st_size for segment in log)

    run(scenario)


def test_a_controller_of_moldau_in_a_migration_is_none_of_kafkas(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with migrating(tmp_path) as (crossing, peer):
            peer.highest = KAFKA_4
            for id in crossing.brokers:
                await crossing.boot(id, READY)

    run(scenario)


def test_a_broker_that_takes_no_part_is_refused_beside_a_controller_of_a_quorum(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with migrating(tmp_path) as (crossing, _):
            held = b'{"version":2,"brokerid":102,"timestamp":"1","kraftControllerEpoch":7}'
            crossing.write("/controller", held)
            said = await ends(crossing, 1, ZK)
            assert "/controller is held by controller 102 of a quorum" in said

    run(scenario)


def logged(folder: Path, level: int, states: Sequence[int]) -> Path:
    """A metadata log as Kafka's controllers begin it."""
    log = folder / "__cluster_metadata-0"
    log.mkdir(parents=True)
    data, offset = b"", 0
    first = FeatureLevelRecord(name="metadata.version", feature_level=level)
    written: list[list[Message]] = [[first], *([ZkMigrationStateRecord(zk_migration_state=state)] for state in states)]
    for records in written:
        data += batches.proposal(records, offset, 1, 0)
        offset += len(records)
    (log / f"{0:020d}.log").write_bytes(data)
    return log


@pytest.mark.parametrize("migrates", [True, False], ids=["with the setting", "without it"])
@pytest.mark.parametrize("states", [UNDER_WAY[:1], UNDER_WAY])
def test_a_controller_does_not_go_on_with_the_log_of_kafkas_migration_or_end_it(
    tmp_path: Path, states: Sequence[int], migrates: bool
) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await crossing.boot(101, ZK)
            await crossing.stop(101)
            shutil.rmtree(tmp_path / "node-101" / "__cluster_metadata-0")
            logged(tmp_path / "node-101", KAFKA_3_9, states)
            said = await ends(crossing, 101, READY if migrates else ZK)
            assert f"nobody has ended ({states[-1].name}, metadata.version 21)" in said  # type: ignore[attr-defined]

    run(scenario)


@pytest.mark.parametrize(
    ("level", "states"),
    [(KAFKA_3_9, [*UNDER_WAY, MigrationState.POST_MIGRATION]), (KAFKA_3_9, []), (KAFKA_4, UNDER_WAY)],
    ids=["ended", "none", "moldaus"],
)
def test_other_logs_are_gone_on_with(tmp_path: Path, level: int, states: Sequence[int]) -> None:
    refuse_own_log(RealDisk(), str(logged(tmp_path, level, states)))
    refuse_own_log(RealDisk(), str(tmp_path / "nowhere"))


def levels_logged(*levels: int) -> bytes:
    """One batch for each level of metadata.version, from offset 0 on."""
    found = [FeatureLevelRecord(name="metadata.version", feature_level=level) for level in levels]
    return b"".join(batches.proposal([record], offset, 1, 0) for offset, record in enumerate(found))


def test_what_a_snapshot_covers_refuses_nothing(tmp_path: Path) -> None:
    """A newer version raised the level, lowered it again, took a snapshot, and was replaced by this one."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(levels_logged(NEWEST_LEVEL, NEWEST_LEVEL + 1, NEWEST_LEVEL))
    with pytest.raises(NewerLevel):
        refuse_own_log(RealDisk(), str(folder))
    (folder / f"{3:020d}-{1:010d}.checkpoint").write_bytes(levels_logged(NEWEST_LEVEL))
    refuse_own_log(RealDisk(), str(folder))


def levels_of(*written: tuple[int, int]) -> bytes:
    """One batch for each (epoch, level), from offset 0 on."""
    return b"".join(
        batches.proposal([FeatureLevelRecord(name="metadata.version", feature_level=level)], offset, epoch, 0)
        for offset, (epoch, level) in enumerate(written)
    )


def test_a_level_that_may_not_be_committed_is_told_apart_from_one_that_is(tmp_path: Path) -> None:
    """Committed is what an earlier life noted, and what a later leader's controller wrote behind."""
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(levels_of((1, NEWEST_LEVEL), (1, NEWEST_LEVEL + 1), (1, NEWEST_LEVEL)))
    with pytest.raises(UndecidedLevel) as undecided:
        refuse_own_log(RealDisk(), str(tmp_path), 1)
    assert undecided.value.at == (1, 1)
    for committed, written in ((2, ()), (0, [(2, NEWEST_LEVEL)])):
        segment.write_bytes(levels_of((1, NEWEST_LEVEL), (1, NEWEST_LEVEL + 1), *written))
        with pytest.raises(NewerLevel) as decided:
            refuse_own_log(RealDisk(), str(tmp_path), committed)
        assert not isinstance(decided.value, UndecidedLevel)


def segment_of(folder: Path) -> Path:
    *_, last = sorted((folder / "__cluster_metadata-0").glob("*.log"))
    return last


def give_tail(crossing: Crossing, id: int, level: int) -> None:
    """Behind all that any stopped controller has, the metadata log of one has a level too, by the last leader."""
    written = max((segment_of(crossing.folder / f"node-{one}").read_bytes() for one in crossing.controllers), key=len)
    *_, (_, last) = headers(written)
    record = FeatureLevelRecord(name="metadata.version", feature_level=level)
    tail_ = batches.proposal([record], last.last_offset + 1, last.leader_epoch, 0)
    segment_of(crossing.folder / f"node-{id}").write_bytes(written + tail_)


@asynccontextmanager
async def one_with_a_tail(folder: Path) -> AsyncIterator[Crossing]:
    """Three controllers of which none runs; the log of 103 ends with a newer level that no other has."""
    async with Crossing(folder, 3) as crossing:
        await asyncio.gather(*(crossing.boot(id, ZK) for id in crossing.controllers))
        nodes = [crossing.nodes[id] for id in crossing.controllers]
        await until(lambda: all(node.metadata.image.features for node in nodes), "all have what the first one wrote")
        await until(lambda: len({node.metadata.image.offset for node in nodes}) == 1, "all know the same")
        for id in crossing.controllers[::-1]:
            await crossing.stop(id)
        give_tail(crossing, 103, NEWEST_LEVEL + 1)
        yield crossing


def test_a_newer_level_that_the_quorum_has_gone_on_without_is_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with one_with_a_tail(tmp_path) as crossing:
            ruling = await asyncio.gather(crossing.boot(101, ZK), crossing.boot(102, ZK))
            await until(lambda: any(node.is_active_controller for node in ruling), "one rules")
            back = await crossing.boot(103, ZK)
            active = next(node for node in ruling if node.is_active_controller)
            await until(lambda: back.metadata.image.offset >= active.metadata.image.offset, "it follows")
            refuse_own_log(RealDisk(), str(tmp_path / "node-103" / "__cluster_metadata-0"))

    run(scenario)


def test_a_newer_level_of_which_no_leader_has_said_anything_keeps_a_node_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "PATIENCE_MS", 0)

    async def scenario() -> None:
        async with one_with_a_tail(tmp_path) as crossing:
            said = await ends(crossing, 103, ZK)
            assert f"level {NEWEST_LEVEL + 1} of metadata.version" in said
            assert "no leader has said" in said

    run(scenario)


def test_a_newer_level_that_is_committed_keeps_a_node_out(tmp_path: Path) -> None:
    """By the word of a leader, who tells its epoch first."""

    def proper(request: Message) -> Message | None:
        if not isinstance(request, FetchRequest):
            return None
        wanted = request.topics[0].partitions[0]
        asked.append(wanted.current_leader_epoch)
        said = FetchResponse.PartitionData(
            partition_index=0, high_watermark=wanted.fetch_offset, records=b"",
            current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=101, leader_epoch=7),
        )  # fmt: skip
        if wanted.current_leader_epoch != 7:
            said.error_code, said.high_watermark = Code.FENCED_LEADER_EPOCH, -1
        topic = FetchResponse.FetchableTopicResponse(topic="", topic_id=TOPIC_ID, partitions=[said])
        return FetchResponse(responses=[topic])

    asked: list[int] = []

    async def scenario() -> None:
        async with one_with_a_tail(tmp_path) as crossing:
            peer = HostilePeer(proper)
            peer.tame = {1}
            crossing.ports[101] = await peer.listen()
            crossing.voters = ",".join(f"{id}@127.0.0.1:{crossing.ports[id]}" for id in crossing.controllers)
            said = await ends(crossing, 103, ZK)
            peer.close()
            assert "it is committed" in said
            assert len(asked) == 2
            assert asked[1] == 7

    run(scenario)


@given(at=st.integers(0), bit=st.integers(0, 7))
def test_damaged_bytes_are_no_newer_level(at: int, bit: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Recovery looks at checksums, cuts what is torn, and names what is damaged."""
    folder = tmp_path_factory.mktemp("damaged")
    data = bytearray(levels_logged(*[NEWEST_LEVEL] * 20))
    data[at % len(data)] ^= 1 << bit
    (folder / f"{0:020d}.log").write_bytes(data)
    refuse_own_log(RealDisk(), str(folder))


def test_a_log_that_is_too_large_to_be_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(levels_logged(NEWEST_LEVEL + 1))
    monkeypatch.setattr("moldau.runtime.disk._READ_WHOLE", 10)
    with caplog.at_level(logging.WARNING, "moldau.broker.kraft"):
        refuse_own_log(RealDisk(), str(tmp_path))
    assert "was not looked at before the start" in caplog.text


@pytest.mark.parametrize("level", [NEWEST_LEVEL + 1, 1000])
def test_a_metadata_log_of_a_newer_level_is_left_as_it_is(tmp_path: Path, level: int) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await crossing.boot(101, ZK)
            await crossing.stop(101)
            shutil.rmtree(tmp_path / "node-101" / "__cluster_metadata-0")
            logged(tmp_path / "node-101", level, [])
            said = await ends(crossing, 101, ZK)
            assert (
                f"level {level} of metadata.version, and this version of Moldau supports 21 to {NEWEST_LEVEL}" in said
            )

    run(scenario)


def test_a_broker_of_another_cluster_changes_nothing_on_either_side(tmp_path: Path) -> None:
    """It hears of it with the first answer of the quorum."""

    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await crossing.stop(1)
            ruling = await crossing.boot(101, ZK)
            await until(lambda: ruling.is_active_controller, "a quorum of one rules")
            node = crossing.begin(1, QUORUM, log_dirs=str(tmp_path / "another"))
            format_storage(node.config, ANOTHER, RealDisk(), RealRandom())
            before = contents(tmp_path / "another")
            error = await refusal(crossing, node.start())
            assert "another cluster" in str(error)
            assert not ruling.metadata.image.brokers
            await crossing.nodes.pop(1).stop()
            after = contents(tmp_path / "another")
            assert {file: after[file] for file in before} == before
            assert not any(data for file, data in after.items() if file.suffix == ".log")

    run(scenario)
