"""A campaign covers the seeds it is asked for, counts what happened, and names the command that repeats a failure."""

from __future__ import annotations

from click.testing import CliRunner

from moldau.simulator import campaign
from moldau.simulator.campaign import NODES, PLANES, ZNODES, SeedChunk, Sum, chunks, missed, run_chunk, table, too_few
from moldau.simulator.coverage_points import COVERAGE_POINTS
from moldau.simulator.coverage_points_zookeeper import ZOOKEEPER_COVERAGE_POINTS
from moldau.simulator.machines.replication_world import ReplicationSimulation
from moldau.simulator.machines.seeds import MACHINES, coverage_points_of
from moldau.simulator.mutants.mutant import Patches
from moldau.simulator.mutants.replication import TruncatesToWatermark


def test_every_seed_is_in_one_chunk() -> None:
    seeds = [
        (chunk.what, seed) for chunk in chunks(1000, 5, 70) for seed in range(chunk.first, chunk.first + chunk.seeds)
    ]
    assert len(seeds) == len(set(seeds)) == 1005
    assert {what for what, _ in seeds} == {*MACHINES, *PLANES}
    assert min(seed for _, seed in seeds) == 70


def test_what_a_chunk_came_to_is_told() -> None:
    done = run_chunk(SeedChunk("active_controller", 5, 3))
    assert (done.seeds, done.broken) == (3, [])
    assert done.checks >= done.events > 30
    assert "active_controller" in table({"active_controller": done})
    assert missed({"active_controller": run_chunk(SeedChunk("active_controller", 5, 0))})["active_controller"]


def test_marks_that_whole_clusters_never_hit_are_named() -> None:
    assert missed({NODES: Sum(coverage=set(COVERAGE_POINTS))}) == {}
    assert missed({NODES: Sum(coverage=set(COVERAGE_POINTS) - {"a replica was cut"})}) == {NODES: ["a replica was cut"]}
    assert missed({ZNODES: Sum(coverage=set(ZOOKEEPER_COVERAGE_POINTS))}) == {}
    assert missed({ZNODES: Sum()}) == {ZNODES: sorted(ZOOKEEPER_COVERAGE_POINTS)}


def test_a_machine_whose_seeds_reach_hardly_any_points_is_named_from_twenty_seeds_on() -> None:
    points = sorted(coverage_points_of("quorum"))
    most = set(points[: round(0.8 * len(points))])
    assert too_few({"quorum": Sum(seeds=20, coverage=most)}) == {}
    assert too_few({"quorum": Sum(seeds=19), NODES: Sum(seeds=100)}) == {}
    assert too_few({"quorum": Sum(seeds=20, coverage={points[0]})}) == {"quorum": f"1 of {len(points)}"}


def test_a_broken_law_ends_in_the_command_that_repeats_it() -> None:
    with Patches() as patches:
        patches.set(ReplicationSimulation, "machine", TruncatesToWatermark)
        done = run_chunk(SeedChunk("replication", 0, 12))
    assert done.broken
    assert all(
        reproduce.startswith("moldau sim --tier a --machine replication --seed ") for _, reproduce in done.broken
    )


def test_a_small_campaign_of_machines_is_clean() -> None:
    said = CliRunner().invoke(campaign.campaign, ["--machines", "50", "--nodes", "0", "--first", "900"])
    assert said.exit_code == 0, said.output
    assert "0 laws broken" in said.output
