"""Run clusters of Apache Kafka's and Moldau's nodes together under load, kill or replace each node, and compare.

    python -m tests.interchange [--only kafka-controller rolling] [--out build/interchange]

Exit code 1 when anything acknowledged was lost or doubled, a replica differs, or a request was refused; the nodes'
folders are kept then. At most three JVMs run at a time.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from mixed import KAFKA, MOLDAU

from tests.interchange.drill import Drill, Seen
from tests.interchange.mixes import MIXES, ROLLED, Mix, MixedCluster, stop_all
from tests.tools import missing

ROLLING = "rolling"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interchange", description=__doc__)
    names = [*MIXES, ROLLING]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="which of them (all)")
    parser.add_argument("--out", type=Path, default=Path("build/interchange"), help="where nodes keep their folders")
    options = parser.parse_args()
    why = missing("kafka")
    if why is not None:
        print(why, file=sys.stderr)
        return 2
    folder = options.out / time.strftime("%Y%m%d-%H%M%S")
    return int(sum(_run(name, folder) for name in options.only) > 0)  # all are run, whatever the first ones say


def _run(name: str, folder: Path) -> bool:
    """Whether something was wrong."""
    mix = MIXES.get(name, ROLLED)
    print(f"{name}: {mix.of}", flush=True)
    began = time.monotonic()
    # Snapshots after little: whoever comes back reads what the other program has put into one.
    # Brokers of Kafka look once, at their start, how many partitions __transaction_state has, or is to have.
    more = {"metadata.log.max.record.bytes.between.snapshots": 2_000, "transaction.state.log.num.partitions": 1}
    cluster = MixedCluster(mix, folder / name, more)
    drill = Drill(cluster)
    try:
        cluster.start()
        _do(name, mix, drill)
        seen = drill.judge()
    except (AssertionError, OSError, RuntimeError) as error:
        seen = drill.seen
        seen.problems.append(f"{type(error).__name__}: {error}")
    if seen.problems:
        cluster.stop()
        (cluster.folder / "producers.log").write_text("\n".join(drill.epochs.lines))
    else:
        stop_all(cluster)
    _tell(name, seen, time.monotonic() - began, folder)
    return bool(seen.problems)


def _do(name: str, mix: Mix, drill: Drill) -> None:
    def say(text: str) -> None:
        print(f"  {text}", flush=True)

    drill.begin(transactions=name != ROLLING)  # Moldau coordinates none, which runs all nodes there for a while
    if name == ROLLING:
        drill.add_user()
        drill.roll(MOLDAU, say)
        before = drill.snapshots()
        drill.ask_each(say)
        if not drill.snapshots() - before:
            drill.seen.problems.append("Moldau's nodes took no snapshot for Kafka's to read")
        drill.roll(KAFKA, say)
        drill.user_is_there()
    else:
        drill.kill_each(say)
    drill.ask_each(say)


def _tell(name: str, seen: Seen, took_s: float, folder: Path) -> None:
    for line in [*seen.refusals[:20], *seen.problems[:20]]:
        print(f"  {line}")
    verdict = f"FAIL, {len(seen.problems)} problems, see {folder}" if seen.problems else "PASS"
    again = f"{seen.again} sent again by librdkafka itself, " if seen.again else ""
    counts = f"{seen.acked} of {seen.sent} acknowledged, {again}{seen.of_strict}{seen.transactions}"
    counts += f"longest wait {seen.longest_wait_s:.1f} s"
    print(f"{name}: {verdict}; {counts}; {took_s:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
