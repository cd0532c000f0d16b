"""What a pipeline's file says of a table is what the table is opened with; no JVM is needed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from moldau.pipeline.sinks import open_format
from moldau.pipeline.spec import TableSink
from moldau.spark.tables import TableError
from moldau.spark.tables.iceberg import IcebergFormat


def iceberg(folder: Path, **options: str) -> IcebergFormat:
    given = {"catalog": "c", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", **options}
    sink = TableSink(table=str(folder / "orders"), format="iceberg", partition_by=("day",), options=given)
    found = open_format(sink, sink.table)
    assert isinstance(found, IcebergFormat)
    return found


def test_an_iceberg_table_has_the_partitions_and_the_stores_options_of_its_sink(tmp_path: Path) -> None:
    found = iceberg(tmp_path, identifier="shop.orders", AWS_REGION="somewhere")
    found.prepare(pa.schema([("id", pa.int64()), ("day", pa.string())]), evolve=False)
    table = found.catalog.load_table("shop.orders")
    assert [field.name for field in table.spec().fields] == ["day"]
    assert found.store.options == {"AWS_REGION": "somewhere"}
    assert "AWS_REGION" not in found.catalog.properties


def test_a_catalog_that_cannot_be_opened_is_named_with_its_table(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="orders: catalog c cannot be opened"):
        iceberg(tmp_path, type="none of them")
    with pytest.raises(TableError, match=r"table default.orders: the catalog gave no answer"):
        iceberg(tmp_path, type="rest", uri="http://127.0.0.1:1")
