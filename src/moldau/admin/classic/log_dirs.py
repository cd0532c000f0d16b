"""kafka-log-dirs.sh: what lies in the log directories of brokers."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_json import compact
from moldau.admin.classic.java_order import hash_order, partition_hash, set_order, string_hash
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.options import GivenOptions, Option, java_integer
from moldau.admin.classic.run import help_or_version, tell
from moldau.admin.classic.session import ToolSession, executed, read_config
from moldau.client import admin
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsResponse

Directory = DescribeLogDirsResponse.DescribeLogDirsResult

OPTIONS = (
    Option(
        "bootstrap-server",
        "REQUIRED: the server(s) to use for bootstrapping",
        takes="The server(s) to use for bootstrapping",
    ),
    Option(
        "broker-list",
        'The list of brokers to be queried in the form "0,1,2". All brokers in the cluster will be '
        "queried if no broker list is specified",
        takes="Broker list",
        default="",
    ),
    Option(
        "command-config",
        "Property file containing configs to be passed to Admin Client.",
        takes="Admin client property file",
    ),
    Option("describe", "Describe the specified log directories on the specified brokers."),
    Option(
        "topic-list",
        'The list of topics to be queried in the form "topic1,topic2,topic3". All topics will be queried '
        "if no topic list is specified",
        takes="Topic list",
        default="",
    ),
)

ABOUT = "This tool helps to query log directory usage on the specified brokers."


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = GivenOptions(OPTIONS, arguments)
        help_or_version(given, ABOUT)
        given.require("bootstrap-server", "describe")
        with ToolSession(read_config(given.value("command-config")), given.text("bootstrap-server")) as session:
            return _describe(session, given)
    except JavaError as error:
        return tell(error)


def _describe(session: ToolSession, given: GivenOptions) -> int:
    topics = {topic for topic in given.text("topic-list").split(",") if topic}
    asked = _numbers(given.text("broker-list"))
    try:
        session.know("listNodes", [])
    except JavaError as error:
        raise executed(error) from None
    known = _set(session.cluster.client.view.brokers)
    missing = [id for id in asked if id not in known]
    if missing:
        there = f"Current existent brokers: {_listed(known)}"
        print(f"ERROR: The given brokers do not exist from --broker-list: {_listed(missing)}. {there}", file=sys.stderr)
        return 1
    brokers = asked or known
    print("Querying brokers for log directories information")
    found = session.ask("describeLogDirs", admin.describe_log_dirs, brokers)
    print(f"Received log directory information from brokers {_listed(brokers)}")
    shown = [_broker(id, found[id], topics) for id in hash_order(found, int, len(found))]
    print(compact(_object(version=1, brokers=shown)))
    return 0


def _numbers(text: str) -> list[int]:
    try:
        return _set(java_integer(word) for word in text.split(",") if word)
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None


def _set(ids: Iterable[int]) -> list[int]:
    return set_order(ids, lambda id: id)


def _listed(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _object(**fields: object) -> dict[str, object]:
    """An object with its fields in the order of Java's map."""
    return {name: fields[name] for name in hash_order(fields, string_hash)}


def _broker(id: int, directories: list[Directory], topics: set[str]) -> dict[str, object]:
    if any(one.error_code == Code.CLUSTER_AUTHORIZATION_FAILED for one in directories):
        raise executed(kafka_error(Code.CLUSTER_AUTHORIZATION_FAILED))
    by_path = {one.log_dir: one for one in directories}
    shown = [_directory(by_path[path], topics) for path in hash_order(by_path, string_hash, len(by_path))]
    return _object(broker=id, logDirs=shown)


def _directory(directory: Directory, topics: set[str]) -> dict[str, object]:
    replicas = {
        TopicPartition(topic.name, part.partition_index): part
        for topic in directory.topics
        for part in topic.partitions
    }
    order = [p for p in hash_order(replicas, partition_hash) if not topics or p.topic in topics]
    shown = []
    for partition in hash_order(order, partition_hash):
        part = replicas[partition]
        shown.append(
            _object(
                partition=str(partition), size=part.partition_size, offsetLag=part.offset_lag,
                isFuture=part.is_future_key,
            )
        )  # fmt: skip
    error = None
    if directory.error_code != Code.NONE:
        error = kafka_error(Code(directory.error_code)).kind
    return _object(logDir=directory.log_dir, error=error, partitions=shown)
