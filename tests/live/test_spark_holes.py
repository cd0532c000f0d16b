"""Logs that change under a running stream, or have holes: compacted, expired, deleted and made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource
from foreign import PATIENCE_S, create_topic, wait_led
from kafka_peer import wait_until
from moldau_peer import MoldauPeer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from moldau.client.reading import LATEST
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.spark import run, session
from moldau.wire.batch import headers

RECORDS = 100

pytestmark = pytest.mark.timeout(900)


class Stage:
    """One node with a hasty cleaner, a session, and a topic of one partition for each test."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark, self.bootstrap = spark, bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.seen: Iterable[int] = ()  # what the newest stream gave, also when it was stopped

    def write(self, topic: str, values: range, *, keys: int, size: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in values:
            producer.produce(topic, b"%d" % number + b" " * size, key=b"%d" % (number % keys))
        assert producer.flush(PATIENCE_S) == 0

    def count(self, topic: str) -> int:
        """Records that are in the log."""
        with Cluster(self.bootstrap) as cluster:
            partition = TopicPartition(topic, 0)
            end = cluster.offsets({partition: LATEST})[partition].offset
            slices = cluster.fetch_range(partition, 0, end)
            return sum(header.count for got in slices for _, header in headers(got.records))

    def stream(self, topic: str, checkpoint: Path, act: Callable[[], None] | None = None, **options: str) -> list[int]:
        """Read what there is, ten offsets at a time, and ``act`` in the second batch; the values, each place once.

        A query that a busy machine ends is begun again, so a batch may be given twice.
        """
        found: dict[tuple[int, bytes], int] = {}
        acts = [] if act is None else [act]

        def each(rows: DataFrame, batch_id: int) -> None:
            found.update({(row.offset, bytes(row.value)): int(row.value) for row in rows.collect()})
            if batch_id == 1 and acts:
                acts.pop()()

        self.seen = found.values()
        given = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10", **options}
        stream = self.spark.readStream.format("moldau").options(**given).load().writeStream
        stream = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        run(lambda: stream.foreachBatch(each).start(), restarts=20, pause_s=0.1)
        return sorted(found.values())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with MoldauPeer(nodes=1, properties={"log.cleaner.backoff.ms": 100}) as peer:
        spark = session(
            "holes", bootstrap_servers=peer.bootstrap_servers, folder=str(tmp_path_factory.mktemp("spark")),
            conf={"spark.sql.shuffle.partitions": "1"},
        )  # fmt: skip
        yield Stage(spark, peer.bootstrap_servers)
        spark.stop()


def test_a_stream_over_a_compacted_topic_gives_what_is_left_once(stage: Stage, tmp_path: Path) -> None:
    """Batches of ten offsets, of which many hold no record any more."""
    create_topic(stage.bootstrap, "compacted", 1, 1)
    wanted = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
    resource = ConfigResource(ConfigResource.Type.TOPIC, "compacted", set_config=wanted)
    stage.admin.alter_configs([resource])[resource].result(PATIENCE_S)
    for first in range(0, RECORDS, 10):  # at once, a broker that has no file for the next segment yet rolls late
        stage.write("compacted", range(first, first + 10), keys=4, size=40_000)
    wait_until(lambda: stage.count("compacted") < RECORDS // 2, "the log is compacted", PATIENCE_S, 0.5)
    found = stage.stream("compacted", tmp_path)
    assert len(found) == len(set(found)) < RECORDS
    assert found[-4:] == list(range(RECORDS - 4, RECORDS))  # the newest of each key


def test_records_that_expire_ahead_of_a_running_stream_stop_it_or_are_told(stage: Stage, tmp_path: Path) -> None:
    create_topic(stage.bootstrap, "expiring", 1, 1)
    stage.write("expiring", range(RECORDS), keys=RECORDS)

    def expire() -> None:
        stage.admin.delete_records([Place("expiring", 0, 50)])[Place("expiring", 0)].result(PATIENCE_S)

    with pytest.raises(StreamingQueryException, match="expiring-0"):
        stage.stream("expiring", tmp_path, expire)
    assert sorted(stage.seen) == list(range(20))
    with pytest.warns(UserWarning, match="expiring-0: "):
        assert stage.stream("expiring", tmp_path, onDataLoss="skip") == list(range(50, RECORDS))


def test_a_topic_made_anew_under_a_running_stream_stops_it_or_is_told(stage: Stage, tmp_path: Path) -> None:
    """The new topic has grown past the stream's position before the stream looks again."""
    create_topic(stage.bootstrap, "anew", 1, 1)
    stage.write("anew", range(RECORDS), keys=RECORDS)

    def make_anew() -> None:
        stage.admin.delete_topics(["anew"])["anew"].result(PATIENCE_S)
        wait_led(stage.bootstrap, "anew", 0)
        create_topic(stage.bootstrap, "anew", 1, 1)
        stage.write("anew", range(1000, 1000 + RECORDS), keys=RECORDS)

    with pytest.raises(StreamingQueryException, match="made anew"):
        stage.stream("anew", tmp_path, make_anew)
    assert sorted(stage.seen) == list(range(20))
    with pytest.warns(UserWarning, match="anew-0: the topic was deleted and made anew"):
        assert stage.stream("anew", tmp_path, onDataLoss="skip") == list(range(1000, 1000 + RECORDS))
