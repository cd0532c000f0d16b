"""Logs of Apache Kafka from before 0.11: what lies there in formats v0 and v1 is read as every other record is."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest
from foreign import create_topic, read_confluent
from kafka_peer import KafkaPeer
from tests.packages.wire.test_message_sets import ENTRIES, message_set
from tests.tools import missing

from moldau.client.reading import visible
from moldau.client.sync import Cluster
from moldau.model import NO_UUID, TopicPartition
from moldau.spark.client_feed import open_feed
from moldau.spark.decode import Decoder
from moldau.spark.options import parse
from moldau.wire.batch import build

pytestmark = pytest.mark.timeout(300)


def test_a_topic_that_has_been_there_since_format_v0_is_read_whole() -> None:
    if (why := missing("kafka")) is not None:
        pytest.skip(why)
    with KafkaPeer(nodes=1) as peer:
        create_topic(peer.bootstrap_servers, "old", 1, 1, retention_ms="-1")
        peer.stop_node(1)
        folder = peer.data_dir(1) / "old-0"
        for file in folder.glob("*.*index"):
            file.unlink()
        sets = [message_set(*each) for each in ((0, ENTRIES), (0, ENTRIES, 4, 1), (1, ENTRIES, 8), (1, ENTRIES, 12, 2))]
        large = [(1002, b"%d" % number, bytes(1 << 20)) for number in range(40)]  # more than is unpacked at once
        sets.append(message_set(1, [*large], 16, 1))
        new = build([(1000, b"k", b"new", ()), (1001, None, b"newer", [("h", b"1")])], base_offset=56)
        (folder / f"{0:020}.log").write_bytes(b"".join(sets) + new)
        peer.restart(1)

        there, place = peer.bootstrap_servers, TopicPartition("old", 0)
        wanted = [(key, value) for _ in range(4) for _, key, value in ENTRIES]
        wanted += [(key, value) for _, key, value in large] + [(b"k", b"new"), (None, b"newer")]
        with Cluster(there) as cluster:
            seen = [each for got in cluster.fetch_range(place, 0, 58) for each in visible(got, 0, 58)]
        assert [each.offset for each in seen] == list(range(58))
        assert [(each.key, each.value) for each in seen] == wanted
        with closing(open_feed(parse({"kafka.bootstrap.servers": there, "subscribe": "old"}, "batch"))) as feed:
            slices = feed.slices(place, NO_UUID, range(58), 1 << 20)
            rows = pa.Table.from_batches([rows for got in slices for rows in Decoder(place).decode(got.records, 0, 58)])
        assert list(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True)) == wanted
        times = rows["timestamp"].cast(pa.int64()).to_pylist()
        old = [-1000] * 8 + [1000 * time for time, _, _ in ENTRIES] * 2
        assert times == old + [1_002_000] * 40 + [1_000_000, 1_001_000]
        assert read_confluent(there, "old", 58) == wanted
