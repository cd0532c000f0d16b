"""``moldau migrate``: every command may be cut off at any step and called again; the way back loses no decision."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from moldau.cluster.cluster import ClusterError
from moldau.cluster.migration import steps
from moldau.cluster.migration.steps import ORIGINAL, Migration, MigrationPhase, Mode
from moldau.zookeeper import paths
from tests.packages.cluster.migrating import BROKERS, CutOff, World

Command = Callable[[Migration], None]


def start(migration: Migration) -> None:
    migration.start()


def cross(migration: Migration) -> None:
    for broker in migration.brokers:
        migration.cross(broker)


def rollback(migration: Migration) -> None:
    migration.rollback()


def finalise(migration: Migration) -> None:
    migration.finalise()


def modes(world: World) -> list[Mode]:
    return [process.mode for process in sorted(world.of(controllers=False))]


def one_process_each(world: World) -> None:
    known = {node.pid for node in world.migration().cluster.spec.nodes}
    assert set(world.processes) == known


def has_started(world: World) -> None:
    assert world.migration().progress() is MigrationPhase.BOTH
    assert modes(world) == [Mode.TAKES_PART] * len(BROKERS)
    assert len(world.of(controllers=True)) == 3


def is_back(world: World) -> None:
    migration = world.migration()
    assert migration.progress() is MigrationPhase.ZOOKEEPER
    assert {broker.id: broker.properties.read_text() for broker in migration.brokers} == world.originals
    assert modes(world) == [Mode.ZOOKEEPER] * len(BROKERS)
    assert paths.MIGRATION not in world.znodes
    assert not list(world.folder.glob(f"*/{ORIGINAL}"))
    assert not any(list(folder.iterdir()) for folder in world.folder.glob("node-10?"))
    kept = world.folder.glob("node-10?-old-*/data/__cluster_metadata-0/*.log")
    assert world.decisions == 1 or len(list(kept)) == 3, "they may hold the only copy of a decision"


def is_finished(world: World) -> None:
    migration = world.migration()
    assert migration.progress() is MigrationPhase.FINISHED
    assert modes(world) == [Mode.QUORUM] * len(BROKERS)
    assert not any("zookeeper.connect" in process.given for process in world.processes.values())
    assert not list(world.folder.glob(f"*/{ORIGINAL}"))


WAYS: dict[str, tuple[list[Command], Command, Command, Callable[[World], None]]] = {
    "start": ([], start, start, has_started),
    "start, then rollback": ([], start, rollback, is_back),
    "rollback": ([start], rollback, rollback, is_back),
    "rollback of brokers that crossed": ([start, cross], rollback, rollback, is_back),
    "finalise": ([start, cross], finalise, finalise, is_finished),
    "brokers, then rollback": ([start], cross, rollback, is_back),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_command_that_is_cut_off_at_any_step_is_finished_by_the_next(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut before the first step that cannot be told from no cut at all is no cut: nothing to go back from."""
    before, command, again, as_it_should_be = WAYS[way]
    for cut in count():
        world = World(tmp_path / str(cut), monkeypatch)
        for done in before:
            done(world.migration())
            world.decide(f"made-after-{done.__name__}") if world.of(controllers=True) else None
        world.left = cut
        try:
            command(world.migration())
        except CutOff:
            was_cut = True
        else:
            was_cut = False
        world.left = None
        migration = world.migration()
        if again is not rollback or migration.progress() is not MigrationPhase.ZOOKEEPER:
            again(migration)
            as_it_should_be(world)
            one_process_each(world)
        else:
            assert modes(world) == [Mode.ZOOKEEPER] * len(BROKERS), f"cut at {cut}"
        if not was_cut:
            assert cut > 5
            return
        monkeypatch.undo()


def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The quorum has decided what nobody has written to ZooKeeper."""
    monkeypatch.setattr(steps, "LEVEL_S", 0)
    world = World(tmp_path, monkeypatch)
    start(world.migration())
    world.writes_both = False
    world.decide("made-since")
    return world


def test_there_is_no_way_back_while_decisions_are_not_in_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = behind(tmp_path, monkeypatch)
    ran = dict(world.processes)
    with pytest.raises(ClusterError, match=r"up to offset 1, and the last one is at 2: .*--force.*nothing was changed"):
        rollback(world.migration())
    assert world.processes == ran
    world.writes_both = True
    rollback(world.migration())
    is_back(world)


def test_what_is_decided_after_the_look_stops_the_way_back_and_the_controllers_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    start(world.migration())
    migration = world.migration()

    def said(sentence: str) -> None:
        if sentence == "controller 101 stops":
            world.writes_both = False
            world.decide("made-at-the-last-moment")

    migration._say = said
    with pytest.raises(ClusterError, match="the last one is at 2: .*the controllers run again"):
        rollback(migration)
    assert len(world.of(controllers=True)) == 3
    world.writes_both = True
    rollback(world.migration())
    is_back(world)


def test_who_insists_is_told_what_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = behind(tmp_path, monkeypatch)
    world.migration().rollback(force=True)
    is_back(world)
    (given_up,) = [sentence for sentence in world.said if sentence.startswith("given up: ")]
    assert "up to offset 1, and the last one is at 2" in given_up
    assert list(world.folder.glob("node-101-old-1/data/__cluster_metadata-0/*.log")), "the only copy is kept"
