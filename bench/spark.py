"""The Spark bench: Spark's own Kafka connector and format("moldau"), in one session, on the same cluster and topics.

    python -m bench.spark [--quick] [--only CELL ...] [--system moldau|kafka]

Needs .venv-parity (scripts/parity.sh), where one version of PySpark has both. Keeps every number in
bench/results/spark-DATE.json and prints them side by side; without ``--only`` also what a batch costs a table
(bench/spark_tables.py). Read next: bench/spark_cells.py (what is measured).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.systems import ROOT, SYSTEMS, TITLES

PYTHON = ROOT / ".venv-parity" / "bin" / "python"


def measure(system: str, arguments: list[str]) -> list[dict[str, Any]]:
    """All rows, measured against one node of that system."""
    with SYSTEMS[system](nodes=1) as cluster:
        command = [str(PYTHON), "-m", "bench.spark_cells", cluster.bootstrap_servers, *arguments]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        rows = []
        environment = {**os.environ, "PYTHONPATH": path}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as bench:
            assert bench.stdout is not None
            for line in bench.stdout:
                if line.startswith("{"):
                    rows.append(row := json.loads(line))
                    print(f"{row['cell']}, {row['system']}: {row['value']:,.0f} {row['unit']}", file=sys.stderr)
        if bench.returncode:
            sys.exit(f"bench: the cells ended with {bench.returncode}; what was measured before is above")
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Both connectors side by side, and how many times as good ours is."""
    cells = dict.fromkeys((row["cell"], row["unit"], row["better"]) for row in rows)
    value = {(row["cell"], row["system"]): float(row["value"]) for row in rows}
    lines = [f"{'':28}{'Spark own':>14}{'moldau':>14}{'':>6}"]
    for cell, unit, better in cells:
        theirs, ours = value.get((cell, "kafka")), value.get((cell, "moldau"))
        ratio = ""
        if theirs and ours:
            ratio = f"{ours / theirs if better == 'higher' else theirs / ours:.1f}x"
        numbers = "".join(f"{'' if one is None else f'{one:,.0f}':>14}" for one in (theirs, ours))
        lines.append(f"{f'{cell}, {unit}':28}{numbers}{ratio:>6}")
    return "\n".join(lines)


def main() -> None:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only proves that the bench works")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--system", default="moldau", choices=list(SYSTEMS), help="whose node is read")
    arguments = parser.parse_args()
    if not PYTHON.exists():
        sys.exit("bench: .venv-parity is not there: sh scripts/parity.sh")
    more = [*(["--quick"] if arguments.quick else []), *(["--only", *arguments.only] if arguments.only else [])]
    rows = measure(arguments.system, more)
    print(f"read from one node of {TITLES[arguments.system]}\n{table(rows)}")
    today = datetime.date.today().isoformat()
    name = f"spark-{arguments.system}-{today}.json"
    target = Path(__file__).parent / ("build" if arguments.quick else "results") / name
    target.parent.mkdir(exist_ok=True)
    kept = json.loads(target.read_text()) if target.exists() else []
    measured = {row["cell"] for row in rows}
    rows = [row for row in kept if row["cell"] not in measured] + rows
    target.write_text(json.dumps(rows, indent=1) + "\n")
    if not arguments.only:
        few = ["--batches", "1", "100"] if arguments.quick else []
        subprocess.run([sys.executable, "-m", "bench.spark_tables", *few], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
