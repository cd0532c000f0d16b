"""What docs/cluster-pipelines.md shows is run as printed, over the files of a cluster that it starts; and the examples
that `moldau job --help` gives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from test_snippets import blocks, run
from tests.golden.transaction_log import newest, write_recorded
from tests.packages.clusterdata.naive import replica

from moldau.admin.cli import cli
from moldau.wire.batch import build

PAGE = "docs/cluster-pipelines.md"
CHECKS = """
from pyspark.errors import PySparkException
assert lines.where("reason IS NULL AND leader >= 0").count() > 0
verdicts = spark.read.format("moldau_job").options(job="verify", topics="orders").load(data).collect()
found = sorted((row.partition, row.broker, row.verdict) for row in verdicts)
assert found == [(partition, broker, "OK") for partition in (0, 1) for broker in (1, 2, 3)]
committed = spark.read.format("moldau_job").options(job="offsets", groups="billing").load(data)
assert sum(row.offset for row in committed.collect()) == 3
open_ones = jobs.option("job", "transactions").load("kafka-data").where("state = 'Ongoing'").collect()
assert [(row.transactional_id, row.partitions) for row in open_ones] == [("open", ["orders-0", "orders-1"])]
try:
    spark.read.format("moldau_segments").options(mood="records").load(data)
except PySparkException as error:
    assert "did you mean mode" in str(error), error
else:
    raise AssertionError("mood was taken")
print("all is so")
"""
SERVERS = """moldau status -o json | python -c 'import json, sys; print(json.load(sys.stdin)["bootstrap_servers"])'"""


def examples() -> list[str]:
    """The commands of the help of `moldau job`."""
    group = cli.get_command(click.Context(cli), "job")
    assert group is not None
    return [line.strip() for line in (group.help or "").splitlines() if line.strip().startswith("moldau ")]


def write_transactions(data: Path) -> None:
    """The log of a coordinator, and a partition with records of the transaction that is open there."""
    producer = newest(write_recorded(data))["open"]["producer_id"]
    told = build([(1, None, b"x", ())], producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
    replica(data, 1, "orders-0", [told])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's commands were run, and left the files of a cluster that was stopped."""
    found = tmp_path_factory.mktemp("pipelines")
    script = "\n".join(text for kind, text in blocks(PAGE) if kind == "sh")
    (text,) = [text for kind, text in blocks(PAGE) if kind == "yaml"]
    (found / "state-changes.yaml").write_text(text)
    write_transactions(found / "kafka-data")
    script = script.replace("moldau pipeline run", f"KAFKA=$({SERVERS}) moldau pipeline run")
    script = script.replace("--brokers 3", "--brokers 3 --port 0")  # other tests run beside this one
    path = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
    try:
        said = run("bash", "-ec", f"set -o pipefail\n{path}{script}", cwd=found, patience_s=600)
    finally:
        subprocess.run([sys.executable, "-m", "moldau", "down"], cwd=found, capture_output=True, check=False)
    (found / "said").write_text(said)
    return found


def test_the_commands_of_the_page_do_what_it_says(folder: Path) -> None:
    said = (folder / "said").read_text()
    assert "billing" in said
    assert re.search(r"^open +Ongoing +\d+ +0 +orders-0,orders-1 ", said, re.M)
    assert '{"group": "billing", "topic": "orders", ' in said
    assert "PartitionRecord" not in said
    rows = json.loads((folder / "load.json").read_text())
    assert {row["broker"] for row in rows} == {1, 2, 3}
    assert sum(row["records"] for row in rows if row["broker"] == 1) == 3
    assert (folder / "plan.json").exists()
    metrics = [json.loads(json.loads(line)["value"]) for line in (folder / "metrics.json").read_text().splitlines()]
    assert {one["node"] for one in metrics} <= {1, 2, 3}
    assert len(metrics) == 3
    from moldau.spark.tables import Table

    now = Table(folder / "tables" / "partitions", pipeline="state-changes").read().to_pylist()
    assert {(row["topic"], row["partition"]) for row in now} >= {("orders", 0), ("orders", 1)}
    assert len({(row["topic"], row["partition"]) for row in now}) == len(now)


def test_the_examples_of_the_help_are_run(folder: Path) -> None:
    assert len(examples()) == 5
    path = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
    # Of the cluster's own topics a replica may end a little before another: its broker was stopped first.
    lines = [f"{line} || test $? = 1" if "verify" in line else line for line in examples()]
    run("bash", "-ec", path + "\n".join(lines), cwd=folder)


def test_the_statements_of_the_page_do_what_it_says(folder: Path) -> None:
    """One session for all that Spark shows here."""
    pytest.importorskip("pyspark")
    (text,) = [text for kind, text in blocks(PAGE) if kind == "python"]
    (folder / "page.py").write_text(text + CHECKS)
    said = run(sys.executable, "page.py", cwd=folder, patience_s=600)
    assert "PARTITION_RECORD" in said
    assert said.rstrip().endswith("all is so")
