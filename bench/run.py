"""The bench: Moldau and Apache Kafka, one after the other on this machine, same client, same server.properties.

    python -m bench.run [--quick] [--only CELL ...] [--systems moldau,kafka] [--no-docs]

Runs each cell of bench/cells.py on every system before the next cell, so that both meet the machine in the same mood.
Keeps every number in bench/results/DATE.json, where a cell that is run again replaces its rows, and redraws the table
and the chart in docs/performance.md from that file.
A quick run proves that the bench works; its numbers are too small to quote and go to bench/build/quick.json.
Read next: bench/cells.py (what is measured), bench/systems.py (on what), bench/report.py (how it is shown).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.cells import CELLS as OF_CLUSTERS
from bench.cells import DRIVER, FULL, QUICK, Sizes, Stand
from bench.command_line import cli_cell
from bench.report import table, write_docs
from bench.state_changes import merge_cell
from bench.systems import SYSTEMS, TITLES

HERE = Path(__file__).parent
CELLS = {**OF_CLUSTERS, "merge": merge_cell, "cli": cli_cell}


def build_driver() -> None:
    """Compile the load driver when its source is newer. Needs a C compiler and librdkafka's headers."""
    source = HERE / "driver" / "driver.c"
    if DRIVER.exists() and DRIVER.stat().st_mtime > source.stat().st_mtime:
        return
    if not Path("/usr/include/librdkafka/rdkafka.h").exists():
        sys.exit("bench: librdkafka's headers are missing: apt-get install librdkafka-dev")
    DRIVER.parent.mkdir(exist_ok=True)
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra"]
    subprocess.run(["cc", *flags, "-o", DRIVER, source, "-lrdkafka", "-lpthread"], check=True)


def first_line(*command: str) -> str:
    """The first line that a command says, on either stream; empty if there is no such command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return (done.stdout + done.stderr).partition("\n")[0]


def machine() -> dict[str, Any]:
    """What the numbers depend on: processor, memory, kernel, versions, and how busy the machine was before."""
    cpu = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return {
        "cpu": cpu[0] if cpu else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": first_line("java", "-version"),
        "librdkafka": first_line("pkg-config", "--modversion", "rdkafka"),
        "commit": first_line("git", "-C", str(HERE), "rev-parse", "--short", "HEAD"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def measure(cells: list[str], systems: list[str], sizes: Sizes) -> list[dict[str, Any]]:
    """Run the cells; one entry for each row and system: its values in the order measured, or what went wrong."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in cells:
        for system in systems:
            try:
                for row in CELLS[cell](Stand(system, sizes)):
                    print(f"{cell:9} {system:7} {row.what}: {row.value:.4g} {row.unit}", flush=True)
                    start = {"cell": cell, "system": system, **row._asdict(), "values": []}
                    del start["value"]
                    found.setdefault((system, row.what), start)["values"].append(row.value)
            except Exception as error:  # one cell that fails must not cost the others; the result says so
                print(f"{cell:9} {system:7} FAILED: {error}", flush=True)
                said = str(error).strip().splitlines() or [repr(error)]
                reason = " ... ".join(dict.fromkeys([said[0], said[-1]]))
                found[system, cell] = {"cell": cell, "system": system, "failed": reason}
    return list(found.values())


def keep(result: dict[str, Any], file: Path) -> dict[str, Any]:
    """Write the result; rows of the same day that this run did not measure stay. Returns what the file holds now."""
    measured = {(row["cell"], row["system"]) for row in result["rows"]}
    if file.exists():
        before = json.loads(file.read_text())
        stay = [row for row in before["rows"] if (row["cell"], row["system"]) not in measured]
        result = {**result, "systems": {**before["systems"], **result["systems"]}, "rows": stay + result["rows"]}
        order = list(CELLS)
        result["rows"].sort(key=lambda row: order.index(row["cell"]))
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    return result


def main() -> int:
    ask = argparse.ArgumentParser(description="Measure Moldau and Apache Kafka side by side.")
    ask.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    ask.add_argument("--only", nargs="+", choices=CELLS, metavar="CELL", help=f"some of: {', '.join(CELLS)}")
    ask.add_argument("--systems", default=",".join(SYSTEMS), help="comma separated, in the order they are to run")
    ask.add_argument("--no-docs", action="store_true", help="leave docs/performance.md as it is")
    wish = ask.parse_args()
    systems = wish.systems.split(",")
    if not set(systems) <= set(SYSTEMS):
        ask.error(f"systems are {', '.join(SYSTEMS)}")
    build_driver()
    result: dict[str, Any] = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "systems": {name: TITLES[name] for name in systems},
        "sizes": (QUICK if wish.quick else FULL)._asdict(),
        "machine": machine(),
        "rows": measure(wish.only or list(CELLS), systems, QUICK if wish.quick else FULL),
    }
    failed = any("failed" in row for row in result["rows"])
    for row in result["rows"]:
        row["commit"] = result["machine"]["commit"]
    print(table(result))
    if wish.quick:
        keep(result, HERE / "build" / "quick.json")
    else:
        result = keep(result, HERE / "results" / f"{result['when'][:10]}.json")
        if not wish.no_docs:
            write_docs(result)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
