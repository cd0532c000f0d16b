"""Reads the options of ``format("moldau")``: every option of Spark's own Kafka connector, and Moldau's additions.

Decides what a user may ask and refuses the rest with an error naming the option, the value and what is allowed. Makes
values; asks no cluster. Spark hands option names over in lower case, so names are matched without regard to case.
Source of names and defaults: Spark's structured-streaming-kafka-integration guide.
Read next: offsets.py (what the positions come to), source.py (who uses them).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from moldau.model import TopicPartition
from moldau.spark.given import (
    KAFKA_NUMBERS,
    UNIT_MS,
    Given,
    OptionError,
    duration_ms,
    json_object,
    kafka_options,
    positive,
    size_bytes,
    timestamp,
)
from moldau.spark.kafka_keys import consumer_options
from moldau.spark.rows import ALL_COLUMNS
from moldau.spark.start import (
    EARLIEST,
    LATEST,
    Ago,
    AtTime,
    AtTimes,
    Earliest,
    Explicit,
    Latest,
    OfGroup,
    Start,
    moves,
)

Mode = Literal["batch", "stream"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions to read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern {self.pattern}"
        if self.partitions:
            return "assign " + ", ".join(map(str, self.partitions))
        return "subscribe " + ", ".join(self.topics)


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How much one trigger may take, and how a range is split among tasks. None: no limit.

    Offsets are counted as offsets, bytes as they lie in the log (compressed), delays in ms. A backlog of at most
    ``unweighed`` offsets is taken without asking how large its records are.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60 * 1000
    max_bytes: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    unweighed: int = 0


DEFAULT_MAX_BYTES = 4 << 30
"""What a trigger takes at most when nothing says how much: a batch that fails is read again from its beginning."""
DEFAULT_UNWEIGHED = 100_000


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a reader needs, checked. ``kafka`` holds the ``kafka.*`` options without their prefix."""

    subscription: Subscription
    start: Start
    end: Start = Latest()  # noqa: RUF009  # it cannot be changed
    latest_on_no_match: bool = False
    on_data_loss: Literal["fail", "skip"] = "fail"
    limits: TriggerLimits = TriggerLimits()
    columns: tuple[str, ...] = ALL_COLUMNS[:-1]
    group_id_prefix: str = "spark-moldau-source"
    initial_offsets_location: str | None = None
    location_settings: Mapping[str, str] = field(default_factory=dict)
    publish_group: str | None = None
    fetch_retries: int = 3
    fetch_retry_interval_ms: int = 1000
    poll_timeout_ms: int = 120_000
    kafka: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def bootstrap_servers(self) -> str:
        return self.kafka["bootstrap.servers"]

    @property
    def read_committed(self) -> bool:
        return self.kafka.get("isolation.level", "read_uncommitted") == "read_committed"

    @property
    def numbers(self) -> Mapping[str, int]:
        """The ``kafka.*`` options that are numbers and that this source supports."""
        return {name: int(self.kafka[name]) for name in KAFKA_NUMBERS if name in self.kafka}

    @property
    def check_crcs(self) -> bool:
        return self.kafka.get("check.crcs", "true") == "true"


NAMES = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy",
    "failOnDataLoss", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "groupIdPrefix", "includeHeaders", "maxBytesPerTrigger", "initialOffsetsLocation", "columns", "onDataLoss",
    "publishGroup",
)  # fmt: skip
"""What may be set besides ``kafka.*``; the last five are Moldau's own."""

_STORE_SETTING = "initialOffsetsLocation."
_STORES = ("s3", "s3a", "hdfs", "abfs", "abfss", "az", "gs")
_STREAM_REFUSES = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_BATCH_IGNORES = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger",
                  "publishGroup", "initialOffsetsLocation")  # fmt: skip


def parse(raw: Mapping[str, str], mode: Mode) -> Options:
    """The checked options of a batch or a stream read; OptionError otherwise."""
    given = Given(raw)
    given.refuse_unknown(NAMES, _STORE_SETTING)
    kafka = kafka_options(given)
    unsupported = consumer_options(kafka)
    if mode == "stream":
        for name in _STREAM_REFUSES:
            given.refuse(name, "a stream has no end; it is allowed in batch reads only")
    warnings = [f"option {name} has no meaning in a batch read and is ignored" for name in _BATCH_IGNORES
                if mode == "batch" and given.get(name) is not None]  # fmt: skip
    warnings += unsupported
    strategy = given.choice("startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
    start = _start(given, mode)
    location = _location(given, mode, moves(start, latest_on_no_match=strategy == "latest"))
    return Options(
        subscription=_subscription(given),
        start=start,
        end=_end(given),
        latest_on_no_match=strategy == "latest",
        on_data_loss=_on_data_loss(given),
        limits=_limits(given) if mode == "stream" else _split_limits(given),
        columns=_columns(given),
        group_id_prefix=given.get("groupIdPrefix") or "spark-moldau-source",
        initial_offsets_location=location,
        location_settings=given.under(_STORE_SETTING),
        publish_group=given.get("publishGroup") if mode == "stream" else None,
        fetch_retries=given.number("fetchOffset.numRetries", 3, at_least=0),
        fetch_retry_interval_ms=given.number("fetchOffset.retryIntervalMs", 1000, at_least=0),
        poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs", 120_000, at_least=1),
        kafka=kafka,
        warnings=tuple(warnings),
    )


def check(raw: Mapping[str, str]) -> tuple[str, ...]:
    """The columns these options ask for; OptionError when neither a batch nor a stream could be read with them.

    For ``load()``, when it is not known yet which of the two it will be.
    """
    try:
        parse(raw, "batch")
    except OptionError as refused:
        try:
            parse(raw, "stream")
        except OptionError as also:
            if refused.name == "startingOffsets" != also.name:
                refused.args = (f"as a batch: {refused}; as a stream: {also}",)
            raise refused from None
    return _columns(Given(raw))


def _subscription(given: Given) -> Subscription:
    names = ("subscribe", "subscribePattern", "assign")
    chosen = [(name, value) for name in names if (value := given.get(name)) is not None]
    if len(chosen) != 1:
        got = " and ".join(name for name, _ in chosen) or "none"
        raise OptionError("subscribe", given.get("subscribe"), f"set exactly one of {', '.join(names)} (got {got})")
    name, value = chosen[0]
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
        if not topics:
            raise OptionError(name, value, "a comma-separated list of topics is expected")
        return Subscription(topics=topics)
    if name == "subscribePattern":
        java_pattern(value)
        return Subscription(pattern=value)
    return Subscription(partitions=_assigned(name, value))


def _assigned(name: str, value: str) -> tuple[TopicPartition, ...]:
    allowed = 'JSON like {"topicA":[0,1],"topicB":[2,4]} is expected'
    found: list[TopicPartition] = []
    for topic, numbers in json_object(name, value, allowed).items():
        if not isinstance(numbers, list) or not all(type(each) is int and each >= 0 for each in numbers):
            raise OptionError(name, value, allowed)
        found += [TopicPartition(topic, each) for each in numbers]
    if not found:
        raise OptionError(name, value, allowed)
    return tuple(sorted(set(found)))


def java_pattern(text: str, name: str = "subscribePattern") -> re.Pattern[str]:
    """A Java regular expression as Python's, searched for anywhere in a topic's name; OptionError if it is not one."""
    if not text:
        raise OptionError(name, text, "a regular expression is expected")
    python = re.sub(r"\\Q(.*?)(?:\\E|$)", lambda quoted: re.escape(quoted.group(1)), text, flags=re.DOTALL)
    python = re.sub(r"\(\?<([A-Za-z]\w*)>", r"(?P<\1>", python)
    python = re.sub(r"\\k<(\w+)>", r"(?P=\1)", python)
    for java, own in (
        ("Alpha", "A-Za-z"),
        ("Digit", "0-9"),
        ("Alnum", "A-Za-z0-9"),
        ("Lower", "a-z"),
        ("Upper", "A-Z"),
    ):
        python = re.sub(rf"\[([^\]\\]*)\\p\{{{java}\}}", rf"[\g<1>{own}", python)
        python = python.replace(f"\\p{{{java}}}", f"[{own}]")
    try:
        return re.compile(python.replace(r"\z", r"\Z"))
    except re.error as error:
        raise OptionError(name, text, f"not a regular expression this source can read: {error}") from None


def _start(given: Given, mode: Mode) -> Start:
    """startingTimestamp beats startingOffsetsByTimestamp beats startingOffsets, as in Spark."""
    if (moment := given.maybe("startingTimestamp", timestamp)) is not None:
        return AtTime(moment)
    if (moments := given.maybe("startingOffsetsByTimestamp", _per_partition)) is not None:
        return AtTimes(_not_negative("startingOffsetsByTimestamp", moments))
    start = given.maybe("startingOffsets", _position) or (Latest() if mode == "stream" else Earliest())
    last = isinstance(start, Latest) or (isinstance(start, Explicit) and LATEST in start.offsets.values())
    if mode == "batch" and last:
        raise OptionError("startingOffsets", given.get("startingOffsets"), "a batch read cannot start at latest (-1)")
    return start


def _end(given: Given) -> Start:
    if (moment := given.maybe("endingTimestamp", timestamp)) is not None:
        return AtTime(moment)
    if (moments := given.maybe("endingOffsetsByTimestamp", _per_partition)) is not None:
        return AtTimes(_not_negative("endingOffsetsByTimestamp", moments))
    end = given.maybe("endingOffsets", _position) or Latest()
    if isinstance(end, Earliest) or (isinstance(end, Explicit) and EARLIEST in end.offsets.values()):
        raise OptionError("endingOffsets", given.get("endingOffsets"), "reading cannot end at earliest (-2)")
    if isinstance(end, OfGroup):
        raise OptionError("endingOffsets", given.get("endingOffsets"), "group: is allowed in startingOffsets only")
    return end


def _position(name: str, value: str) -> Start:
    lower = value.lower()
    if lower == "earliest":
        return Earliest()
    if lower == "latest":
        return Latest()
    if lower.startswith("group:") and value[6:].strip():
        return OfGroup(value[6:].strip())
    if ago := re.fullmatch(r"-(\d+)(ms|s|m|min|h|d)", lower):
        return Ago(int(ago[1]) * UNIT_MS[ago[2]])
    if value.startswith("{"):
        offsets = _per_partition(name, value)
        if min(offsets.values(), default=0) < EARLIEST:
            raise OptionError(name, value, "an offset is -2 (earliest), -1 (latest), or 0 and above")
        return Explicit(offsets)
    allowed = (
        'earliest, latest, "-10m" (ms, s, m, h, d ago), "group:ID" or JSON like {"topicA":{"0":23,"1":-2}} is expected'
    )
    raise OptionError(name, value, allowed)


def _per_partition(name: str, value: str) -> dict[TopicPartition, int]:
    allowed = 'JSON like {"topicA":{"0":23,"1":345},"topicB":{"0":7}} is expected'
    found: dict[TopicPartition, int] = {}
    for topic, numbers in json_object(name, value, allowed).items():
        if not isinstance(numbers, dict):
            raise OptionError(name, value, allowed)
        for partition, number in numbers.items():
            if not partition.isdigit() or type(number) is not int:
                raise OptionError(name, value, allowed)
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise OptionError(name, value, allowed)
    return found


def _not_negative(name: str, moments: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    for source, moment in moments.items():
        if moment < 0:
            raise OptionError(name, str(moment), f"the timestamp of {source} is ms since the epoch, 0 or above")
    return moments


def _split_limits(given: Given) -> TriggerLimits:
    return TriggerLimits(
        min_partitions=given.maybe("minPartitions", positive),
        max_records_per_partition=given.maybe("maxRecordsPerPartition", positive),
    )


def _limits(given: Given) -> TriggerLimits:
    most, least = given.maybe("maxOffsetsPerTrigger", positive), given.maybe("minOffsetsPerTrigger", positive)
    if most is not None and least is not None and least > most:
        raise OptionError(
            "minOffsetsPerTrigger", str(least), f"at most maxOffsetsPerTrigger, which is {most}, is allowed"
        )
    split = _split_limits(given)
    delay_ms = given.maybe("maxTriggerDelay", duration_ms)
    unlimited = (given.get("maxBytesPerTrigger") or "").lower() == "none"
    max_bytes = None if unlimited else given.maybe("maxBytesPerTrigger", size_bytes)
    by_default = max_bytes is None and most is None and not unlimited
    return TriggerLimits(
        max_offsets=most,
        min_offsets=least,
        max_delay_ms=TriggerLimits().max_delay_ms if delay_ms is None else delay_ms,
        max_bytes=DEFAULT_MAX_BYTES if by_default else max_bytes,
        min_partitions=split.min_partitions,
        max_records_per_partition=split.max_records_per_partition,
        unweighed=DEFAULT_UNWEIGHED if by_default else 0,
    )


def _columns(given: Given) -> tuple[str, ...]:
    with_headers = given.flag("includeHeaders", False)
    value = given.get("columns")
    if value is None:
        return ALL_COLUMNS if with_headers else ALL_COLUMNS[:-1]
    by_name = {name.lower(): name for name in ALL_COLUMNS}
    wanted = [each.strip().lower() for each in value.split(",") if each.strip()]
    if not wanted or any(each not in by_name for each in wanted):
        raise OptionError("columns", value, "a comma-separated list of " + ", ".join(ALL_COLUMNS) + " is expected")
    if with_headers:
        wanted.append("headers")
    return tuple(name for name in ALL_COLUMNS if name.lower() in wanted)


def _on_data_loss(given: Given) -> Literal["fail", "skip"]:
    fail = given.flag("failOnDataLoss", True)
    value = given.get("onDataLoss")
    if value is None:
        return "fail" if fail else "skip"
    chosen = given.choice("onDataLoss", "fail", ("fail", "skip"))
    if given.get("failOnDataLoss") is not None and fail != (chosen == "fail"):
        raise OptionError("onDataLoss", value, f"failOnDataLoss is {str(fail).lower()} and says the opposite")
    return "fail" if chosen == "fail" else "skip"


def _location(given: Given, mode: Mode, start_moves: bool) -> str | None:
    """Where the first position is pinned; None for nowhere. A stream whose start moves must say one or the other."""
    value = given.get("initialOffsetsLocation")
    if mode == "batch":
        return None
    if value is None and start_moves:
        raise OptionError(
            "initialOffsetsLocation",
            None,
            "this start (startingOffsets is latest unless set) moves while a first batch is retried, which would lose "
            "records; set a file in the query's checkpoint folder (<checkpointLocation>/initial-offsets.json), or "
            "startingOffsets=earliest or explicit offsets, or initialOffsetsLocation=none to take the risk",
        )
    if value is None or value.lower() == "none":
        return None
    path = value.removeprefix("file://") if value.startswith("file://") else value.removeprefix("file:")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", path)
    if not path or (scheme is not None and scheme[1].lower() not in _STORES):
        raise OptionError(
            "initialOffsetsLocation", value,
            "a path, file: URI or store (" + ", ".join(f"{each}://" for each in _STORES)
            + ") that every driver of the query can reach, or none",
        )  # fmt: skip
    return path
