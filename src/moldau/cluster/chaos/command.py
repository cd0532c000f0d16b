"""``python -m moldau.cluster.chaos N``: runs a scenario against real nodes and prints the verdict.

Exit codes: 0 passed, 1 an anomaly, 2 a wrong option, 3 the run proves nothing. The seed is printed first.
History, timeline, nodes' logs and the report are kept in a folder; data only when the run did not pass, or with
``--keep``. Read next: ``checking.py``.
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from moldau.cluster.chaos.checking import ScenarioOutcome, keep, play, report
from moldau.cluster.chaos.net import CannotBreak
from moldau.cluster.chaos.nets import NETWORKS, open_net
from moldau.cluster.chaos.scenario_context import PROFILES, SAFE, ScenarioContext, ScenarioOptions
from moldau.cluster.chaos.scenarios.table import SCENARIOS
from moldau.cluster.chaos.system import KAFKA, KINDS, MOLDAU, Rig, RigOptions, refuse
from moldau.cluster.kills.checking import RunVerdict, worst_of
from moldau.cluster.mode_option import add_mode
from moldau.cluster.modes import QUORUM
from moldau.history.rows import History

MODULE = "moldau.cluster.chaos"
_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.list or not asked.scenario:
        print("\n".join(f"{number:3}  {scenario.sentence}" for number, scenario in SCENARIOS.items()))
        return RunVerdict.PASS if asked.list else _USAGE
    problem = refuse(asked.system, asked.plane)
    if problem is not None:
        print(problem)
        return _USAGE
    numbers = list(SCENARIOS) if asked.scenario == "all" else [int(asked.scenario)]
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    verdicts = [run(number, asked, seed) for number in numbers]
    if len(numbers) > 1:
        print(" ".join(f"{number}:{verdict.name}" for number, verdict in zip(numbers, verdicts, strict=True)))
    return worst_of(verdicts)


def run(number: int, asked: argparse.Namespace, seed: int) -> RunVerdict:
    """Run one scenario on a cluster of its own."""
    scenario = SCENARIOS[number]
    again = _again(number, asked, seed)
    print(f"scenario {number}: {scenario.sentence}", flush=True)
    if asked.system == KAFKA and not scenario.for_kafka:
        print("UNKNOWN; it says nothing of Apache Kafka", flush=True)
        return RunVerdict.UNKNOWN
    folder = (asked.keep or Path("build/chaos")) / f"{time.strftime('%Y%m%d-%H%M%S')}-{number}-{asked.system}-{seed}"
    folder.mkdir(parents=True)
    options = ScenarioOptions(seed, asked.settings, asked.rounds, asked.seconds)
    outcome = _played(folder.resolve(), asked, options, number)
    keep(outcome, folder, again)
    print(f"{report(outcome, again)}\nkept in {folder}", flush=True)
    if outcome.verdict is RunVerdict.PASS and asked.keep is None:
        for node in folder.glob("node-*"):
            shutil.rmtree(node / "data", ignore_errors=True)
    return outcome.verdict


def _played(folder: Path, asked: argparse.Namespace, options: ScenarioOptions, number: int) -> ScenarioOutcome:
    scenario = SCENARIOS[number]
    nothing = ScenarioOutcome(History([], [], [], {}, []), [], [], [], [])
    try:
        net = open_net(scenario.links, asked.network)
    except CannotBreak as refusal:
        return nothing._replace(doubts=[str(refusal)])
    print(f"the net: {net.words}", flush=True)
    try:
        rig = Rig(folder, RigOptions(asked.system, asked.plane, scenario.volume()), net)
    except CannotBreak as refusal:
        net.close()
        return nothing._replace(doubts=[str(refusal)])
    try:
        return play(ScenarioContext(rig, options, lambda text: print(text, flush=True)), scenario.act)
    finally:
        rig.close()


def _again(number: int, asked: argparse.Namespace, seed: int) -> str:
    words = [f"python -m {MODULE} {number} --seed {seed}"]
    given = (("--system", asked.system, MOLDAU), ("--mode", asked.plane, QUORUM), ("--settings", asked.settings, SAFE))
    words += [f"{name} {value}" for name, value, default in given if value != default]
    words += [f"--network {asked.network}"] if asked.network is not None else []
    return " ".join([*words, f"--rounds {asked.rounds} --seconds {asked.seconds:g}"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    known = [*(str(number) for number in SCENARIOS), "all"]
    parser.add_argument("scenario", nargs="?", choices=known, metavar="SCENARIO", help=f"one of {', '.join(known)}")
    parser.add_argument("--list", action="store_true", help="name the scenarios, run nothing")
    parser.add_argument("--seed", type=int, help="of all choices and pauses; random and printed when not given")
    add_mode(parser)
    parser.add_argument("--system", choices=KINDS, default=MOLDAU, help=f"what is tested ({MOLDAU})")
    parser.add_argument("--settings", choices=PROFILES, default=SAFE, help="what producers and the topic ask for")
    parser.add_argument("--network", choices=NETWORKS, help="namespaces where permitted, else the proxy")
    parser.add_argument("--rounds", type=int, default=5, help="of scenarios that repeat something (5)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of scenarios that last (60)")
    parser.add_argument("--keep", type=Path, help="keep everything, nodes' data too, under this folder")
    return parser
