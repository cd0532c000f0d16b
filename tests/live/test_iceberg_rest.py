"""Iceberg tables whose catalog is a REST server: the ledger's rules hold over lost answers, conflicts and kills."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from foreign import create_topic
from iceberg_catalog import CatalogServer, Proxy, proxy
from pyiceberg.catalog.rest import RestCatalog
from tests.packages.spark.table_batches import key
from tests.packages.spark.test_table_formats import add, race, walk

from moldau.pipeline.books import BookLine
from moldau.pipeline.feed.running import runner as feeding
from moldau.pipeline.reading import load
from moldau.pipeline.running import Ended, Runner
from moldau.spark import session
from moldau.spark.tables import LedgerEntry, Table, TableError
from moldau.spark.tables.files import DataFile
from moldau.spark.tables.iceberg import IcebergFormat

Make = Callable[..., Table]
_numbers = itertools.count()

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    found = CatalogServer(tmp_path_factory.mktemp("catalog"))
    yield found
    found.kill()


@pytest.fixture
def lossy(server: CatalogServer) -> Iterator[Proxy]:
    with proxy(server) as found:
        yield found


@pytest.fixture
def make(lossy: Proxy) -> Make:
    """A table of this test, opened anew: as another driver would have it."""
    name = f"t{next(_numbers)}"
    place = str(lossy.server.folder / name)

    def opened(by: Sequence[str] = ()) -> Table:
        catalog = RestCatalog("rest", uri=lossy.uri)
        return Table(IcebergFormat(catalog, f"n.{name}", location=place, partition_by=by))

    return opened


def test_the_ledgers_rules_hold_with_a_rest_catalog(make: Make) -> None:
    walk(make)


@pytest.mark.parametrize("fault", ["cut", "500", "502", "503", "504", "unsent"])
def test_a_commit_whose_answer_was_lost_is_looked_for_and_made_once(make: Make, lossy: Proxy, fault: str) -> None:
    running = make()
    assert add(running, key(0))
    lossy.lose += [fault]
    assert add(running, key(1)) is (fault == "unsent"), "whether this run, or an answer that was lost, added it"
    assert add(running, key(2))
    assert lossy.lost == [fault]
    assert not add(make(), key(2))
    assert sorted(make().read()["id"].to_pylist()) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_line_without_rows_whose_answer_was_lost_is_found(make: Make, lossy: Proxy) -> None:
    for number in range(3):
        assert add(make(), key(number))
    lossy.lose += ["504"]
    make().adopt()
    assert add(make(), key(3, "another"))
    lossy.lose += ["cut"]
    assert json.loads(make().rewind(1)) == {"t": {"0": 20}}
    lossy.lose += ["503"]
    make().reset()
    assert lossy.lost == ["504", "cut", "503"]
    assert make().count() == 6


def test_of_drivers_that_race_over_rest_one_is_let_in(make: Make) -> None:
    assert add(make(), key(0))
    race([make() for _ in range(3)], key(1))
    assert make().count() == 6


def test_a_table_whose_driver_was_killed_while_it_was_made_is_partitioned(make: Make, lossy: Proxy) -> None:
    """By one commit, so that there is nothing between a table and its partitions."""
    lossy.lose_next_creation = True
    with pytest.raises(TableError, match="the catalog gave no answer"):
        add(make(["name"]), key(0))
    assert add(make(["name"]), key(0))
    assert make(["name"]).count() == 3


def test_a_table_goes_on_when_its_snapshots_were_expired_by_way_of_the_server(make: Make) -> None:
    running = make()
    for number in range(3):
        assert add(running, key(number))
    assert make().maintain(retention_hours=0)["expired"] == 3
    assert add(running, key(3))
    assert not add(make(), key(3))
    assert make().count() == 12


def test_a_driver_goes_on_when_the_catalog_was_killed_and_started_again(make: Make, server: CatalogServer) -> None:
    running = make()
    assert add(running, key(0))
    server.kill()
    with pytest.raises(TableError, match="the catalog gave no answer"):
        add(running, key(1))
    server.start()
    assert add(running, key(1))
    assert not add(make(), key(1))
    assert make().count() == 6


ORDERS = """\
pipeline: {topic}
cluster: {bootstrap}
folder: state
source: {{topics: {topic}, max_records: 40}}
decode: {{format: json, fields: {{id: long, half: string}}}}
transform:
  - sql: SELECT id, half FROM records
sinks:
  - table: orders
    format: iceberg
    partition_by: half
    options: {{catalog: rest, type: rest, uri: "{uri}", identifier: {name}}}
"""

CHANGES = """\
pipeline: {topic}-changes
cluster: {bootstrap}
folder: changes
source:
  table: orders
  format: iceberg
  start: earliest
  options: {{catalog: rest, type: rest, uri: "{uri}", identifier: {name}}}
sinks:
  - {{topic: {topic}-changes, key: CAST(id AS STRING)}}
"""


class Shop:
    """A pipeline from a topic into an Iceberg table, and one that has the table's changes in another topic."""

    def __init__(self, bootstrap: str, folder: Path, topic: str, uri: str) -> None:
        self.bootstrap, self.topic, self.name, self.written = bootstrap, topic, f"shop.{topic.replace('-', '_')}", 0
        told = {"topic": topic, "bootstrap": bootstrap, "uri": uri, "name": self.name}
        self.orders, self.changes = folder / "orders.yaml", folder / "changes.yaml"
        self.orders.write_text(ORDERS.format(**told))
        self.changes.write_text(CHANGES.format(**told))
        create_topic(bootstrap, topic, 2, 3)
        create_topic(bootstrap, f"{topic}-changes", 1, 3)
        self.spark = session("rest", folder=str(folder / "spark"), conf={"spark.sql.shuffle.partitions": "1"})

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.written, self.written + count):
            producer.produce(self.topic, json.dumps({"id": number, "half": str(number % 2)}).encode())
        assert producer.flush(60) == 0
        self.written += count

    def runner(self, on_line: Callable[[BookLine], None] = lambda line: None) -> Runner:
        pipeline = load(self.orders, {})
        return Runner(pipeline, file=self.orders, once=True, on_line=on_line, session=lambda _: self.spark)

    def feed(self) -> Ended:
        return feeding(load(self.changes, {}), once=True, session=lambda _: self.spark).run()

    def fed(self) -> list[int]:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": self.topic, "auto.offset.reset": "earliest"}
        )
        consumer.assign([TopicPartition(f"{self.topic}-changes", 0, 0)])
        found: list[int] = []
        while len(found) < self.written:
            record = consumer.poll(60)
            assert record is not None, f"{len(found)} of {self.written} records came"
            found.append(json.loads(record.value() or b"")["id"])
        consumer.close()
        return sorted(found)


@pytest.fixture
def shop(bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str], lossy: Proxy) -> Iterator[Shop]:
    found = Shop(bootstrap_servers, tmp_path, fresh("shop"), lossy.uri)
    yield found
    found.spark.stop()


def test_a_pipeline_into_a_rest_catalog_is_cut_off_and_gone_on_with_and_its_table_is_a_source(
    shop: Shop, lossy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an answer of the catalog lost, between the table's commit and the books, and before Spark knows."""
    shop.write(60)
    lossy.lose += ["504"]
    assert shop.runner().run() is Ended.DONE
    assert lossy.lost == ["504"]
    shop.write(60)
    commit = IcebergFormat.commit

    def dying(self: IcebergFormat, files: Sequence[DataFile], entry: LedgerEntry) -> None:
        commit(self, files, entry)
        raise RuntimeError("dead before the books know")

    with monkeypatch.context() as patch:
        patch.setattr(IcebergFormat, "commit", dying)
        with pytest.raises(Exception, match="dead before the books know"):
            shop.runner().run()

    def die(line: BookLine) -> None:
        raise RuntimeError("dead before Spark knows")

    with pytest.raises(Exception, match="dead before Spark knows"):
        shop.runner(on_line=die).run()
    shop.write(30)
    assert shop.runner().run() is Ended.DONE
    books = shop.runner().folder.books.last()
    assert books is not None
    assert (books.totals.read, books.totals.rows_out) == (150, 150)
    table = RestCatalog("rest", uri=lossy.server.uri).load_table(shop.name)
    assert [field.name for field in table.spec().fields] == ["half"]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(150))
    assert shop.feed() is Ended.DONE
    assert shop.fed() == list(range(150))
