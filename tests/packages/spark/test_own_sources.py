"""The sources over a cluster's files without a session: options, columns, tasks and rows."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.clusterdata.jobs import JOBS
from moldau.clusterdata.metadata import TABLES
from moldau.spark.given import OptionError
from moldau.spark.own.source import FilesSource, JobSource, MetadataSource, SegmentsSource, StateLogSource
from moldau.wire.batch import build
from tests.golden.transaction_log import newest, write_recorded
from tests.packages.clusterdata.naive import batch_of, replica

SOURCES: dict[str, Callable[[dict[str, str]], FilesSource]] = {
    "statelog": StateLogSource, "segments": SegmentsSource, "metadata": MetadataSource, "job": JobSource,
}  # fmt: skip


def read(source: Callable[[dict[str, str]], FilesSource], path: Path, **options: str) -> list[dict]:
    """The rows of all partitions, each read by a reader that was sent to it."""
    made = source({"path": str(path), **options})
    reader = made.reader(None)
    found = []
    for partition in pickle.loads(pickle.dumps(reader.partitions())):
        for batch in pickle.loads(pickle.dumps(reader)).read(partition):
            assert [f"`{field.name}`" for field in batch.schema] == [
                one.split()[0] for one in made.schema().split(", ")
            ]
            found += batch.to_pylist()
    return found


def test_each_source_is_found_by_its_package_which_brings_no_reader() -> None:
    program = """
import sys
import time
import pyspark.sql.datasource
import pyspark_moldau_statelog, pyspark_moldau_segments, pyspark_moldau_metadata, pyspark_moldau_job
names = [one.DefaultSource.name() for one in (
    pyspark_moldau_statelog, pyspark_moldau_segments, pyspark_moldau_metadata, pyspark_moldau_job)]
assert names == ["moldau_statelog", "moldau_segments", "moldau_metadata", "moldau_job"], names
brought = [name for name in sys.modules if name.startswith("moldau.")]
assert set(brought) <= {"moldau.spark", "moldau.spark.own", "moldau.spark.own.source"}, brought
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)


def test_lines_of_a_log_cut_in_pieces_are_all_read(tmp_path: Path) -> None:
    log = tmp_path / "state-change.log"
    log.write_text("".join(f"[2024-01-31 10:00:00,123] INFO line {number}\n" for number in range(50)))
    rows = read(StateLogSource, tmp_path, splitBytes="100")
    assert [row["line"].rpartition(" ")[2] for row in rows] == [str(number) for number in range(50)]
    assert len(StateLogSource({"path": str(log), "splitBytes": "100"}).reader(None).partitions()) > 10
    assert len(StateLogSource({"path": str(log)}).reader(None).partitions()) == 1
    (first, *_) = read(StateLogSource, tmp_path, columns="line, time")
    assert list(first) == ["line", "time"]


def test_segments_are_read_up_to_where_is_asked(tmp_path: Path) -> None:
    replica(tmp_path, 3, "orders-0", [batch_of(0, [b"a", b"b"]), batch_of(2, [b"c"])], high=2)
    replica(tmp_path, 3, "other-0", [batch_of(0, [b"z"])])

    def offsets(**options: str) -> list[int]:
        return [row["offset"] for row in read(SegmentsSource, tmp_path, mode="records", topics="orders", **options)]

    assert offsets() == [0, 1, 2]
    assert offsets(until="highWatermark") == [0, 1]
    assert offsets(until="1") == [0]
    assert {row["topic"] for row in read(SegmentsSource, tmp_path)} == {"orders", "other"}
    assert {row["crc_ok"] for row in read(SegmentsSource, tmp_path, checksums="false")} == {None}
    assert read(SegmentsSource, tmp_path, topics="none-such") == []


def test_the_metadata_log_is_read_as_records_images_and_differences(tmp_path: Path) -> None:
    from moldau.wire.records import metadata as records
    from moldau.wire.records.framing import pack_metadata

    made = [records.FeatureLevelRecord(name="metadata.version", feature_level=n) for n in (20, 21)]
    log = [build([(5 + n, None, pack_metadata(one), ())], base_offset=n) for n, one in enumerate(made)]
    replica(tmp_path, 1, "__cluster_metadata-0", log)
    assert [row["type"] for row in read(MetadataSource, tmp_path)] == ["FEATURE_LEVEL_RECORD"] * 2
    for table in TABLES:
        read(MetadataSource, tmp_path, table=table)
    assert [row["level"] for row in read(MetadataSource, tmp_path, table="features", asOfOffset="0")] == [20]
    assert [row["level"] for row in read(MetadataSource, tmp_path, table="features", asOfTime="5")] == [20]
    (row,) = read(MetadataSource, tmp_path, table="diff", fromOffset="0")
    assert (row["key"], row["change"]) == ("metadata.version", "changed")


@pytest.mark.parametrize("job", JOBS)
def test_each_job_is_a_table(job: str, tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text("[2024-01-31 10:00:00,123] INFO nothing\n")
    replica(tmp_path, 3, "orders-0", [batch_of(0, [b"a"])], high=1)
    if job == "hanging-transactions":  # without it nothing can be told
        write_recorded(tmp_path)
    rows = read(JobSource, tmp_path, job=job)
    assert len(rows) == (1 if job in ("verify", "load") else 0)


def test_transactional_ids_are_those_that_are_named(tmp_path: Path) -> None:
    told = newest(write_recorded(tmp_path))
    rows = read(JobSource, tmp_path, job="transactions")
    assert {row["transactional_id"]: row for row in rows} == told
    rows = read(JobSource, tmp_path, job="transactions", transactionalIds="java, open")
    assert sorted(row["transactional_id"] for row in rows) == ["java", "open"]


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("statelog", {"splitBites": "1"}, "did you mean splitBytes"),
        ("statelog", {"columns": "time,lien"}, "names of file, position, line"),
        ("statelog", {"columns": "time,time"}, "each once"),
        ("statelog", {"splitBytes": "many"}, "a size like"),
        ("statelog", {"kafka.bootstrap.servers": "localhost:9092"}, "no cluster"),
        ("segments", {"mode": "bytes"}, "allowed are batches, records"),
        ("segments", {"until": "-1"}, "an offset"),
        ("segments", {"mode": "records", "checksums": "false"}, "checksums are right"),
        ("segments", {"path": "s3://bucket/x"}, "only local files"),
        ("segments", {"paths": "[]"}, "a JSON list"),
        ("metadata", {"asOfOffset": "3"}, "is of images"),
        ("metadata", {"table": "diff"}, "needs fromOffset or fromTime"),
        ("metadata", {"table": "topics", "fromOffset": "3"}, "needs fromOffset or fromTime"),
        ("metadata", {"table": "topics", "asOfOffset": "3", "asOfTime": "4"}, "not together"),
        ("metadata", {"table": "topics", "asOfTime": "noon"}, "a time is"),
        ("job", {}, "allowed are timeline"),
        ("job", {"job": "verify", "every": "1h"}, "does not take it"),
        ("job", {"job": "load", "every": "0s"}, "at least 1ms"),
        ("job", {"job": "offsets", "transactionalIds": "a"}, "does not take it"),
        ("job", {"job": "transactions", "groups": "a"}, "does not take it"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(source: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        SOURCES[source]({"path": "/tmp", **options}).schema()


def test_how_long_transactions_may_last_is_what_is_given(tmp_path: Path) -> None:
    write_recorded(tmp_path)
    told = build([(time.time_ns() // 1_000_000 - 60_000, None, b"x", ())], producer_id=99, producer_epoch=0,
                 base_sequence=0, transactional=True)  # fmt: skip
    replica(tmp_path, 3, "orders-0", [told])
    assert read(JobSource, tmp_path, job="hanging-transactions") == []
    (row,) = read(JobSource, tmp_path, job="hanging-transactions", maxTransactionTimeout="1s", topics="orders")
    assert (row["producer_id"], row["start_offset"]) == (99, 0)
