"""``moldau sim``: tell the story of simulated runs, and how to repeat one that broke a law."""

from __future__ import annotations

import click

from moldau.simulator.scenes import SCENES


@click.command()
@click.option("--seed", default=1, show_default=True, help="The first seed.")
@click.option("--seeds", default=1, show_default=True, help="How many seeds, counting up.")
@click.option("--scene", type=click.Choice(SCENES), help="One kind of trouble only; any mix otherwise.")
def sim(seed: int, seeds: int, scene: str | None) -> None:
    """Run real nodes on simulated time, nets and disks. The same seed is the same history."""
    import logging

    from moldau.simulator.run import simulate

    logging.disable(logging.CRITICAL)
    failed = False
    for one in range(seed, seed + seeds):
        outcome = simulate(one, scene)
        if seeds == 1 or outcome.broken:
            print("\n".join(outcome.story))
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
            print(f"reproduce: moldau sim --seed {one}" + (f" --scene {scene}" if scene else ""), flush=True)
    if failed:
        raise SystemExit(1)
