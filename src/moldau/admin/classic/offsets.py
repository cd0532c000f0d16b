"""kafka-get-offsets.sh: the offsets of partitions at a time, or at the ends of their logs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.java_values import java_split
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.options import GivenOptions, Option, ToolOptionError, java_integer
from moldau.admin.classic.run import Finished, help_or_version, print_usage
from moldau.admin.classic.session import ToolSession, are_addresses, executed, read_config
from moldau.admin.classic.topics_named import include_list
from moldau.client import reading
from moldau.model import Code, TopicPartition

OPTIONS = (
    Option(
        "bootstrap-server",
        "REQUIRED. The server(s) to connect to in the form HOST1:PORT1,HOST2:PORT2.",
        takes="HOST1:PORT1,...,HOST3:PORT3",
    ),
    Option("command-config", "Property file containing configs to be passed to Admin Client.", takes="config file"),
    Option(
        "exclude-internal-topics",
        "By default, internal topics are included. If specified, internal topics are excluded.",
    ),
    Option(
        "partitions",
        "Comma separated list of partition ids to get the offsets for. If not present, all partitions of "
        "the authorized topics are queried. Cannot be used if --topic-partitions is present.",
        takes="partition ids",
    ),
    Option(
        "time",
        "timestamp of the offsets before that. [Note: No offset is returned, if the timestamp greater than "
        "recently committed record timestamp is given.]",
        takes="<timestamp> / -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 "
        "or latest-tiered / -6 or earliest-pending-upload",
        default="latest",
    ),
    Option(
        "topic",
        "The topic to get the offsets for. It also accepts a regular expression. If not present, all "
        "authorized topics are queried. Cannot be used if --topic-partitions is present.",
        takes="topic",
    ),
    Option(
        "topic-partitions",
        "Comma separated list of topic-partition patterns to get the offsets for, with the format of "
        "'([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?'. The first group is an optional regex for the "
        "topic name, if omitted, it matches any topic name. The section after ':' describes a 'partition' "
        "pattern, which can be: a number, a range in the format of 'NUMBER-NUMBER' (lower inclusive, upper "
        "exclusive), an inclusive lower bound in the format of 'NUMBER-', an exclusive upper bound in the "
        "format of '-NUMBER' or may be omitted to accept all partitions.",
        takes="topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
    ),
)

ABOUT = "An interactive shell for getting topic-partition offsets."
TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
TIMES["earliest-pending-upload"] = -6
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
Filter = tuple[Callable[[str], bool], Callable[[TopicPartition], bool]]
"""Which topics are looked at, and which of their partitions."""


class _Terse(Exception):
    """A failure that is told in one line."""


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = _given(arguments)
        found = _offsets(given)
    except _Terse as error:
        return _tell(f"{error}\n")
    except JavaError as error:
        return _tell(f"{error.said}\n{error.trace}\n")
    for partition, offset in found.items():
        print(f"{partition.topic}:{partition.partition}:{offset}")
    return 0


def _tell(text: str) -> int:
    sys.stderr.write(f"Error occurred: {text}")
    return 1


def _given(arguments: list[str]) -> GivenOptions:
    if not arguments:
        raise Finished(print_usage(GivenOptions(OPTIONS, []).options, ABOUT))
    try:
        given = GivenOptions(OPTIONS, arguments)
    except ToolOptionError as error:
        raise _Terse(error.said) from None
    help_or_version(given, ABOUT)
    given.require("bootstrap-server")
    servers = given.text("bootstrap-server")
    if not servers.strip():
        given.refuse("Error while validating the bootstrap address\n")
    if not are_addresses(servers):
        given.refuse("Please provide valid host:port like host1:9091,host2:9092\n")
    return given


def _offsets(given: GivenOptions) -> dict[TopicPartition, int]:
    """Offsets by partition, in the order of their texts."""
    if given.has("topic-partitions") and (given.has("topic") or given.has("partitions")):
        raise _Terse("--topic-partitions cannot be used with --topic or --partitions")
    time = _time(given.text("time"))
    rules = _rules(given)
    config = read_config(given.value("command-config"))
    with ToolSession({**config, "client.id": "GetOffsetShell"}, given.text("bootstrap-server")) as session:
        partitions = _partitions(session, given, rules)
        if not partitions:
            raise _Terse("Could not match any topic-partitions with the specified filters")
        asked = dict.fromkeys(partitions, time)
        answers = session.ask("listOffsets", reading.list_offsets, asked)
    found = {}
    for partition in partitions:
        answer = answers[partition]
        if answer.code is not Code.NONE:
            why = f"due to error: {kafka_error(answer.code)}"
            print(f"Skip getting offsets for topic-partition {partition} {why}", file=sys.stderr)
        elif answer.offset >= 0:
            found[partition] = answer.offset
    return dict(sorted(found.items(), key=lambda item: str(item[0])))


def _time(text: str) -> int:
    try:
        return TIMES[text] if text in TIMES else java_integer(text, 64)
    except ValueError:
        names = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        names = names.replace("-2 or earliest", "-2 or earliest")
        raise _Terse(
            f"Malformed time argument {text}. Please use {names}, or a specified long format timestamp"
        ) from None


def _rules(given: GivenOptions) -> list[Filter]:
    if given.has("topic-partitions"):
        return [_rule(text) for text in java_split(given.text("topic-partitions"), ",")]
    topic = include_list(given.text("topic") if given.has("topic") else ".*")
    text = given.value("partitions")
    try:
        numbers = {java_integer(word) for word in java_split(text, ",")} if text else set()
    except ValueError:
        what = "a comma separated list of numeric partition ids"
        raise _Terse(f"--partitions expects {what}, but received: {text}") from None
    return [(_topic_rule(topic), lambda p: not numbers or p.partition in numbers)]


def _topic_rule(topic: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda name: topic.fullmatch(name) is not None


def _rule(text: str) -> Filter:
    match = _RULE.fullmatch(text)
    if match is None:
        terse = "org.apache.kafka.tools.TerseException"
        cause = JavaError(terse, f"Invalid rule specification: {text}")
        raise JavaError("java.lang.RuntimeException", str(cause), cause)
    try:
        low, high = java_integer(match[3] or "0"), java_integer(match[4] or str(2**31 - 1))
        if match[2]:
            low = java_integer(match[2])
            high = low + 1
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None
    return _topic_rule(include_list(match[1] or ".*")), lambda p: low <= p.partition < high


def _partitions(session: ToolSession, given: GivenOptions, rules: list[Filter]) -> list[TopicPartition]:
    try:
        session.know("listTopics", None)
    except JavaError as error:
        raise executed(error) from None
    topics = session.cluster.client.view.topics
    hide = given.has("exclude-internal-topics")
    names = [
        name
        for name, topic in topics.items()
        if not (hide and topic.internal) and any(is_topic(name) for is_topic, _ in rules)
    ]
    found = []
    for name in hash_order(names, string_hash, len(names)):
        for number in topics[name].partitions:
            partition = TopicPartition(name, number)
            if any(is_topic(name) and is_partition(partition) for is_topic, is_partition in rules):
                found.append(partition)
    return found
