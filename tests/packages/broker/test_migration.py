"""The way from ZooKeeper to the quorum with real nodes in one process: each stage, the way back, what is refused."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.lifecycle import Stage as LifecycleStage
from moldau.broker.migration.stages import MigrationStage
from moldau.broker.node import Node, StartRefused
from moldau.client.admin import NewTopic, create_topics, delete_topics
from moldau.client.client import Client
from moldau.client.world_lines import WorldLines
from moldau.controller.migration import MigrationState
from moldau.image.partition import LOST
from moldau.model.config_key import ConfigError
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.packages.broker.crossing import CONNECT, MARKS, MIGRATE, QUORUM, READY, ZK, Crossing
from tests.packages.broker.data_cluster import PATIENCE_S, run, until


async def topic(crossing: Crossing, name: str) -> None:
    client = crossing.client()
    new = NewTopic(name=name, partitions=3, replication_factor=3, configs={"retention.ms": "60000"})
    made = await create_topics(client, [new])
    client.close()
    assert made[name].code == 0, made


async def no_topic(crossing: Crossing, name: str) -> None:
    client = crossing.client()
    gone = await delete_topics(client, [name])
    client.close()
    assert gone[name].code == 0, gone


async def lawful(crossing: Crossing) -> None:
    end = time.monotonic() + PATIENCE_S
    while not await crossing.laws_hold():
        assert time.monotonic() < end, "Z4, Z7: the znodes do not say what the controller knows"
        await asyncio.sleep(0.005)


async def migrated(crossing: Crossing) -> None:
    """Controllers, and brokers that take part: the quorum rules."""
    await asyncio.gather(*(crossing.boot(id, READY) for id in crossing.controllers))
    for id in crossing.brokers:
        await crossing.restart(id, READY)
    await until(lambda: crossing.stage() is MigrationStage.BOTH, "the quorum rules and writes to both")
    await until(crossing.in_sync, "all brokers serve under the quorum")


def test_a_controller_says_whether_it_takes_part_in_a_migration(tmp_path: Path) -> None:
    """In its answer to ApiVersions, as Kafka's: so `moldau adopt check` knows of a migration that is not ended."""

    async def says(crossing: Crossing) -> bool:
        client = Client(WorldLines(crossing.world()), f"127.0.0.1:{crossing.ports[101]}")
        answer = await client.ask(ApiVersionsRequest(client_software_name="moldau", client_software_version="1"))
        client.close()
        return bool(answer.zk_migration_ready)

    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await migrated(crossing)
            assert await says(crossing)
            for id in crossing.brokers:
                await crossing.restart(id, QUORUM)
            await until(crossing.in_sync)
            assert await says(crossing)
            await crossing.restart(101, ZK)
            await until(lambda: crossing.state() is MigrationState.POST_MIGRATION, "it is finished")
            assert not await says(crossing)

    run(scenario)


def test_a_cluster_goes_all_the_way_and_keeps_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await topic(crossing, "before")
            await topic(crossing, "doomed")
            await until(crossing.in_sync)
            ids = dict(crossing.nodes[1].metadata.image.names)
            await migrated(crossing)
            assert crossing.state() is MigrationState.MIGRATION
            assert crossing.nodes[101].metadata.image.names == ids
            await topic(crossing, "meanwhile")
            await no_topic(crossing, "doomed")
            await until(crossing.in_sync)
            await lawful(crossing)
            for id in crossing.brokers:
                await crossing.restart(id, QUORUM)
                await until(crossing.in_sync, f"broker {id} is in KRaft mode")
                await topic(crossing, f"with-{id}-moved")
                await until(crossing.in_sync)
                await lawful(crossing)
            await crossing.restart(101, ZK)
            await until(lambda: crossing.state() is MigrationState.POST_MIGRATION, "it is finished")
            await topic(crossing, "after")
            await until(crossing.in_sync)
            names = crossing.nodes[1].metadata.image.names
            assert set(names) == {"before", "meanwhile", "after", *(f"with-{id}-moved" for id in crossing.brokers)}
            assert names["before"] == ids["before"]
            assert crossing.nodes[1].metadata.image.config(2, "before") == {"retention.ms": "60000"}

    run(scenario)


def test_a_cluster_may_go_back_to_zookeeper_until_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await topic(crossing, "before")
            await migrated(crossing)
            await crossing.restart(1, QUORUM)
            await until(crossing.in_sync)
            await topic(crossing, "meanwhile")
            await until(crossing.in_sync)
            await crossing.restart(1, READY)
            await until(crossing.in_sync)
            await lawful(crossing)
            await crossing.stop(101)
            for path in MARKS:
                crossing.remove(path)
            ruler = await until(lambda: crossing.ruler, "a broker is controller again")
            assert ruler.config.node_id in crossing.brokers
            await topic(crossing, "after")
            await until(crossing.in_sync)
            await lawful(crossing)
            assert set(crossing.nodes[2].metadata.image.names) == {"before", "meanwhile", "after"}

    run(scenario)


def test_a_controller_waits_for_brokers_and_says_for_whom(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await topic(crossing, "t")
            await crossing.boot(101, READY)
            await crossing.restart(1, READY)
            await crossing.restart(2, READY)
            await until(lambda: "waits for broker 3 (not registered with the quorum" in caplog.text, "it says for whom")
            await crossing.stop(3)
            await until(lambda: "waits for broker 3 (it holds replicas, and is not" in caplog.text, "it says so again")
            await until(lambda: crossing.stage() is None, "a broker is controller, and the quorum's waits")
            assert crossing.state() is MigrationState.PRE_MIGRATION
            await crossing.boot(3, READY)
            await until(lambda: crossing.stage() is MigrationStage.BOTH)
            await until(crossing.in_sync)

    run(scenario)


def test_a_broker_of_the_quorums_plane_is_not_let_in_before_anything_was_copied(tmp_path: Path) -> None:
    """It would find no topics, and take its replicas for strays."""

    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await topic(crossing, "t")
            await crossing.boot(101, READY)
            await crossing.restart(1, READY)
            await crossing.stop(2)
            late = asyncio.ensure_future(crossing.boot(2, QUORUM))
            await asyncio.wait([late], timeout=1)
            assert not late.done()
            late.cancel()
            await asyncio.wait([late])
            await crossing.stop(2)
            assert (tmp_path / "node-2" / "t-0").exists()

    run(scenario)


def test_controllers_that_were_left_behind_do_not_come_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What they know is older than what ZooKeeper's controller has decided since."""

    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await migrated(crossing)
            await crossing.stop(101)
            for path in MARKS:
                crossing.remove(path)
            await until(lambda: crossing.ruler is not None)
            await topic(crossing, "since")
            await crossing.boot(101, READY)
            await until(lambda: "/migration is gone" in caplog.text, "it says why it keeps still")
            assert crossing.nodes[1].metadata.image.names.keys() == {"since"}
            await topic(crossing, "later")

    run(scenario)


def test_a_quorum_that_loses_its_leader_or_zookeeper_makes_up_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path, controllers=3) as crossing:
            await migrated(crossing)
            first = await until(lambda: crossing.ruler, "somebody rules")
            await crossing.stop(first.config.node_id)
            await until(lambda: crossing.stage() is MigrationStage.BOTH, "another rules, and writes to both")
            await topic(crossing, "under-another")
            ruler = await until(lambda: crossing.stage() is MigrationStage.BOTH and crossing.ruler, "somebody rules")
            session = ruler.migration.zk
            session.suspend()
            await topic(crossing, "without-zookeeper")
            assert "/brokers/topics/without-zookeeper" not in crossing.server.znodes
            crossing.server.expire(session.session_id)
            await lawful(crossing)
            await until(crossing.in_sync)
            assert "/brokers/topics/without-zookeeper" in crossing.server.znodes

    run(scenario)


def test_a_controller_that_leaves_with_decisions_that_zookeeper_lacks_says_how_many(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes back to ZooKeeper now would lose them, so that its end is no clean one."""
    monkeypatch.setattr("moldau.broker.migration.driver.DRAIN_MS", 100)

    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await migrated(crossing)
            controller = crossing.nodes[101]
            migration = controller.migration
            assert migration is not None
            await until(migration._is_level, "ZooKeeper has been told of all that was decided so far")
            told = controller.metadata.offset
            migration.zk.suspend()  # type: ignore[attr-defined]
            await topic(crossing, "without-zookeeper")
            decided = controller.metadata.offset
            controller.stop_soon()
            await until(lambda: 101 in crossing.ended, "it has left")
            assert crossing.ended.pop(101) == 1
            crossing.nodes.pop(101)
            (error,) = [r.getMessage() for r in caplog.records if "ZooKeeper lacks" in r.getMessage()]
            lacking = int(error.split("the last ")[1].split()[0])
            assert decided - told <= lacking <= controller.metadata.offset - told
            assert f"up to offset {controller.metadata.offset}" in error

    run(scenario)


def fail_one(node: Node) -> list[int]:
    """Have one of two directories of a broker fail; the partitions in it."""
    assert node.data is not None
    here = {tp.partition: one.dir for tp, one in node.data.log_dirs.logs.items() if tp.topic == "t"}
    victim = here[0]
    victim.fail(OSError(5, "Input/output error"))
    lost = [number for number, dir in here.items() if dir is victim]
    assert 0 < len(lost) < len(here), "both directories hold something"
    return lost


def test_a_broker_that_takes_part_loses_no_more_than_the_directory_that_fails(tmp_path: Path) -> None:
    """KIP-112 on ZooKeeper, KIP-858 in KRaft mode; in between its note reaches a controller of the quorum."""

    async def scenario() -> None:
        async with Crossing(tmp_path, dirs=2) as crossing:
            await topic(crossing, "t")
            await migrated(crossing)
            node = crossing.nodes[2]
            lost = fail_one(node)

            def partitions() -> dict[int, Any]:
                known = crossing.nodes[101].metadata.image.topic("t")
                assert known is not None
                return dict(known.partitions)

            def others_lead() -> bool:
                return all(p.leader not in (2, -1) and 2 not in p.isr for n, p in partitions().items() if n in lost)

            await until(others_lead, "others lead what it cannot have")
            assert sorted(n for n, p in partitions().items() if p.directory(2) == LOST) == sorted(lost)
            assert all(2 in p.isr for n, p in partitions().items() if n not in lost)
            left = "/log_dir_event_notification/"
            await until(lambda: not [p for p in crossing.server.znodes if p.startswith(left)], "the note is gone")
            assert node.lifecycle is not None
            assert node.lifecycle.stage is LifecycleStage.RUNNING
            await lawful(crossing)

            await crossing.restart(2, READY)
            await until(crossing.in_sync, "it has all of them again")
            await until(lambda: all(p.directory(2) != LOST for p in partitions().values()), "the controller knows")

    run(scenario)


def test_the_setting_is_refused_where_it_makes_no_sense(tmp_path: Path) -> None:
    crossing = Crossing(tmp_path)
    with pytest.raises(ConfigError, match=r"zookeeper\.connect: .*migrate from there"):
        NodeConfig(crossing.settings(101, ZK) | MIGRATE)
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters: .*must know the controllers"):
        NodeConfig(crossing.settings(1, ZK) | MIGRATE)
    with pytest.raises(ConfigError, match="has left ZooKeeper already"):
        NodeConfig(crossing.settings(1, QUORUM) | CONNECT | MIGRATE)


def test_a_controller_formatted_for_another_cluster_does_not_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            right, crossing.cluster_id = crossing.cluster_id, "AAAAAAAAAAAAAAAAAAAAAQ"
            with pytest.raises(
                StartRefused, match=f"is {right}, and this node was formatted for AAAAAAAAAAAAAAAAAAAAAQ"
            ):
                await crossing.boot(101, READY)
            del crossing.nodes[101]

    run(scenario)


def test_a_broker_that_goes_back_forgets_the_quorum_for_the_next_may_be_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await topic(crossing, "t")
            await migrated(crossing)
            await crossing.restart(1, QUORUM)
            assert (tmp_path / "node-1" / "__cluster_metadata-0").exists()
            await crossing.restart(1, READY)
            assert not (tmp_path / "node-1" / "__cluster_metadata-0").exists()
            await crossing.stop(101)
            shutil.rmtree(tmp_path / "node-101")
            for path in MARKS:
                crossing.remove(path)
            await until(lambda: crossing.ruler is not None)
            await crossing.boot(101, READY)
            await until(lambda: crossing.stage() is MigrationStage.BOTH, "another quorum rules")
            await until(crossing.in_sync)
            await crossing.restart(1, QUORUM)
            await until(crossing.in_sync, "broker 1 follows it")

    run(scenario)


def test_it_is_not_finished_while_a_broker_is_on_zookeeper(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Crossing(tmp_path) as crossing:
            await topic(crossing, "t")
            await migrated(crossing)
            await crossing.restart(1, QUORUM)
            await crossing.stop(101)
            crossing.session_timeout_ms = 3000  # of this life of the controller alone: in others no session is to end
            await crossing.boot(101, ZK)
            crossing.session_timeout_ms = 30_000
            await until(lambda: "Brokers [2, 3] are still in ZooKeeper mode" in caplog.text, "it says who is left")
            fenced = crossing.nodes[101].metadata.image.brokers
            await until(lambda: fenced[2].fenced and fenced[3].fenced, "nobody speaks for them")
            assert crossing.state() is MigrationState.MIGRATION
            await crossing.restart(101, READY)
            await until(crossing.in_sync, "they are led again")
            await topic(crossing, "later")
            await until(crossing.in_sync)
            await lawful(crossing)

    run(scenario)
