"""The readers over a cluster in memory: what Spark is told, batch after batch, when the world changes in between."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from moldau.model import TopicPartition
from moldau.spark.given import OptionError
from moldau.spark.losses import DataLossError
from moldau.spark.options import parse
from moldau.spark.pin import PinError
from moldau.spark.readers import BatchReader, StreamReader
from moldau.spark.source import MoldauSource
from moldau.spark.tasks import read_range
from moldau.spark.testing import MemoryCluster, MicroBatches, values
from tests.packages.spark.orders import BASE, stream_reader


def batch_reader(cluster: MemoryCluster, **given: str) -> BatchReader:
    return BatchReader(parse({**BASE, **given}, "batch"), cluster.open)


class Query(MicroBatches):
    """A stream over the cluster in memory, whose options may change from one start to the next."""

    def __init__(self, cluster: MemoryCluster, **given: str) -> None:
        self.given = given
        super().__init__(lambda: stream_reader(cluster, **self.given))


def test_a_batch_reads_every_record_of_every_partition(cluster):
    cluster.log("orders", 0).append(b"1", b"2")
    cluster.log("orders", 0).append(b"3")
    cluster.log("orders", 1).append(b"4")
    reader = batch_reader(cluster)
    assert values(reader, reader.partitions()) == [b"1", b"2", b"3", b"4"]


def test_a_batch_without_records_has_no_rows(cluster):
    reader = batch_reader(cluster)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == [], "what PySpark hands to the one task that it makes then"


def test_a_stream_whose_options_are_refused_says_so_where_spark_shows_it(cluster):
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    reader = MoldauSource(given).streamReader(MoldauSource(given).schema())
    with pytest.raises(OptionError, match="initialOffsetsLocation"):
        reader.initialOffset()
    with pytest.raises(OptionError, match="initialOffsetsLocation"):
        reader.latestOffset({}, reader.getDefaultReadLimit())


def test_a_time_within_a_batch_is_found_as_brokers_find_it(cluster):
    log = cluster.log("orders", 0)
    log.append(b"0", b"1", b"2", timestamp=1000)
    log.append(b"3", timestamp=1001)
    asked = log_of(cluster)
    assert [asked(at) for at in (999, 1000, 1001, 1002, 1003)] == [0, 0, 1, 2, -1]
    given = {"startingTimestamp": "1001", "startingOffsetsByTimestampStrategy": "latest"}
    assert cluster.read("orders", **given).column("value").to_pylist() == [b"1", b"2", b"3"]
    log.expire(2)
    assert [asked(at) for at in (999, 1002, 1003)] == [2, 2, -1]


def log_of(cluster: MemoryCluster) -> Callable[[int], int]:
    """Which offset a time stands for in the first partition."""
    partition = TopicPartition("orders", 0)
    return lambda at: cluster.open().offsets({partition: at})[partition]


def test_a_batch_reads_the_asked_offsets_only(cluster):
    cluster.log("orders", 0).append(*[b"%d" % n for n in range(10)])
    bounds = {"startingOffsets": '{"orders":{"0":3,"1":0}}', "endingOffsets": '{"orders":{"0":7,"1":-1}}'}
    for more in ({}, {"minPartitions": "3"}, {"maxRecordsPerPartition": "1"}):
        reader = batch_reader(cluster, **bounds, **more)
        parts = reader.partitions()
        assert values(reader, parts) == [b"3", b"4", b"5", b"6"]
    assert len(parts) == 4


def test_a_subscribed_topic_that_is_not_there_is_named(cluster):
    with pytest.raises(OptionError, match="option subscribe is 'nope': not in the cluster: nope"):
        batch_reader(cluster, subscribe="nope").partitions()


def test_expired_offsets_fail_a_batch_or_are_skipped_as_asked(cluster):
    cluster.log("orders", 0).append(b"1", b"2")
    cluster.log("orders", 0).append(b"3")
    cluster.log("orders", 0).expire(2)
    bounds = {"startingOffsets": '{"orders":{"0":0,"1":0}}'}
    with pytest.raises(DataLossError, match="orders-0: the log now begins after the position"):
        batch_reader(cluster, **bounds).partitions()
    reader = batch_reader(cluster, **bounds, failOnDataLoss="false")
    with pytest.warns(UserWarning, match="records lost, going on"):
        assert values(reader, reader.partitions()) == [b"3"]


def test_records_that_expire_between_planning_and_reading_are_noticed(cluster):
    cluster.log("orders", 0).append(b"1", b"2")
    cluster.log("orders", 0).append(b"3")
    warning = r"records lost, going on: orders-0, offsets 0 to 2: offset 0 is outside"
    for given, outcome in (({}, DataLossError), ({"onDataLoss": "skip"}, [b"3"])):
        reader = batch_reader(cluster, **given)
        parts = reader.partitions()
        cluster.log("orders", 0).expire(2)
        if outcome is DataLossError:
            with pytest.raises(DataLossError, match="orders-0, offsets 0 to 3"):
                values(reader, parts)
        else:
            with pytest.warns(UserWarning, match=warning):
                assert values(reader, parts) == outcome
        cluster.log("orders", 0).start = 0


def test_a_stream_gives_each_record_once_through_restarts(cluster):
    query = Query(cluster)
    found: list[bytes] = []
    for number in range(12):
        cluster.log("orders", number % 2).append(b"%d" % number)
        if number % 3 == 0:
            query.batch(fail=True)
            query.restart()
        if number % 4 == 0:
            found += query.batch() or []
    while (more := query.batch()) is not None:
        found += more
    assert sorted(found, key=int) == [b"%d" % number for number in range(12)]
    assert query.batch() is None


def test_the_first_batch_begins_where_it_was_planned_when_it_is_run_again(cluster, tmp_path):
    """The first-batch trap: planned from "latest", failed, and the start asked again when the log has moved on."""
    pin = str(tmp_path / "checkpoint" / "initial-offsets.json")
    for location, whole in ((pin, True), ("none", False)):
        log = cluster.log("orders")
        log.append(b"old")
        query = Query(cluster, startingOffsets="latest", initialOffsetsLocation=location)
        query.start = query.reader.initialOffset()
        log.append(b"new 1", b"new 2")
        assert query.batch(fail=True) is None
        query.restart()
        assert (query.batch() == [b"new 1", b"new 2"]) is whole


def test_a_pin_belongs_to_one_stream_and_garbage_is_named(cluster, tmp_path):
    pin = tmp_path / "first.json"
    stream_reader(cluster, startingOffsets="latest", initialOffsetsLocation=str(pin)).initialOffset()
    assert list(tmp_path.iterdir()) == [pin]
    cluster.create("others")
    with pytest.raises(PinError, match=r"belongs to another stream \(subscribe orders"):
        stream_reader(cluster, subscribe="others", initialOffsetsLocation=str(pin)).initialOffset()
    pin.write_text("{}")
    with pytest.raises(PinError, match="does not hold first positions"):
        stream_reader(cluster, initialOffsetsLocation=str(pin)).initialOffset()


def test_available_now_stops_at_what_was_there_when_it_began(cluster):
    log = cluster.log("orders")
    log.append(b"1", b"2", b"3")
    query = Query(cluster, maxOffsetsPerTrigger="2")
    query.reader.prepareForTriggerAvailableNow()
    log.append(b"late")
    cluster.grow("orders").append(b"late too")
    assert [query.batch(), query.batch(), query.batch()] == [[b"1", b"2"], [b"3"], None]
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert sorted((query.batch() or []) + (query.batch() or [])) == [b"late", b"late too"]


def test_the_first_batch_waits_for_no_minimum_and_available_now_for_none_at_all(cluster):
    cluster.log("orders").append(b"1")
    query = Query(cluster, minOffsetsPerTrigger="100", maxTriggerDelay="1h")
    assert query.batch() == [b"1"], "as with Spark's own connector"
    cluster.log("orders").append(b"2")
    assert query.batch() is None
    query.reader.prepareForTriggerAvailableNow()
    assert query.batch() == [b"2"]


def test_limits_hold_unless_all_is_asked_for(cluster):
    for number in range(2):
        for _ in range(50):
            cluster.log("orders", number).append(bytes(1000))
    query = Query(cluster, maxOffsetsPerTrigger="10")
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(10)
    assert len(query.batch() or ()) == 10
    assert len(query.batch(limit=ReadAllAvailable()) or ()) == 90


def test_a_byte_limit_is_kept_by_the_size_of_records_in_each_partition(cluster):
    for _ in range(50):
        cluster.log("orders", 0).append(bytes(10_000))
        cluster.log("orders", 1).append(bytes(100))
    query = Query(cluster, maxBytesPerTrigger="100k")
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(100 << 10)
    taken = query.batch() or []
    assert 50_000 < sum(len(each) for each in taken) <= 100 << 10
    assert {len(each) for each in taken} == {10_000, 100}


def test_partitions_added_later_are_read_from_their_beginning(cluster):
    query = Query(cluster)
    cluster.log("orders").append(b"1")
    assert query.batch() == [b"1"]
    cluster.grow("orders").append(b"2")
    query.restart()
    assert query.batch() == [b"2"]


def test_a_recreated_topic_stops_the_stream_even_when_it_has_grown_past_the_position(cluster):
    query = Query(cluster)
    cluster.log("orders").append(b"1", b"2")
    assert query.batch() == [b"1", b"2"]
    cluster.delete("orders")
    cluster.create("orders", 2)
    cluster.log("orders").append(b"a", b"b", b"c")
    with pytest.raises(DataLossError, match="orders-0: the topic was deleted and made anew"):
        query.batch()
    assert len(query.log) == 1  # found out before the batch is written down
    query.given = {"onDataLoss": "skip"}
    query.restart()
    with pytest.warns(UserWarning, match="made anew"):
        assert query.batch() == [b"a", b"b", b"c"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert query.batch() is None


def test_a_topic_recreated_between_planning_and_reading_is_not_mixed_in(cluster):
    reader = stream_reader(cluster)
    cluster.log("orders").append(b"1", b"2")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    parts = reader.partitions(start, end)
    cluster.delete("orders")
    cluster.create("orders", 2)
    cluster.log("orders").append(b"other", b"topic")
    with pytest.raises(DataLossError, match="another one"):
        values(reader, parts)


def test_a_log_that_was_cut_off_stops_the_stream(cluster):
    query = Query(cluster)
    cluster.log("orders").append(b"1")
    cluster.log("orders").append(b"2")
    assert query.batch() == [b"1", b"2"]
    cluster.log("orders").cut(1)
    with pytest.raises(DataLossError, match="the log ends before the position"):
        query.batch()


def test_positions_are_published_to_a_group_on_commit(cluster):
    query = Query(cluster, publishGroup="billing")
    cluster.log("orders").append(b"1")
    query.batch()
    assert query.start is not None
    query.reader.commit(query.start)
    assert {str(source): at for source, at in cluster.groups["billing"].items()} == {"orders-0": 1, "orders-1": 0}


def test_a_cluster_that_does_not_answer_is_asked_again_and_then_given_up(cluster):
    cluster.log("orders").append(b"1")
    cluster.failures = 3
    reader = batch_reader(cluster)
    assert values(reader, reader.partitions()) == [b"1"]
    cluster.failures = 4
    with pytest.raises(ConnectionRefusedError):
        reader.partitions()


def test_what_spark_sends_to_workers_survives_pickling(cluster):
    cluster.log("orders").append(b"1")
    reader = StreamReader(parse({**BASE, "startingOffsets": "earliest"}, "stream"))
    reader._plan.line._feed = cluster.open()
    there, part = pickle.loads(pickle.dumps((reader, stream_part(cluster))))
    assert [rows.num_rows for rows in read_range(there.options, part.tasks[0], cluster.open)] == [1]
    assert there._plan.line._feed is None


def stream_part(cluster: MemoryCluster):
    reader = stream_reader(cluster)
    start = reader.initialOffset()
    return reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))[0]


def test_the_source_is_found_by_name_and_tells_its_schema():
    from pyspark_moldau import DefaultSource

    assert DefaultSource is MoldauSource
    assert DefaultSource.name() == "moldau"
    assert DefaultSource({**BASE, "includeheaders": "true"}).schema().fieldNames()[-1] == "headers"
    assert DefaultSource({**BASE, "columns": "offset"}).schema().fieldNames() == ["offset"]


def test_a_batch_that_is_to_end_before_it_begins_is_refused(cluster):
    cluster.log("orders", 0).append(*[b"%d" % n for n in range(10)])
    bounds = {"startingOffsets": '{"orders":{"0":7,"1":0}}', "endingOffsets": '{"orders":{"0":3,"1":-1}}'}
    with pytest.raises(OptionError, match="startingOffsets is '7': orders-0 is to be read up to 3"):
        batch_reader(cluster, **bounds).partitions()


def test_small_ranges_of_a_stream_share_a_task_unless_tasks_are_asked_for(cluster):
    for number in range(6):
        (cluster.log("orders", number) if number < 2 else cluster.grow("orders")).append(b"%d" % number)
    cluster.log("orders", 4).append(*[b""] * 2000)

    def sizes(**given: str) -> list[list[int]]:
        reader = stream_reader(cluster, **given)
        start = reader.initialOffset()
        parts: list[Any] = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        assert len(values(reader, parts)) == 2006
        return [[task.size for task in part.tasks] for part in parts]

    assert sizes() == [[1, 1, 1, 1], [2001], [1]]
    assert sizes(minPartitions="6") == [[1], [1], [1], [1], [2001], [1]]
    assert len(sizes(maxRecordsPerPartition="1000")) == 8
