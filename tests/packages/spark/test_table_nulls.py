"""Tables take nulls later where the first batch had none by its SQL; rows that a table refuses are told in time."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType

from moldau.spark.tables import DeltaFormat, Table, TableError
from moldau.spark.tables.files import DataFile, FileLayout, TaskFiles
from moldau.spark.tables.iceberg import IcebergFormat
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.stores import open_store
from tests.packages.spark.table_batches import key

LONG = pa.int64()
NEVER_NULL = pa.schema(
    [
        pa.field("id", LONG),
        pa.field("amount", LONG, nullable=False),
        pa.field("tags", pa.list_(pa.field("element", LONG, nullable=False)), nullable=False),
        pa.field("part", pa.struct([pa.field("a", LONG, nullable=False)]), nullable=False),
        pa.field("map", pa.map_(pa.string(), pa.field("value", LONG, nullable=False)), nullable=False),
    ]
)
"""As Spark calls ``coalesce(a, 0)``, ``array(1)``, ``struct(1 AS a)`` and ``map('x', 1)``."""


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")


def opened(kind: str, place: Path, catalog: SqlCatalog) -> Table:
    if kind == "iceberg":
        return Table(IcebergFormat(catalog, "n.t", location=str(place / "t")), pipeline="a", begins_late=True)
    store = open_store(place / "t")
    return Table(DeltaFormat(store) if kind == "delta" else ParquetFormat(store), pipeline="a", begins_late=True)


def add(table: Table, number: int, rows: pa.Table, *, evolve: bool = False) -> None:
    """Write the rows as a task of a batch does."""
    table.format.check(rows.schema, evolve=evolve)
    table.format.prepare(rows.schema, evolve=evolve)
    table.store.make_folder(f"batch-{number}")
    told = TaskFiles(table.store, f"batch-{number}", rows.schema, FileLayout([])).write(iter(rows.to_batches()))
    files = [DataFile(one["path"], one["size"], one["rows"], json.loads(one["stats"]), {}) for one in told.to_pylist()]
    table.add(files, key(number))


@pytest.mark.parametrize("kind", ["delta", "parquet", "iceberg"])
def test_a_table_made_of_columns_that_sql_never_leaves_null_takes_nulls_and_rows_without_them_later(
    kind: str, tmp_path: Path, catalog: SqlCatalog
) -> None:
    first = {"id": 1, "amount": 1, "tags": [1], "part": {"a": 1}, "map": [("x", 1)]}
    others = [
        {"id": 2, "amount": None, "tags": [None], "part": {"a": None}, "map": [("x", None)]},
        {"id": 3, "amount": None, "tags": None, "part": None, "map": None},
    ]
    add(opened(kind, tmp_path, catalog), 0, pa.Table.from_pylist([first], NEVER_NULL))
    may_be = pa.schema([
        pa.field("id", LONG), pa.field("amount", LONG), pa.field("tags", pa.list_(pa.field("element", LONG))),
        pa.field("part", pa.struct([pa.field("a", LONG)])), pa.field("map", pa.map_(pa.string(), LONG)),
    ])  # fmt: skip
    add(opened(kind, tmp_path, catalog), 1, pa.Table.from_pylist(others, may_be))
    add(opened(kind, tmp_path, catalog), 2, pa.table({"id": pa.array([4], LONG)}))
    rows = opened(kind, tmp_path, catalog).read().sort_by("id").to_pylist()
    assert rows == [first, *others, {"id": 4, "amount": None, "tags": None, "part": None, "map": None}]


def test_rows_that_may_be_null_are_refused_where_iceberg_requires_a_column_before_any_file_is_added(
    tmp_path: Path, catalog: SqlCatalog
) -> None:
    catalog.create_namespace("n")
    part = StructType(NestedField(3, "a", LongType(), required=True))
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "part", part))
    catalog.create_table("n.t", schema=schema, location=f"file://{tmp_path}/t")
    ids, parts = pa.field("id", LONG, nullable=False), pa.field("part", NEVER_NULL.field("part").type)
    for columns, what in (
        ([pa.field("id", LONG), parts], "id"), ([parts], "id"),
        ([ids, pa.field("part", pa.struct([("a", LONG)]))], "part.a"),
    ):  # fmt: skip
        wrong = pa.schema(columns)
        table = opened("iceberg", tmp_path, catalog)
        for ask in (table.format.check, table.format.prepare):
            with pytest.raises(TableError, match=f"{what} may not be NULL there, and may be in the rows"):
                ask(wrong, evolve=False)
    add(
        opened("iceberg", tmp_path, catalog),
        0,
        pa.Table.from_pylist([{"id": 2, "part": {"a": 1}}], pa.schema([ids, parts])),
    )
    assert opened("iceberg", tmp_path, catalog).read().num_rows == 1


@pytest.mark.parametrize("kind", ["delta", "parquet", "iceberg"])
def test_a_column_that_comes_later_and_is_never_null_by_its_sql_is_let_in_and_may_go_again(
    kind: str, tmp_path: Path, catalog: SqlCatalog
) -> None:
    one = pa.table({"id": pa.array([1], LONG)})
    add(opened(kind, tmp_path, catalog), 0, one)
    add(
        opened(kind, tmp_path, catalog),
        1,
        pa.Table.from_pylist([{"id": 2, "amount": 5}], pa.schema(list(NEVER_NULL)[:2])),
        evolve=True,
    )
    add(opened(kind, tmp_path, catalog), 2, one)
    rows = opened(kind, tmp_path, catalog).read().to_pylist()
    assert sorted(one["amount"] is None for one in rows) == [False, True, True]


def test_a_parquet_table_whose_versions_told_of_parts_that_are_never_null_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = Table(ParquetFormat(open_store(place)), pipeline="a", begins_late=True)
    parts = pa.schema([NEVER_NULL.field("tags")])
    add(table, 0, pa.Table.from_pylist([{"tags": [1]}], parts))
    for version in place.rglob("*.json"):
        version.write_text(version.read_text().replace("element: int64", "element: int64 not null"))
    add(
        Table(ParquetFormat(open_store(place)), pipeline="a", begins_late=True),
        1,
        pa.Table.from_pylist([{"tags": [2]}], parts),
    )
    assert Table(ParquetFormat(open_store(place)), pipeline="a").count() == 2
