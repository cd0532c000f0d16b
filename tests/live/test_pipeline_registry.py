"""Pipelines whose values a schema registry explains, Avro and Protobuf: test files, dead letters and their replay.

The registry is the double, to which the commands speak as to any other.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from test_pipeline import Fresh, Orders
from tests.packages.pipeline.test_decode_protobuf import message

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline.registry.double import RegistryDouble
from moldau.pipeline.running import Ended
from moldau.spark.tables import Table

pytestmark = pytest.mark.timeout(900)

FIELDS = [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}]
AVRO = {"type": "record", "name": "Order", "fields": FIELDS}
AVRO_MORE = {**AVRO, "fields": [*FIELDS, {"name": "vat", "type": "double"}]}
PROTO = 'syntax = "proto3"; package shop; message Order {{ int64 id = 1; double amount = 2; {} }}'
Values = Mapping[str, float]


def avro(schema: object, id: int, values: Values) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), dict(values))  # type: ignore[arg-type]  # as JSON
    return b"\0" + id.to_bytes(4, "big") + stream.getvalue()


def protobuf(text: object, id: int, values: Values) -> bytes:
    found = message({"main.proto": str(text)}, "shop.Order")(**values)
    raw: bytes = found.SerializeToString()
    return b"\0" + id.to_bytes(4, "big") + b"\0" + raw


@dataclass(frozen=True)
class Kind:
    """A format: its schema, a later one with a field more, and how foreign code writes a value."""

    name: str
    schema: object
    later: object
    write: Callable[[object, int, Values], bytes]

    def text(self, schema: object) -> str:
        return schema if isinstance(schema, str) else json.dumps(schema)


KINDS = {
    "avro": Kind("avro", AVRO, AVRO_MORE, avro),
    "protobuf": Kind("protobuf", PROTO.format(""), PROTO.format("double vat = 3;"), protobuf),
}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "protobuf":
        pytest.importorskip("grpc_tools", reason=".proto text is compiled by grpcio-tools, which is not installed")
    return KINDS[request.param]


@pytest.fixture
def registry() -> Iterator[RegistryDouble]:
    with RegistryDouble() as started:
        yield started


@pytest.fixture
def orders(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Fresh, kind: Kind, registry: RegistryDouble
) -> Orders:
    found = Orders(spark, bootstrap_servers, tmp_path, fresh("orders"))
    assert registry.register(f"{found.topic}-value", kind.text(kind.schema), kind.name.upper()) == 1
    declare(found, kind, registry, rule="amount >= 0")
    return found


def declare(orders: Orders, kind: Kind, registry: RegistryDouble, *, rule: str) -> None:
    orders.declare(rule=rule)
    text = orders.file.read_text()
    json_fields = "format: json, fields: {id: long, amount: double, at: timestamp}"
    assert json_fields in text
    text = text.replace(json_fields, f"format: {kind.name}, registry: '{registry.url}', version: 1")
    orders.file.write_text(text.replace("late: {column: at, after: 1h}\n", ""))


def said(orders: Orders, command: str, *words: str, code: int = 0) -> str:
    found = CliRunner().invoke(commands, [*command.split(), str(orders.file), *words])
    assert found.exit_code == code, found.output
    return found.stdout if "json" in words else found.output


def test_dead_letters_of_an_id_that_the_registry_learns_later_are_replayed_each_once(
    orders: Orders, kind: Kind, registry: RegistryDouble
) -> None:
    """So are those of a rule that was too strict; garbage stays a dead letter, with its reason."""
    orders.write(*(kind.write(kind.schema, 1, {"id": id, "amount": 1.0}) for id in range(5)))
    orders.write(*(kind.write(kind.later, 2, {"id": id, "amount": 1.0, "vat": 0.2}) for id in range(10, 13)))
    orders.write(kind.write(kind.schema, 1, {"id": 20, "amount": -1.0}), b"garbage", b"\0\0\0\0\1\xff\xff")
    assert orders.run() is Ended.DONE
    assert orders.ids() == list(range(5))
    dead = json.loads(said(orders, "dlq list", "-o", "json"))
    assert sorted((one["stage"], one["records"]) for one in dead) == [("decode", 5), ("sound", 1)]
    rows = Table(orders.folder / "dead", pipeline=orders.topic).read().to_pylist()
    assert sorted(row["schema_id"] or 0 for row in rows) == [0, 1, 1, 2, 2, 2]
    assert any("id 2" in row["reason"] for row in rows), [row["reason"] for row in rows]

    assert registry.register(f"{orders.topic}-value", kind.text(kind.later), kind.name.upper()) == 2
    declare(orders, kind, registry, rule="amount >= -1")
    assert "6 dead letters in 2 groups" in said(orders, "dlq replay", "--dry-run")
    said(orders, "dlq replay", "--yes")
    assert orders.ids() == orders.clean() == [*range(5), *range(10, 13), 20]
    status = json.loads(said(orders, "status", "--verify", "-o", "json"))
    assert (status["balanced"], status["read"], status["replayed"], status["dead_waiting"]) == (True, 11, 6, 2)
    assert [(one["what"], one["schema_id"], one["records"]) for one in status["drift"]] == [
        ("fields that are no columns: vat", 2, 3)
    ]
    said(orders, "dlq replay", "--yes")
    assert orders.ids() == [*range(5), *range(10, 13), 20], "what is garbage is a dead letter again"
    assert json.loads(said(orders, "status", "--verify", "-o", "json"))["dead_waiting"] == 2


def test_a_registry_that_fails_calls_no_dead_letter_wrong_and_the_next_replay_takes_them(
    orders: Orders, kind: Kind, registry: RegistryDouble
) -> None:
    orders.write(*(kind.write(kind.schema, 1, {"id": id, "amount": -1.0}) for id in range(3)))
    assert orders.run() is Ended.DONE
    declare(orders, kind, registry, rule="amount >= -1")
    registry.failing = True
    told = said(orders, "dlq replay", "--yes", code=1)
    assert "answers 500" in told
    registry.failing = False
    assert json.loads(said(orders, "status", "-o", "json"))["dead_waiting"] == 3
    said(orders, "dlq replay", "--yes")
    assert orders.ids() == orders.clean() == [0, 1, 2]
    assert json.loads(said(orders, "status", "--verify", "-o", "json"))["dead_waiting"] == 0


CASES = """\
- name: a mapping is a value of the schema
  records:
    - {{value: {{id: 1, amount: 2.5}}}}
    - {{value: {{id: 2, amount: -1}}, offset: 7}}
    - {{value_base64: {unknown}, offset: 8}}
    - {{value: "garbage", offset: 9}}
  rows: [{{id: 1, twice: 5}}]
  dead: [{{stage: sound, offset: 7}}, {{stage: decode, offset: 8}}, {{stage: decode, offset: 9}}]
- name: what is none is no passed case
  records: [{{value: {{ids: 1}}}}]
  rows: []
"""


def test_a_test_file_says_values_as_mappings_and_the_registry_gives_their_schema(
    orders: Orders, kind: Kind, registry: RegistryDouble
) -> None:
    unknown = base64.b64encode(kind.write(kind.later, 9, {"id": 3, "amount": 1.0, "vat": 0.2})).decode()
    orders.file.with_suffix(".test.yaml").write_text(CASES.format(unknown=unknown))
    shown = said(orders, "test", "-o", "json", code=4)
    verdicts = json.loads(shown)
    assert [one["verdict"] for one in verdicts] == ["passed", "failed"], verdicts
    (why,) = verdicts[1]["differences"]
    assert "record 1: not " in why
    assert "ids" in why
