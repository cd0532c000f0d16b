"""Whole runs of real nodes in ZooKeeper mode: no law breaks, and the same seed is the same history."""

from __future__ import annotations

import pytest

from moldau.simulator.faults_zookeeper import ZOOKEEPER_FAULTS
from moldau.simulator.plan_zookeeper import draw_zookeeper
from moldau.simulator.run import RunOutcome, simulate
from moldau.simulator.scenes import DELETIONS, PIPELINED, ZOOKEEPER, ZOOKEEPER_SCENES


def told(outcome: RunOutcome) -> str:
    again = f"reproduce: moldau sim --mode zookeeper --seed {outcome.seed}"
    return "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts, again])


def test_every_scene_of_this_plane_has_its_fault() -> None:
    assert set(ZOOKEEPER_FAULTS) == set(ZOOKEEPER_SCENES)
    for scene in ZOOKEEPER_SCENES:
        assert draw_zookeeper(3, scene).faults == (scene,)


@pytest.mark.parametrize("seed", [3])
def test_mixed_faults_break_no_law(seed: int) -> None:
    outcome = simulate(seed, None, ZOOKEEPER)
    assert outcome.verdict == "passed", told(outcome)


def test_a_controller_that_comes_back_deletes_what_it_had_stopped() -> None:
    """It had stopped its replicas of a topic that is to be deleted, lost its session, and ruled again: seed 184."""
    outcome = simulate(184, PIPELINED, ZOOKEEPER)
    assert outcome.verdict == "passed", told(outcome)


def test_a_broker_that_goes_obeys_no_controller_any_more() -> None:
    """ZooKeeper was out of its reach, its session had ended unnoticed, and UpdateMetadata came: seed 7001."""
    outcome = simulate(7001, DELETIONS, ZOOKEEPER)
    assert outcome.verdict == "passed", told(outcome)


def test_the_same_seed_is_the_same_history() -> None:
    assert simulate(1, "expire", ZOOKEEPER).digest == simulate(1, "expire", ZOOKEEPER).digest
