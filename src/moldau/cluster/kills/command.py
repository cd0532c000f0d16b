"""``python -m moldau.cluster.kills``: kill -9 of leader, controller and both under load, with a verdict.

Exit codes: 0 passed, 1 an anomaly, 2 usage, 3 the run proves nothing. Every scenario gets a cluster of its own with
default timeouts; its folder and history are kept when it did not pass. ``--check FILE`` judges a kept history again.
Read next: ``checking.py``.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from moldau.cluster.cluster import Cluster
from moldau.cluster.kills.checking import CheckedScenario, RunVerdict, check_scenario, keep, worst_of
from moldau.cluster.kills.cluster_poller import Address, System
from moldau.cluster.kills.killing import SCENARIOS, KillPlan
from moldau.cluster.kills.load import LoadPlan
from moldau.cluster.kills.report import problems, table
from moldau.cluster.mode_option import add_mode
from moldau.cluster.modes import QUORUM
from moldau.cluster.nodes import HOST
from moldau.history.checks import check
from moldau.history.rows import read_lines

Opener = Callable[[Path], System]


class MoldauSystem:
    """``moldau.Cluster`` as a system under test."""

    def __init__(self, folder: Path, plane: str = QUORUM) -> None:
        self._cluster = Cluster(brokers=3, data=folder, mode=plane)
        try:
            self._cluster.start()
        except BaseException:
            self._cluster.close()
            raise

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def brokers(self) -> Mapping[int, Address]:
        return {node.id: (HOST, node.port) for node in self._cluster.spec.nodes if node.is_broker}

    @property
    def controllers(self) -> Mapping[int, Address]:
        return {node.id: (HOST, node.controller_port) for node in self._cluster.spec.nodes if node.controller_port}

    def kill(self, node: int) -> None:
        self._cluster.kill(node)

    def restart(self, node: int) -> None:
        self._cluster.restart(node, wait=False)

    def stop(self) -> None:
        self._cluster.stop()

    def close(self) -> None:
        self._cluster.close()

    def data_dir(self, node: int) -> Path:
        return Path(self._cluster.node(node).folder) / "data"


def main(arguments: Sequence[str], open_system: Opener | None = None) -> int:
    """Run the command; the exit code. ``open_system`` starts the cluster under test in a folder; None: Moldau's."""
    options = _parser().parse_args(arguments)
    if open_system is None:
        open_system = partial(MoldauSystem, plane=options.plane)
    if options.check is not None:
        return _check_again(options.check)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    again = f"--seed {seed} --kills {options.kills} --rate {options.rate:g} --only {' '.join(options.only)}"
    again += f" --mode {options.plane}" if options.plane != QUORUM else ""
    print(f"seed {seed}; again: python -m moldau.cluster.kills {again}", flush=True)
    folder = options.out / time.strftime("%Y%m%d-%H%M%S")
    checked = []
    for scenario in options.only:
        load = LoadPlan(f"kills-{scenario}", options.partitions, rate_per_s=options.rate)
        plan = KillPlan(scenario, load, kills=options.kills, seed=seed)
        checked.append(run_one(plan, folder, open_system, _say))
    print(table(checked))
    print(problems(checked), end="\n" if any(one.verdict for one in checked) else "")
    worst = worst_of([one.verdict for one in checked])
    print(f"{worst.name}: {again}" + (f"; histories and nodes' folders are in {folder}" if worst else ""), flush=True)
    return int(worst)


def run_one(plan: KillPlan, folder: Path, open_system: Opener, say: Callable[[str], None]) -> CheckedScenario:
    """One scenario on a cluster of its own, whose folder is removed when the scenario passed."""
    nodes = folder / f"{plan.scenario}-cluster"
    nodes.mkdir(parents=True)
    system = open_system(nodes)
    try:
        checked = check_scenario(system, plan, say)
    finally:
        system.close()
    if checked.verdict is RunVerdict.PASS:
        shutil.rmtree(nodes)
    else:
        keep(checked, folder)
    return checked


def _check_again(path: Path) -> int:
    with path.open() as file:
        found = check(read_lines(file))
    for anomaly in found:
        print(f"{anomaly.kind}: {anomaly.text}")
    print(f"{len(found)} anomalies in {path}")
    return RunVerdict.FAIL if found else RunVerdict.PASS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m moldau.cluster.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="kills per scenario (20)")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), help="scenarios (all)")
    parser.add_argument("--seed", type=int, help="of pauses and choices; random and printed when not given")
    parser.add_argument("--rate", type=float, default=200.0, help="records per second of each of three producers (200)")
    add_mode(parser)
    parser.add_argument("--partitions", type=int, default=6, help="partitions of the topic (6)")
    parser.add_argument("--out", type=Path, default=Path("build/kills"), help="where failures are kept (build/kills)")
    parser.add_argument("--check", type=Path, metavar="FILE", help="judge a kept history again, run nothing")
    return parser


def _say(text: str) -> None:
    print(text, flush=True)


def stop_on_term() -> None:
    """Let SIGTERM end the command as an interrupt does, so that no node is left behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
