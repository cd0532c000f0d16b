"""What is asked of both connectors, and where the answers may differ, with the reason.

``{t}`` and ``{u}`` stand for the topics: ``t`` has three partitions of 100 records each, of which the first has lost
its first 10; ``u`` has one partition. Record n of a partition has the timestamp 1,000,000 + 1000 n.
"""

from __future__ import annotations

from typing import NamedTuple

SUBSCRIBE = {"subscribe": "{t}"}


class Case(NamedTuple):
    """Options for both. ``differs`` says why ours may answer otherwise: "" for never."""

    name: str
    options: dict[str, str]
    differs: str = ""


def of_t(name: str, differs: str = "", **options: str) -> Case:
    return Case(name, {**SUBSCRIBE, **options}, differs)


def kafka(name: str, key: str, value: str, differs: str = "") -> Case:
    return Case(name, {**SUBSCRIBE, f"kafka.{key}": value}, differs)


BEYOND = "ends where the log ends; Spark waits there for kafkaConsumer.pollTimeoutMs and fails"
ABSENT = "refused by name; Spark reads the others without a word"
UNKNOWN = "refused by name, with the nearest that is known; Spark ignores it"
NOT_SECURE = "refused, since it would have no effect: there is no TLS or SASL in this source"


def offsets(first: int, second: int, third: int) -> str:
    return '{"{t}":{' + f'"0":{first},"1":{second},"2":{third}' + "}}"


BATCH = [
    of_t("everything"),
    Case("two topics", {"subscribe": "{t},{u}"}),
    Case("a pattern", {"subscribePattern": "{t}.*"}),
    Case("a pattern in the middle of a name", {"subscribePattern": "{mid}"}),
    Case("a pattern that matches nothing", {"subscribePattern": "zzz-nothing-.*"}),
    Case("assigned partitions", {"assign": '{"{t}":[0,2]}'}),
    Case("an assigned partition that is not there", {"assign": '{"{t}":[0,7]}'}, ABSENT),
    Case("a topic that is not there", {"subscribe": "nobody-made-this"}),
    Case("no subscription", {}),
    Case("two subscriptions", {"subscribe": "{t}", "assign": '{"{t}":[0]}'}),
    Case("an empty subscription", {"subscribe": ""}),
    Case("a broken assignment", {"assign": '{"{t}":0}'}),
    of_t("earliest to latest", startingOffsets="earliest", endingOffsets="latest"),
    of_t("upper case", startingOffsets="EARLIEST", endingOffsets="LATEST"),
    of_t("explicit offsets", startingOffsets=offsets(20, 0, -2), endingOffsets=offsets(50, 10, -1)),
    of_t("an end at earliest", endingOffsets="earliest"),
    of_t("an end at -2", endingOffsets=offsets(-2, -1, -1)),
    of_t("a start at latest", startingOffsets="latest"),
    of_t("a start at -1", startingOffsets=offsets(-1, 0, 0)),
    of_t("offsets without a partition", startingOffsets='{"{t}":{"0":20}}'),
    of_t("offsets with a partition too many", startingOffsets='{"{t}":{"0":20,"1":0,"2":0,"9":0}}'),
    of_t("offsets that are no JSON", startingOffsets="{"),
    of_t("offsets of another kind", startingOffsets='{"{t}":{"0":"x"}}'),
    of_t("a start before the log", startingOffsets=offsets(0, 0, 0)),
    of_t("a start before the log, skipped", startingOffsets=offsets(0, 0, 0), failOnDataLoss="false"),
    of_t("a start after the end", startingOffsets=offsets(60, 0, 0), endingOffsets=offsets(50, 10, 10)),
    of_t("an end beyond the log", BEYOND, endingOffsets=offsets(500, 100, 100),
         **{"kafkaConsumer.pollTimeoutMs": "1000"}),
    of_t("an end beyond the log, skipped", endingOffsets=offsets(500, 100, 100), failOnDataLoss="false",
         **{"kafkaConsumer.pollTimeoutMs": "1000"}),
    of_t("a timestamp", startingTimestamp="1050000"),
    of_t("a timestamp beyond the records", startingTimestamp="9999999999999"),
    of_t("a timestamp between records", startingTimestamp="1050001", endingTimestamp="1070000"),
    of_t("a timestamp and offsets", startingTimestamp="1050000", startingOffsets="earliest"),
    of_t("timestamps by partition",
         startingOffsetsByTimestamp='{"{t}":{"0":1050000,"1":1060000,"2":1070000}}',
         endingOffsetsByTimestamp='{"{t}":{"0":1090000,"1":1090000,"2":9999999999999}}'),
    of_t("timestamps without a partition", startingOffsetsByTimestamp='{"{t}":{"0":1050000}}'),
    of_t("an end timestamp beyond the records", endingTimestamp="9999999999999"),
    of_t("a negative timestamp", "refused; Spark takes -1 for the log's end", startingTimestamp="-1"),
    of_t("a timestamp that is none", startingTimestamp="today"),
    of_t("a strategy that is none", startingTimestamp="1", startingOffsetsByTimestampStrategy="guess"),
    of_t("headers", includeHeaders="true"),
    of_t("at least seven tasks", minPartitions="7"),
    of_t("fewer tasks than partitions", minPartitions="2"),
    of_t("no tasks", minPartitions="0"),
    of_t("small tasks", "applied; Spark's batch read splits with minPartitions only", maxRecordsPerPartition="30"),
    of_t("small tasks, many of them", maxRecordsPerPartition="30", minPartitions="20"),
    of_t("limits of streams", maxOffsetsPerTrigger="5", minOffsetsPerTrigger="1"),
    of_t("a group's prefix", groupIdPrefix="mine"),
    of_t("pauses", **{"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "10",
                      "kafkaConsumer.pollTimeoutMs": "60000"}),
    of_t("an option that nobody knows", UNKNOWN, maxOfsetsPerTrigger="5"),
    of_t("data loss neither here nor there", failOnDataLoss="perhaps"),
    kafka("committed records", "isolation.level", "read_committed"),
    kafka("a group id", "group.id", "mine"),
    kafka("many records a poll", "max.poll.records", "5000"),
    kafka("small fetches", "max.partition.fetch.bytes", "1000"),
    kafka("another isolation", "isolation.level", "snapshot"),
    kafka("a key that nobody knows", "frobnicate", "x", UNKNOWN),
    kafka("a security protocol that is none", "security.protocol", "XYZ"),
    kafka("a trust store", "ssl.truststore.location", "/none", NOT_SECURE),
    *(kafka(f"forbidden {key}", key, "x")
      for key in ("auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit",
                  "interceptor.classes")),
]  # fmt: skip

PINNED = "needs initialOffsetsLocation: a start that moves is pinned"

STREAM = [
    of_t("a stream of everything", startingOffsets="earliest"),
    of_t("a stream from explicit offsets", startingOffsets=offsets(20, 0, -2)),
    of_t("a stream in shares", startingOffsets="earliest", maxOffsetsPerTrigger="100"),
    of_t("a stream from a timestamp", startingTimestamp="1050000"),
    of_t("a stream with an end", startingOffsets="earliest", endingOffsets="latest"),
    of_t("a stream with an end timestamp", "refused as the other ends are; Spark reads on", startingOffsets="earliest",
         endingTimestamp="1050000"),
    of_t("a stream with a minimum above its maximum", startingOffsets="earliest", minOffsetsPerTrigger="9",
         maxOffsetsPerTrigger="5"),
    of_t("a stream from latest", PINNED, startingOffsets="latest"),
]  # fmt: skip
