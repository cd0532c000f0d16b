"""Command lines of Kafka's tools that need no cluster: what they ask for is refused, or is about the tool itself."""

# ruff: noqa: E501  # a case is a line

from __future__ import annotations

import re

TOOLS = (
    "topics", "configs", "reassign-partitions", "leader-election", "get-offsets", "delete-records", "log-dirs",
    "broker-api-versions",
)  # fmt: skip
OF_ALL = ("", " --help", " --version", " --bogus", " --bootstrap-server")
B = "--bootstrap-server 127.0.0.1:1"
OTHERS = f"""
kafka-topics.sh --list
kafka-topics.sh {B}
kafka-topics.sh {B} --list --create
kafka-topics.sh {B} --create
kafka-topics.sh {B} --alter --topic a
kafka-topics.sh {B} --delete --topic a --partitions 3
kafka-topics.sh {B} --create --topic a --partitions 0
kafka-topics.sh {B} --create --topic a.b --replication-factor 0
kafka-topics.sh {B} --create --topic a --config retention.ms=x
kafka-topics.sh {B} --create --topic a --config cleanup.policy=x
kafka-topics.sh {B} --create --topic a --replica-assignment 1:1
kafka-topics.sh {B} --describe --topic-id abcd
kafka-topics.sh {B} --list --command-config /nowhere
kafka-topics.sh --list --bootstrap-server 127.0.0.1
kafka-topics.sh --list --bootstrap-server 127.0.0.1:99999
kafka-configs.sh {B} --describe
kafka-configs.sh {B} --describe --entity-type things
kafka-configs.sh {B} --describe --entity-type topics --entity-type brokers
kafka-configs.sh {B} --alter --entity-type topics
kafka-configs.sh {B} --alter --topic a
kafka-configs.sh {B} --alter --topic a --add-config a
kafka-configs.sh {B} --alter --topic a --add-config-file /nowhere
kafka-configs.sh {B} --alter --client x --add-config a=b
kafka-reassign-partitions.sh {B}
kafka-reassign-partitions.sh {B} --list --verify
kafka-reassign-partitions.sh --list
kafka-reassign-partitions.sh {B} --verify
kafka-reassign-partitions.sh {B} --list --additional
kafka-reassign-partitions.sh {B} --execute --reassignment-json-file /nowhere
kafka-leader-election.sh {B} --topic a
kafka-leader-election.sh {B} --election-type preferred
kafka-leader-election.sh {B} --election-type best --all-topic-partitions
kafka-leader-election.sh {B} --election-type preferred --path-to-json-file /nowhere
kafka-get-offsets.sh --bootstrap-server a
kafka-get-offsets.sh {B} --time soon
kafka-get-offsets.sh {B} --partitions 0,x
kafka-get-offsets.sh {B} --topic-partitions a:1:2
kafka-delete-records.sh {B}
kafka-delete-records.sh {B} --offset-json-file /nowhere
kafka-log-dirs.sh {B}
kafka-log-dirs.sh --describe
"""
LINES = [
    *(f"kafka-{tool}.sh{words}" for tool in TOOLS for words in OF_ALL),
    *filter(None, OTHERS.splitlines()),
]


def masked(text: str) -> str:
    """Without the frames of stack traces, which are about Java's source."""
    return re.sub(r"(?m)^\t(at .*|\.\.\. \d+ more)\n", "", text)
