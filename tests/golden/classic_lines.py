"""Command lines of Kafka's tools that need no cluster: what they ask for is refused, or is about the tool itself."""

# ruff: noqa: E501  # a case is a line

from __future__ import annotations

import re

TOOLS = (
    "topics", "configs", "reassign-partitions", "leader-election", "get-offsets", "delete-records", "log-dirs",
    "broker-api-versions", "consumer-groups", "console-producer", "console-consumer", "producer-perf-test",
    "verifiable-producer", "verifiable-consumer",
)  # fmt: skip
WITH_COMMANDS = {
    "metadata-quorum": ("describe", "add-controller", "remove-controller"),
    "features": ("describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies"),
    "storage": ("info", "format", "version-mapping", "feature-dependencies", "random-uuid"),
    "cluster": ("cluster-id", "unregister", "list-endpoints"),
}
"""Tools whose help is printed for each subcommand."""
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
kafka-consumer-perf-test.sh --version
kafka-consumer-perf-test.sh {B} --topic a --num-records x
kafka-consumer-perf-test.sh {B} --topic a --num-records 1 --command-config /nowhere
kafka-producer-perf-test.sh {B} --topic a
kafka-producer-perf-test.sh {B} --topic a --num-records x
kafka-producer-perf-test.sh {B} --topic a --num-records 1 --throughput 1
kafka-producer-perf-test.sh {B} --topic a --num-records 0 --throughput 1 --record-size 1
kafka-producer-perf-test.sh {B} --topic a --num-records 1 --throughput x --record-size 1
kafka-producer-perf-test.sh {B} --topic a --num-records 1 --throughput 1 --record-size 1 --payload-monotonic
kafka-producer-perf-test.sh {B} --topic a --num-records 1 --throughput 1 --record-size 1 --command-property a
kafka-producer-perf-test.sh {B} --topic a --num-records 1 --throughput 1 --payload-file /nowhere
kafka-producer-perf-test.sh --topic a --num-records 1 --throughput 1 --payload-monotonic
kafka-verifiable-producer.sh --topic a
kafka-verifiable-producer.sh {B}
kafka-verifiable-producer.sh {B} --topic a --acks 2
kafka-verifiable-producer.sh {B} --topic a --command-config /nowhere
kafka-verifiable-producer.sh {B} --topic a --command-config /nowhere --producer.config /nowhere
kafka-verifiable-producer.sh --bootstrap-server a --topic a
kafka-verifiable-consumer.sh --topic a
kafka-verifiable-consumer.sh {B} --topic a
kafka-verifiable-consumer.sh {B} --topic a --group-id a --max-messages x
kafka-verifiable-consumer.sh {B} --topic a --group-id a --reset-policy x
kafka-verifiable-consumer.sh {B} --topic a --group-id a --group-protocol x
kafka-verifiable-consumer.sh {B} --topic a --group-id a --session-timeout 1
kafka-verifiable-consumer.sh --bootstrap-server a --topic a --group-id a
kafka-console-producer.sh --topic a
kafka-console-producer.sh {B} --topic a --line-reader nosuch
kafka-console-producer.sh {B} --topic a --compression-codec foo
kafka-console-producer.sh {B} --topic a --property a=b --reader-property x=y
kafka-console-consumer.sh {B} --topic a --include b
kafka-console-consumer.sh {B} --topic a --offset 3
kafka-console-consumer.sh {B} --topic a --partition 0 --offset x
kafka-console-consumer.sh {B} --topic a --formatter nosuch
kafka-console-consumer.sh {B} --topic a --from-beginning --command-property auto.offset.reset=latest
kafka-storage.sh info -c /nowhere
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c /nowhere
kafka-storage.sh version-mapping -r 4.0
kafka-metadata-quorum.sh {B} describe
kafka-metadata-quorum.sh {B} remove-controller
kafka-metadata-quorum.sh {B} remove-controller -i x -d y
kafka-metadata-quorum.sh {B} --command-config /nowhere describe --status
kafka-metadata-quorum.sh --boot {B} describe
kafka-cluster.sh cluster-id
kafka-cluster.sh clster-id
kafka-cluster.sh unregister -b 127.0.0.1:1
kafka-features.sh {B} upgrade
kafka-features.sh {B} upgrade --feature group.version
kafka-features.sh {B} version-mapping --release-version 3.9
kafka-features.sh {B} version-mapping --release-version x
kafka-features.sh {B} feature-dependencies --feature eligible.leader.replicas.version=1
kafka-consumer-groups.sh {B}
kafka-consumer-groups.sh {B} --list --members
kafka-consumer-groups.sh {B} --list --group a
kafka-consumer-groups.sh {B} --list --timeout x
kafka-consumer-groups.sh {B} --list --command-config /nowhere
kafka-consumer-groups.sh {B} --describe --group a --members --offsets
kafka-consumer-groups.sh {B} --delete --group a --topic b
kafka-consumer-groups.sh {B} --reset-offsets --group a --execute --dry-run
kafka-consumer-groups.sh {B} --reset-offsets --group a --to-latest --to-earliest
kafka-consumer-groups.sh --validate-regex 'orders-[0-9]+'
kafka-consumer-groups.sh --validate-regex 'orders-('
kafka-consumer-groups.sh --validate-regex '\\p{{Elvish}}'
"""
LINES = [
    *(f"kafka-{tool}.sh{words}" for tool in TOOLS for words in OF_ALL),
    *(f"kafka-{tool}.sh{words}" for tool in WITH_COMMANDS for words in ("", " --help", " --bogus", " describ")),
    *(f"kafka-{tool}.sh {name} --help" for tool, names in WITH_COMMANDS.items() for name in names),
    *filter(None, OTHERS.splitlines()),
]

Z = "--zookeeper 127.0.0.1:1"
OF_2_8 = f"""
kafka-topics.sh {Z}
kafka-topics.sh {Z} --help
kafka-topics.sh {Z} --bogus
kafka-topics.sh {Z} --list --create
kafka-topics.sh {Z} --list --bootstrap-server 127.0.0.1:1
kafka-topics.sh {Z} --create
kafka-topics.sh {Z} --create --topic a
kafka-topics.sh {Z} --create --topic a --partitions 1 --replica-assignment 1
kafka-topics.sh {Z} --list --config a=b
kafka-topics.sh {Z} --delete --topic a --partitions 3
kafka-topics.sh {Z} --describe --if-exists
kafka-topics.sh {Z} --describe --at-min-isr-partitions
kafka-topics.sh {Z} --describe --topics-with-overrides --under-replicated-partitions
kafka-configs.sh {Z}
kafka-configs.sh {Z} --help
kafka-configs.sh {Z} --bogus
kafka-configs.sh {Z} --describe
kafka-configs.sh {Z} --describe --alter --topic a
kafka-configs.sh {Z} --describe --topic a --add-config b=c
kafka-configs.sh {Z} --describe --topic a --all
kafka-configs.sh {Z} --describe --topic a --bootstrap-server 127.0.0.1:1
kafka-configs.sh {Z} --describe --entity-type things
kafka-configs.sh {Z} --describe --entity-type broker-loggers
kafka-configs.sh {Z} --describe --entity-type topics --entity-type brokers
kafka-configs.sh {Z} --describe --topic a --entity-type topics
kafka-configs.sh {Z} --describe --broker x
kafka-configs.sh {Z} --alter --topic a
kafka-configs.sh {Z} --alter --topic a --add-config b=c --add-config-file /nowhere
kafka-configs.sh {Z} --alter --entity-type topics --add-config a=b
kafka-configs.sh {Z} --alter --entity-type users --add-config a=b
kafka-reassign-partitions.sh {Z}
kafka-reassign-partitions.sh {Z} --help
kafka-reassign-partitions.sh {Z} --bogus
kafka-reassign-partitions.sh {Z} --verify --execute
kafka-reassign-partitions.sh {Z} --verify
kafka-reassign-partitions.sh {Z} --list
kafka-reassign-partitions.sh {Z} --cancel --reassignment-json-file a
kafka-reassign-partitions.sh {Z} --generate --broker-list 1
kafka-reassign-partitions.sh {Z} --execute --reassignment-json-file a --timeout 5
kafka-reassign-partitions.sh {Z} --execute --reassignment-json-file a --additional
kafka-reassign-partitions.sh {Z} --execute --reassignment-json-file a --preserve-throttles
kafka-preferred-replica-election.sh
kafka-preferred-replica-election.sh --help
kafka-preferred-replica-election.sh --bootstrap-server a
kafka-preferred-replica-election.sh --bootstrap-server 127.0.0.1:1 --admin.config /nowhere
kafka-preferred-replica-election.sh --bootstrap-server 127.0.0.1:1 --path-to-json-file /nowhere
kafka-preferred-replica-election.sh {Z} --admin.config /nowhere
kafka-preferred-replica-election.sh --bogus
kafka-preferred-replica-election.sh --path-to-json-file /nowhere
kafka-preferred-replica-election.sh {Z} --bootstrap-server 127.0.0.1:1
"""
CLASSES_OF_2_8 = {
    "kafka-topics.sh": "kafka.admin.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-reassign-partitions.sh": "kafka.admin.ReassignPartitionsCommand",
    "kafka-preferred-replica-election.sh": "kafka.admin.PreferredReplicaLeaderElectionCommand",
}
LINES_OF_2_8 = [line for line in OF_2_8.splitlines() if line]
"""Those of Kafka 2.8's tools, for ZooKeeper."""


_PLAN = '{"version": 1,\n "partitions": [{"topic": "größe", "partition": -12, "replicas": [1, 2], "x": [true, null, 1.5e3]}]}'
BAD_JSON = [
    *(_PLAN[:length] for length in range(len(_PLAN))),
    *(
        " ",
        "{no",
        "x",
        "nul",
        "-",
        "1.",
        "01",
        "1e",
        "1e+",
        "tr ue",
        "NaN",
        '"',
        '"\\',
        '"\\u1',
        "\0",
        "//",
        "]",
        "}",
        ",",
        ":",
    ),
    *(
        "[1 2]",
        "[1,]",
        "[1,,2]",
        "[}",
        "{]",
        "{,}",
        "{/",
        "{'a':1}",
        '{"a" 1}',
        '{"a"::1}',
        '{"a":1 "b":2}',
        '{"a":1,}',
    ),
    *(
        '{"a":tru}',
        "{\"a\":'b'}",
        '{"a":1;}',
        '{"a":12x}',
        '{"a":+1}',
        '{"a":-x}',
        '{"a":1.x}',
        '{"a":1ex}',
        '{"a":"\n"}',
    ),
    *('{"a":"\\x"}', '{"a":"\\u12g4"}', "[" * 1001, '{"a":' + "1" * 5000 + "}"),
]
"""Plans that are half written, and other texts that are no JSON."""


def masked(text: str) -> str:
    """Without the frames of stack traces, which are about Java's source."""
    return re.sub(r"(?m)^\t(at .*|\.\.\. \d+ more)\n", "", text)
