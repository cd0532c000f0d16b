"""Options mean what Spark's own connector means by them, and a wrong one is refused by name, value and remedy."""

from __future__ import annotations

import pytest

from moldau.model import TopicPartition
from moldau.spark.given import OptionError
from moldau.spark.options import NAMES, Subscription, TriggerLimits, check, java_pattern, parse
from moldau.spark.rows import ALL_COLUMNS
from moldau.spark.start import Ago, AtTime, AtTimes, Earliest, Explicit, Latest, OfGroup

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}
STREAM = {**BASE, "startingOffsets": "earliest"}


def batch(**given: str):
    return parse({**BASE, **given}, "batch")


def stream(**given: str):
    return parse({**STREAM, **given}, "stream")


def test_option_names_are_matched_without_regard_to_case():
    given = {
        "KAFKA.BOOTSTRAP.SERVERS": "h:1",
        "SUBSCRIBE": "a",
        "startingoffsets": "EARLIEST",
        "includeheaders": "True",
    }
    found = parse(given, "batch")
    assert (found.bootstrap_servers, found.start, found.columns) == ("h:1", Earliest(), ALL_COLUMNS)


def test_defaults_are_those_of_sparks_own_connector():
    found = batch()
    assert (found.start, found.end, found.on_data_loss, found.limits) == (Earliest(), Latest(), "fail", TriggerLimits())
    assert (found.fetch_retries, found.poll_timeout_ms, found.read_committed) == (3, 120_000, False)
    assert found.columns == ALL_COLUMNS[:-1]
    assert stream().limits == TriggerLimits(max_bytes=4 << 30, unweighed=100_000), (
        "but for a limit that only huge backlogs meet"
    )
    assert stream().limits.max_delay_ms == 15 * 60 * 1000
    assert stream(maxBytesPerTrigger="none").limits == TriggerLimits()
    assert stream(maxOffsetsPerTrigger="5").limits == TriggerLimits(max_offsets=5)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"subscribe": "a, b,a"}, Subscription(topics=("a", "b"))),
        ({"subscribePattern": "ord.*"}, Subscription(pattern="ord.*")),
        (
            {"assign": '{"b":[1],"a":[2,0]}'},
            Subscription(partitions=(TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))),
        ),
    ],
)
def test_topics_are_named_in_one_of_three_ways(given, meant):
    assert parse({"kafka.bootstrap.servers": "h:1", **given}, "batch").subscription == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("-10m", Ago(600_000)),
        ("-2d", Ago(2 * 86_400_000)),
        ("group:billing", OfGroup("billing")),
        ('{"a":{"0":23,"1":-2}}', Explicit({TopicPartition("a", 0): 23, TopicPartition("a", 1): -2})),
    ],
)
def test_starting_offsets_are_words_json_ages_and_groups(text, meant):
    assert stream(startingOffsets=text, initialOffsetsLocation="none").start == meant


def test_a_timestamp_beats_timestamps_by_partition_which_beat_offsets():
    one = {"startingOffsetsByTimestamp": '{"orders":{"0":7}}'}
    assert batch(**one).start == AtTimes({TopicPartition("orders", 0): 7})
    assert batch(**one, startingTimestamp="9").start == AtTime(9)
    assert batch(endingTimestamp="9", endingOffsetsByTimestamp='{"orders":{"0":7}}').end == AtTime(9)
    assert batch(endingOffsetsByTimestamp='{"orders":{"0":7}}').end == AtTimes({TopicPartition("orders", 0): 7})


@pytest.mark.parametrize(
    ("mode", "given", "named", "why"),
    [
        ("batch", {"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers", "required"),
        ("batch", {"assign": '{"a":[0]}'}, "subscribe", "exactly one"),
        ("batch", {"subscribe": " , "}, "subscribe", "list of topics"),
        ("batch", {"startingOffsets": "latest"}, "startingOffsets", "batch read cannot start at latest"),
        ("batch", {"startingOffsets": '{"orders":{"0":-1}}'}, "startingOffsets", "batch read cannot start at latest"),
        ("batch", {"endingOffsets": "earliest"}, "endingOffsets", "cannot end at earliest"),
        ("batch", {"endingOffsets": '{"orders":{"0":-2}}'}, "endingOffsets", "cannot end at earliest"),
        ("batch", {"startingOffsets": "yesterday"}, "startingOffsets", "earliest, latest"),
        ("batch", {"startingOffsets": '{"orders":[1]}'}, "startingOffsets", "JSON like"),
        ("batch", {"startingOffsets": '{"orders":{"0":-3}}'}, "startingOffsets", "-2"),
        ("batch", {"startingTimestamp": "-1"}, "startingTimestamp", "since the epoch"),
        ("batch", {"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "startingOffsetsByTimestamp", "epoch"),
        (
            "batch",
            {"startingOffsetsByTimestampStrategy": "guess"},
            "startingOffsetsByTimestampStrategy",
            "error, latest",
        ),
        ("batch", {"minPartitions": "0"}, "minPartitions", "1 or above"),
        ("batch", {"maxRecordsPerPartition": "x"}, "maxRecordsPerPartition", "1 or above"),
        ("batch", {"includeHeaders": "yes"}, "includeHeaders", "true, false"),
        ("batch", {"columns": "key,valeu"}, "columns", "key, value"),
        ("batch", {"kafka.isolation.level": "snapshot"}, "kafka.isolation.level", "read_committed"),
        ("batch", {"kafka.bootstrap.servers": "localhost"}, "kafka.bootstrap.servers", "host:port is expected"),
        (
            "stream",
            {"kafka.bootstrap.servers": "a:1,b:70000"},
            "kafka.bootstrap.servers",
            "'b:70000' is not",
        ),
        ("batch", {"onDataLoss": "skip", "failOnDataLoss": "true"}, "onDataLoss", "opposite"),
        ("stream", {"endingOffsets": "latest"}, "endingOffsets", "batch reads only"),
        ("stream", {"endingTimestamp": "1"}, "endingTimestamp", "batch reads only"),
        ("stream", {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "minOffsetsPerTrigger", "which is 5"),
        ("stream", {"maxBytesPerTrigger": "many"}, "maxBytesPerTrigger", "64m"),
        ("stream", {"maxTriggerDelay": "soon"}, "maxTriggerDelay", "15m"),
        ("stream", {"initialOffsetsLocation": "ftp://host/x"}, "initialOffsetsLocation", "file:.*hdfs://"),
    ],
)
def test_a_wrong_option_is_refused_by_name_with_what_is_allowed(mode, given, named, why):
    with pytest.raises(OptionError, match=f"^option {named} .*{why}"):
        parse({**(BASE if mode == "batch" else STREAM), **given}, mode)


@pytest.mark.parametrize(
    "name",
    ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"],
)
def test_kafka_options_that_spark_forbids_are_forbidden_here_too(name):
    with pytest.raises(OptionError, match=f"^option kafka.{name} is 'x': not supported"):
        batch(**{f"kafka.{name}": "x"})


def test_a_misspelt_option_is_refused_with_the_nearest_name():
    with pytest.raises(OptionError, match="did you mean maxOffsetsPerTrigger"):
        stream(maxOffsetPerTrigger="5")
    with pytest.raises(OptionError, match="allowed are subscribe"):
        stream(zzz="5")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"startingOffsets": "latest"},
        {"startingOffsets": "-10m"},
        {"startingOffsets": "group:g"},
        {"startingOffsets": '{"orders":{"0":-1}}'},
        {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
def test_a_stream_whose_start_moves_must_say_where_it_is_pinned(given):
    with pytest.raises(OptionError, match="initialOffsetsLocation"):
        parse({**BASE, **given}, "stream")
    assert (
        parse({**BASE, **given, "initialOffsetsLocation": "/x/first"}, "stream").initial_offsets_location == "/x/first"
    )
    assert parse({**BASE, **given, "initialOffsetsLocation": "file:/x"}, "stream").initial_offsets_location == "/x"
    assert parse({**BASE, **given, "initialOffsetsLocation": "none"}, "stream").initial_offsets_location is None


def test_a_pin_may_be_in_a_store_whose_settings_come_beside_it():
    found = stream(
        initialOffsetsLocation="s3://bucket/ck/initial-offsets",
        **{"initialOffsetsLocation.AWS_ENDPOINT_URL": "http://h"},
    )
    assert found.initial_offsets_location == "s3://bucket/ck/initial-offsets"
    assert found.location_settings == {"aws_endpoint_url": "http://h"}


def test_a_stream_whose_start_stands_still_needs_no_pin():
    for given in (
        {"startingOffsets": "earliest"},
        {"startingOffsets": '{"orders":{"0":4}}'},
        {"startingTimestamp": "5"},
    ):
        assert parse({**BASE, **given}, "stream").initial_offsets_location is None


def test_stream_only_options_are_ignored_in_a_batch_read_with_a_warning():
    found = batch(maxOffsetsPerTrigger="nonsense", maxBytesPerTrigger="1g")
    assert found.limits == TriggerLimits()
    assert [text.split()[1] for text in found.warnings] == ["maxOffsetsPerTrigger", "maxBytesPerTrigger"]
    assert "kafka.group.id" in batch(**{"kafka.group.id": "mine"}).warnings[0]


def test_limits_and_columns_are_read():
    found = stream(
        maxOffsetsPerTrigger="100", minOffsetsPerTrigger="10", maxTriggerDelay="2m", maxBytesPerTrigger="64m",
        minPartitions="7", maxRecordsPerPartition="50", columns="value, Offset", includeHeaders="true",
    )  # fmt: skip
    assert found.limits == TriggerLimits(100, 10, 120_000, 64 << 20, 7, 50)
    assert found.columns == ("value", "offset", "headers") == check({**BASE, "COLUMNS": "offset,value,headers"})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("fetch.min.byte", "no such option; did you mean kafka.fetch.min.bytes?"),
        ("frobnicate", "no such option; supported are kafka.bootstrap.servers"),
        ("sasl.mechanism", "not supported: SASL"),
        ("ssl.truststore.location", "not supported: TLS"),
        ("config.providers", "not supported"),
        ("metric.reporters", "not supported"),
    ],
)
def test_a_key_of_the_client_that_promises_what_is_not_done_or_that_nobody_knows_is_refused(name, why):
    with pytest.raises(OptionError, match=rf"^option kafka.{name} is 'x': {why}"):
        batch(**{f"kafka.{name}": "x"})


def test_a_key_of_javas_consumer_without_effect_here_is_named_once():
    found = batch(**{"kafka.max.poll.records": "5000", "kafka.session.timeout.ms": "9", "kafka.client.rack": "a"})
    assert found.warnings == (
        "option kafka.max.poll.records has no effect: a task fetches one partition at a time, up to "
        "max.partition.fetch.bytes",
        "option kafka.session.timeout.ms has no effect: no consumer group is joined: Spark keeps the positions",
    )


def test_options_that_no_read_could_have_are_refused_before_it_is_known_which_it_will_be():
    assert check({**BASE, "startingOffsets": "latest", "initialOffsetsLocation": "none"}), "a stream's"
    assert check({**BASE, "endingOffsets": "latest"}), "a batch's"
    for given in ({"kafka.sasl.mechanism": "PLAIN"}, {"minPartitions": "0"}, {"startingOffsets": "yesterday"}):
        with pytest.raises(OptionError, match=f"^option {next(iter(given))}"):
            check({**BASE, **given})


def test_java_patterns_are_searched_for_anywhere_in_the_name():
    assert java_pattern("rder").search("orders")
    assert not java_pattern("^rder").search("orders")
    assert java_pattern(r"\Qa.b\E$").search("xa.b")
    assert not java_pattern(r"\Qa.b\E$").search("xaxb")
    assert java_pattern(r"^\p{Alpha}+\z").search("abc")
    assert java_pattern(r"^[-\p{Digit}]+$").search("1-2")
    with pytest.raises(OptionError, match="subscribePattern"):
        java_pattern("a(")


def test_every_option_of_the_guide_is_known():
    assert {"maxRecordsPerPartition", "groupIdPrefix", "fetchOffset.retryIntervalMs", "minPartitions"} <= set(NAMES)
