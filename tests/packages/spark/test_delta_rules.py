"""What a Delta table says of its rows is kept to: constraints, columns that may not be null, rows that are deleted."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from moldau.spark.tables import DeltaFormat, Table, TableError
from moldau.spark.tables.files import folder_of, read_footers
from moldau.spark.tables.stores import open_store
from tests.packages.spark.table_batches import key
from tests.packages.spark.test_table_take_back import add

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def rows(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def test_rows_are_not_added_behind_the_back_of_a_constraint(tmp_path: Path) -> None:
    table = add(tmp_path, rows(1, 2), key(0))
    DeltaTable(tmp_path).alter.add_constraint({"small": "id < 10"})
    for value in (3, 30):
        with pytest.raises(TableError, match=r"rules that are not looked at .*small: id < 10"):
            add(tmp_path, rows(value), key(1))
    with pytest.raises(TableError, match="small: id < 10"):
        table.format.check(rows(3).schema, evolve=False)
    assert table.count() == 2
    DeltaTable(tmp_path).alter.drop_constraint("small")
    add(tmp_path, rows(30), key(1))
    assert table.count() == 3


def test_a_column_that_may_not_be_null_gets_no_nulls(tmp_path: Path) -> None:
    long = PrimitiveType("long")
    DeltaTable.create(tmp_path, Schema([Field("id", long, nullable=False), Field("more", long)]))
    both = pa.table({"id": [1], "more": pa.array([None], pa.int64())})
    table = add(tmp_path, both, key(0))
    for wrong in (rows(1, None), rows(None)):
        with pytest.raises(TableError, match=r"id may not be NULL there.*id IS NOT NULL"):
            add(tmp_path, wrong, key(1))
    with pytest.raises(TableError, match="the rows lack id, which may not be NULL"):
        add(tmp_path, both.select(["more"]), key(1))
    add(tmp_path, rows(2), key(1))
    assert table.count() == 2


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.struct([("inner", pa.int64())]), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())],
    ids=str,
)
def test_a_null_is_found_where_the_footer_of_a_file_does_not_tell_of_it(tmp_path: Path, kind: pa.DataType) -> None:
    """Spark writes no statistics for texts above 4 KB, and nobody for structs and lists themselves."""
    value = {"struct": {"inner": None}, "list": [None], "map": []}.get(str(kind).partition("<")[0], "x" * 5000)
    DeltaTable.create(tmp_path, Schema.from_arrow(pa.schema([pa.field("it", kind, nullable=False)])))

    def append(number: int, *values: object) -> None:
        table, name = Table(DeltaFormat(open_store(str(tmp_path)))), folder_of(number)
        (tmp_path / name).mkdir()
        given = pa.table({"it": pa.array(values, kind)})
        pq.write_table(given, tmp_path / name / "part-0.parquet", write_statistics=False)
        table.format.prepare(given.schema, evolve=False)
        table.add(read_footers(table.store, name), key(number))

    append(0, value, value)
    with pytest.raises(TableError, match=r"it may not be NULL there.*it IS NOT NULL"):
        append(1, value, None)
    assert DeltaTable(tmp_path).count() == 2


def delete(place: Path, *positions: int) -> None:
    """Delete rows of the newest file by a deletion vector, as Spark does."""
    log, version = place / "_delta_log", DeltaTable(place).version()
    actions = [json.loads(line) for file in sorted(log.glob("*.json")) for line in file.read_text().splitlines()]
    added = [one["add"] for one in actions if "add" in one][-1]
    bits = struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, len(positions) - 1, 16)
    bits += b"".join(struct.pack("<H", one) for one in positions)
    told = struct.pack("<iQI", 1681511377, 1, 0) + bits
    told += b"\0" * (-len(told) % 4)
    text = ""
    for at in range(0, len(told), 4):
        number, part = int.from_bytes(told[at : at + 4], "big"), ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            part = _Z85[digit] + part
        text += part
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(told), "cardinality": len(positions)}
    features = ["deletionVectors"]
    written = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
                      "writerFeatures": [*features, "appendOnly", "invariants"]}},
        {"remove": {"path": added["path"], "deletionTimestamp": 1, "dataChange": True, "partitionValues": {},
                    "extendedFileMetadata": True, "size": added["size"]}},
        {"add": {**added, "deletionVector": vector, "stats": json.dumps({**json.loads(added["stats"]),
                                                                        "tightBounds": False})}},
        {"commitInfo": {"timestamp": 1, "operation": "DELETE", "operationParameters": {}}},
    ]  # fmt: skip
    (log / f"{version + 1:020d}.json").write_text("".join(f"{json.dumps(one)}\n" for one in written))


def test_rows_that_a_deletion_vector_deletes_are_not_counted_and_hold_up_no_batch(tmp_path: Path) -> None:
    add(tmp_path, rows(1, 2), key(0))
    table = add(tmp_path, rows(3, 4, 5), key(1))
    delete(tmp_path, 0, 2)
    table = Table(DeltaFormat(open_store(tmp_path)), pipeline="a", begins_late=True)
    assert (table.count(), table.held().rows) == (3, 3)
    entry = table.last()
    assert entry is not None
    assert not table.can_take_back(entry), "a removal names the vector too, which delta-rs cannot say"
    assert not table.take_back(entry)
    add(tmp_path, rows(6), key(2))
    assert table.held().rows == 4
    assert table.maintain()["merged"] == 3
    assert (table.count(), table.held().rows) == (4, 4)
