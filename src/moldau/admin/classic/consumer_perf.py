"""kafka-consumer-perf-test.sh: reads records as fast as they come, and says how fast that was."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import randrange

from moldau.admin.classic.console_consumer_options import ConsoleOptions
from moldau.admin.classic.console_properties import key_values, tell_unused
from moldau.admin.classic.consumer_config import USED, consumer_options
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_dates import java_date
from moldau.admin.classic.options import GivenOptions, Option, ToolOptionError, ToolUsageError
from moldau.admin.classic.record_reader import Reader, call_ms, consumer_session, demand_group
from moldau.admin.classic.run import help_or_version, tell
from moldau.admin.classic.session import read_config
from moldau.admin.signals import Raised, Signals, caught_signals
from moldau.client.consumer import Consumer

OPTIONS = (
    Option("bootstrap-server", "REQUIRED: The server(s) to connect to.", takes="server to connect to"),
    Option("command-config", "Config properties file.", takes="config file"),
    Option(
        "command-property",
        "Kafka consumer related configuration properties like client.id. These configs take precedence over "
        "those passed via --command-config or --consumer.config.",
        takes="prop1=val1",
    ),
    Option(
        "consumer.config",
        "(DEPRECATED) Consumer config properties file. This option will be removed in a future version. Use "
        "--command-config instead.",
        takes="config file",
    ),
    Option(
        "date-format",
        "The date format to use for formatting the time field. See java.text.SimpleDateFormat for options.",
        takes="date format",
        default="yyyy-MM-dd HH:mm:ss:SSS",
    ),
    Option(
        "fetch-size",
        "The maximum amount of data to fetch from a single partition per request.",
        takes="size",
        type="Integer",
        default="1048576",
    ),
    Option(
        "from-latest",
        "If the consumer does not already have an established offset to consume from, start with the latest "
        "record present in the log rather than the earliest record.",
    ),
    Option("group", "The group id to consume on.", takes="gid", default=""),
    Option("hide-header", "If set, skips printing the header for the stats."),
    Option(
        "include",
        "Regular expression specifying list of topics to include for consumption.",
        takes="Java regex (String)",
    ),
    Option(
        "messages",
        "(DEPRECATED) The number of records to consume. This option will be removed in a future version. Use "
        "--num-records instead.",
        takes="count",
        type="Long",
    ),
    Option("num-records", "REQUIRED: The number of records to consume.", takes="count", type="Long"),
    Option("print-metrics", "Print out the metrics."),
    Option(
        "reporting-interval",
        "Interval in milliseconds at which to print progress info.",
        takes="interval_ms",
        type="Long",
        default="5000",
    ),
    Option(
        "show-detailed-stats",
        "If set, stats are reported for each reporting interval as configured by reporting-interval.",
    ),
    Option("socket-buffer-size", "The size of the tcp RECV size.", takes="size", type="Integer", default="2097152"),
    Option(
        "timeout",
        "The maximum allowed time in milliseconds between returned records.",
        takes="milliseconds",
        type="Long",
        default="10000",
        optional_value=True,
    ),
    Option("topic", "The topic to consume from.", takes="topic"),
)

ABOUT = "This tool is used to verify the consumer performance."
_RENAMED = {
    "consumer.config": "Warning: --consumer.config is deprecated. Use --command-config instead.",
    "messages": "Warning: --messages is deprecated. Use --num-records instead.",
}
_FIELDS = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
    "fetch.nMsg.sec"
)
ONCE_MS = 100
ONCE_RECORDS = 500


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = _given(arguments)
        with caught_signals() as signals:
            _run(given, signals)
    except JavaError as error:
        return tell(error)
    return 0


def _given(arguments: Sequence[str]) -> GivenOptions:
    try:
        given = GivenOptions(_options(), arguments)
    except ToolOptionError as error:
        raise ToolUsageError(GivenOptions(_options(), []).options, error.said) from None
    help_or_version(given, ABOUT)
    for pair in (("topic", "include"), ("messages", "num-records")):
        if given.has(pair[0]) == given.has(pair[1]):
            given.refuse(f"Exactly one of the following arguments is required: [{pair[0]}], [{pair[1]}]")
    given.require("bootstrap-server")
    given.exclude("consumer.config", ["command-config"])
    for old, text in _RENAMED.items():
        if given.has(old):
            print(text)
    return given


def _options() -> tuple[Option, ...]:
    group = f"perf-consumer-{randrange(100_000)}"
    return tuple(one._replace(default=group) if one.name == "group" else one for one in OPTIONS)


class _Counts:
    """What has been read, and how long joining took."""

    def __init__(self) -> None:
        self.began = time.time()
        self.records = 0
        self.bytes = 0
        self.joined_ms = 0

    def assigned(self, _: object) -> None:
        """Partitions came."""
        self.joined_ms += int((time.time() - self.began) * 1000) if not self.joined_ms else 0


def _run(given: GivenOptions, signals: Signals) -> None:
    detailed = given.has("show-detailed-stats")
    if not given.has("hide-header"):
        print(f"{'time, threadId' if detailed else 'start.time, end.time'}, {_FIELDS}")
    properties = _properties(given)
    settings = consumer_options(properties)
    demand_group(properties)
    pattern = given.text("date-format")
    java_date(pattern, 0)
    interval_ms = given.integer("reporting-interval", 64) or 0
    if interval_ms <= 0:
        raise illegal_argument("Reporting interval must be greater than 0.")
    options = ConsoleOptions(given, given.value("topic"), given.value("include"), None, 0, -1, properties, "", {})
    timeout_ms = call_ms(given.integer("timeout", 64) or 0)
    with consumer_session(properties, given.text("bootstrap-server"), timeout_ms=timeout_ms) as session:
        consumer = Consumer(session.cluster.client, settings)
        counts = _Counts()
        consumer.on_assigned = counts.assigned
        reader = Reader(session.cluster, consumer, options)
        try:
            wanted = given.integer("num-records" if given.has("num-records") else "messages", 64) or 0
            timeout_ms = given.integer("timeout", 64) or 0
            _read(reader, counts, (wanted, timeout_ms), (interval_ms if detailed else 0, pattern))
            ended = time.time()
        finally:
            with signals.raised(Raised.WHEN_REPEATED):
                reader.close()
    if given.has("print-metrics"):
        tell_unused({"--print-metrics": ""}, (), "org.apache.kafka.tools.ConsumerPerformance")
    if not detailed:
        start, end = java_date(pattern, int(counts.began * 1000)), java_date(pattern, int(ended * 1000))
        took_ms = (ended - counts.began) * 1000
        print(f"{start}, {end}, {_speeds(counts.bytes, counts.records, took_ms, counts.joined_ms)}")


def _properties(given: GivenOptions) -> dict[str, str]:
    used = "consumer.config" if given.has("consumer.config") else "command-config"
    found = read_config(given.value(used)) | key_values(given.values("command-property"))
    found["group.id"] = given.text("group")
    found["max.partition.fetch.bytes"] = str(given.integer("fetch-size"))
    found["auto.offset.reset"] = "latest" if given.has("from-latest") else "earliest"
    found.setdefault("client.id", "perf-consumer-client")
    given.integer("socket-buffer-size")
    tell_unused(found, USED, "org.apache.kafka.tools.ConsumerPerformance")
    return found


def _read(reader: Reader, counts: _Counts, limits: tuple[int, int], report: tuple[int, str]) -> None:
    """Read so many records, giving up when none come for a while; tell progress every so many ms (0: never)."""
    (wanted, timeout_ms), (interval_ms, pattern) = limits, report
    last_read = last_told = time.time()
    told_records = told_bytes = 0
    while counts.records < wanted and (time.time() - last_read) * 1000 <= timeout_ms:
        found = reader.some(ONCE_MS, ONCE_RECORDS)
        for seen in found:
            counts.records += 1
            counts.bytes += len(seen.record.key or b"") + len(seen.record.value or b"")
            last_read = time.time()
        for seen in {seen.partition: seen for seen in found}.values():  # the last of each
            reader.seen(seen)
        now = time.time()
        if interval_ms and counts.records > told_records and (now - last_told) * 1000 >= interval_ms:
            took_ms = (now - last_told) * 1000
            line = _speeds(counts.bytes - told_bytes, counts.records - told_records, took_ms, 0).split(", ")
            line[0], line[2] = f"{counts.bytes / (1 << 20):.4f}", str(counts.records)
            print(f"{java_date(pattern, int(now * 1000))}, 0, {', '.join(line)}")
            last_told, told_records, told_bytes = now, counts.records, counts.bytes
    if counts.records < wanted:
        how = "You can use the --timeout option to increase the timeout."
        what = f"the expected number of records: timeout ({timeout_ms} ms) exceeded."
        print(f"WARNING: Exiting before consuming {what} {how}")


def _speeds(size: int, records: int, took_ms: float, joined_ms: int) -> str:
    megabytes, fetch_ms = size / (1 << 20), int(took_ms) - joined_ms
    numbers = (_per(megabytes, took_ms), _per(records, took_ms), _per(megabytes, fetch_ms), _per(records, fetch_ms))
    speeds = [number if isinstance(number, str) else f"{number:.4f}" for number in numbers]
    return f"{megabytes:.4f}, {speeds[0]}, {records}, {speeds[1]}, {joined_ms}, {fetch_ms}, {speeds[2]}, {speeds[3]}"


def _per(amount: float, ms: float) -> float | str:
    if ms == 0:
        return "Infinity" if amount else "NaN"
    return amount / (ms / 1000)
