"""``moldau sim``: print the traces of simulated runs, and how to repeat one that broke a law."""

from __future__ import annotations

import click

from moldau.cluster.mode_option import MODE
from moldau.simulator.machines.seeds import MACHINES
from moldau.simulator.scenes import (
    MIXED,
    OF_CLIENTS,
    QUORUM,
    SCENES,
    UPKEEP,
    ZOOKEEPER,
    ZOOKEEPER_SCENES,
)


@click.command()
@click.option("--seed", default=1, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds, counting up.")
@click.option(
    "--scene",
    type=click.Choice((*SCENES, *ZOOKEEPER_SCENES, MIXED, *OF_CLIENTS)),
    help="One kind of fault only; any mix otherwise.",
)
@MODE
@click.option("--tier", type=click.Choice(["a", "b"]), default="b", show_default=True, help="a: one machine alone.")
@click.option("--machine", type=click.Choice(MACHINES), default="quorum", show_default=True, help="Of tier a.")
def sim(*, seed: int, seeds: int, scene: str | None, plane: str, tier: str, machine: str) -> None:
    """Run real nodes on simulated time, nets and disks; or one machine alone. The same seed is the same history."""
    if tier == "a":
        _machine(machine, seed, seeds)
        return
    if scene in UPKEEP and plane == ZOOKEEPER:
        raise click.UsageError(f"--scene {scene} is a fault of KRaft mode, whose controllers have a log")
    if scene is not None and plane == QUORUM and scene not in (*SCENES, *OF_CLIENTS):
        raise click.UsageError(f"--scene {scene} is a fault of ZooKeeper mode: add --mode {ZOOKEEPER}")
    _nodes(seed, seeds, scene, plane)


def _machine(machine: str, seed: int, seeds: int) -> None:
    from moldau.simulator.machines.seeds import run_seed

    failed = False
    for one in range(seed, seed + seeds):
        outcome = run_seed(machine, one)
        if seeds == 1 or outcome.broken is not None:
            print("\n".join(outcome.trace))
        did = (
            f"{outcome.events} events, {outcome.checks} laws checked in {outcome.virtual_ms / 1000:.1f} virtual seconds"
        )
        print(f"{machine} seed {one}: {did}, trace {outcome.digest}", flush=True)
        if outcome.broken is not None:
            failed = True
            print(f"BROKEN {outcome.broken}\nreproduce: {outcome.reproduce}", flush=True)
    if failed:
        raise SystemExit(1)


def _nodes(seed: int, seeds: int, scene: str | None, plane: str) -> None:
    import logging

    from moldau.simulator.run import simulate

    logging.disable(logging.CRITICAL)
    failed = False
    for one in range(seed, seed + seeds):
        outcome = simulate(one, scene, plane)
        if seeds == 1 or outcome.broken:
            print("\n".join((outcome.plan, "", *outcome.trace, "", *outcome.timeline, "")))
        print(
            f"seed {one}: {outcome.verdict}, {outcome.acked} records acknowledged in {outcome.virtual_s:.0f} virtual"
            f" seconds, trace {outcome.digest}",
            flush=True,
        )
        for doubt in outcome.doubts:
            print(f"UNKNOWN {doubt}")
        for law in outcome.broken:
            print(f"BROKEN {law}")
        if outcome.broken:
            failed = True
            where = "" if plane == QUORUM else f" --mode {plane}"
            print(f"reproduce: moldau sim --seed {one}{where}" + (f" --scene {scene}" if scene else ""), flush=True)
    if failed:
        raise SystemExit(1)
