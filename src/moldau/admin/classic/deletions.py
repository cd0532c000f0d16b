"""kafka-delete-records.sh: deletes the records of partitions before an offset."""

from __future__ import annotations

import time

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_json import Json, parse, read_file
from moldau.admin.classic.java_order import hash_order, partition_hash
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.run import help_or_version, tell
from moldau.admin.classic.session import ADMIN_FAILED, ADMIN_OPERATION, ToolSession, call_timed_out, read_config
from moldau.client import admin
from moldau.model import Code, TopicPartition

OPTIONS = (
    Option("bootstrap-server", "REQUIRED: The server to connect to.", takes="server(s) to use for bootstrapping"),
    Option(
        "command-config",
        "A property file containing configs to be passed to Admin Client.",
        takes="command config property file path",
    ),
    Option(
        "offset-json-file",
        'REQUIRED: The JSON file with offset per partition. The format to use is:\n{"partitions":\n  '
        '[{"topic": "foo", "partition": 1, "offset": 1}],\n "version":1\n}',
        takes="Offset json file path",
    ),
)

ABOUT = "This tool helps to delete records of the given partitions down to the specified offset."


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = GivenOptions(OPTIONS, arguments)
        help_or_version(given, ABOUT)
        given.require("bootstrap-server", "offset-json-file")
        with ToolSession(read_config(given.value("command-config")), given.text("bootstrap-server")) as session:
            _delete(session, _read(given.text("offset-json-file")))
    except JavaError as error:
        return tell(error)
    return 0


def _read(path: str) -> dict[TopicPartition, int]:
    """Offsets by partition, in the order of Java's map."""
    found = parse(read_file(path))
    if found is None:
        raise JavaError(ADMIN_OPERATION, "The input string is not a valid JSON")
    version = found.get("version")
    number = 1 if version is None else version.integer()
    if number != 1:
        raise JavaError(ADMIN_OPERATION, f"Not supported version field value {number}")
    listed = found.get("partitions")
    if listed is None:
        raise JavaError(ADMIN_OPERATION, "Missing partitions field")
    entries = [_entry(one) for one in listed.items()]
    partitions = [partition for partition, _ in entries]
    order = hash_order(partitions, partition_hash)
    twice = [str(p) for p in order if partitions.count(p) > 1]
    if twice:
        raise JavaError(ADMIN_FAILED, f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    offsets = dict(entries)
    return {p: offsets[p] for p in order}


def _entry(one: Json) -> tuple[TopicPartition, int]:
    topic, number = one.field("topic").text(), one.field("partition").integer()
    return TopicPartition(topic, number), one.field("offset").integer(64)


def _delete(session: ToolSession, before: dict[TopicPartition, int]) -> None:
    print("Executing records delete operation")
    print("Records delete operation completed:")
    for partition, shown in _answers(session, before).items():
        print(f"partition: {partition}\t{shown}")


def _answers(session: ToolSession, before: dict[TopicPartition, int]) -> dict[TopicPartition, str]:
    """What became of each partition; Kafka's order is that of chance, ours that of names."""
    order = sorted(before)
    call, since_ms = "deleteRecords(api=METADATA)", int(time.time() * 1000)
    view = session.cluster.client.view
    try:
        session.ask(call, lambda client: client.know({p.topic for p in order}, grace=True))
        known = {p: offset for p, offset in before.items() if view.leader(p) is not None}
        answers = session.ask("deleteRecords", admin.delete_records, known) if known else {}
    except JavaError as error:
        return dict.fromkeys(order, f"error: {error}")
    shown = {}
    for partition in order:
        code, low = answers.get(partition, (None, -1))
        if not partition.topic:
            why = f"Failed to fetch metadata for partition {partition} due to invalid topic ``"
            shown[partition] = f"error: {kafka_error(Code.INVALID_TOPIC_EXCEPTION, why)}"
        elif code is None:
            shown[partition] = f"error: {call_timed_out(call, since_ms)}"
        else:
            shown[partition] = f"low_watermark: {low}" if code is Code.NONE else f"error: {kafka_error(code)}"
    return shown
