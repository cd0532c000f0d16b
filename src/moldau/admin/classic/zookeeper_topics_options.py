"""The options of kafka-topics.sh as Apache Kafka 2.8.2 words them: what --zookeeper goes with."""

from __future__ import annotations

from moldau.admin.classic.options import Option

KEYS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
)
"""What a topic of 2.8.2 can be configured with."""
_AT_BROKERS = " (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"

OPTIONS = (
    Option("alter", "Alter the number of partitions, replica assignment, and/or configuration for the topic."),
    Option(
        "at-min-isr-partitions",
        "if set when describing topics, only show partitions whose isr count is equal to the configured "
        "minimum. Not supported with the --zookeeper option.",
    ),
    Option(
        "bootstrap-server",
        "REQUIRED: The Kafka server to connect to. In case of providing this, a direct Zookeeper "
        "connection won't be required.",
        takes="server to connect to",
    ),
    Option(
        "command-config",
        "Property file containing configs to be passed to Admin Client. This is used only with "
        "--bootstrap-server option for describing and altering broker configs.",
        takes="command config property file",
    ),
    Option(
        "config",
        "A topic configuration override for the topic being created or altered. The following is a list of valid "
        "configurations: \n\t" + "\n\t".join(KEYS) + "\nSee the Kafka documentation for full details on the topic "
        "configs. It is supported only in combination with --create if --bootstrap-server option is used"
        f"{_AT_BROKERS}.",
        takes="name=value",
    ),
    Option("create", "Create a new topic."),
    Option("delete", "Delete a topic"),
    Option(
        "delete-config",
        "A topic configuration override to be removed for an existing topic (see the list of "
        "configurations under the --config option). Not supported with the --bootstrap-server option.",
        takes="name",
    ),
    Option("describe", "List details for the given topics."),
    Option("disable-rack-aware", "Disable rack aware replica assignment"),
    Option(
        "exclude-internal",
        "exclude internal topics when running list or describe command. The internal topics will be listed by default",
    ),
    Option("force", "Suppress console prompts"),
    Option(
        "if-exists",
        "if set when altering or deleting or describing topics, the action will only execute if the topic exists.",
    ),
    Option(
        "if-not-exists",
        "if set when creating topics, the action will only execute if the topic does not already exist.",
    ),
    Option("list", "List all available topics."),
    Option(
        "partitions",
        "The number of partitions for the topic being created or altered (WARNING: If partitions are "
        "increased for a topic that has a key, the partition logic or ordering of the messages will be "
        "affected). If not supplied for create, defaults to the cluster default.",
        takes="# of partitions",
        type="Integer",
    ),
    Option(
        "replica-assignment",
        "A list of manual partition-to-broker assignments for the topic being created or altered.",
        takes="broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , broker_id_for_part2_replica1 : "
        "broker_id_for_part2_replica2 , ...",
    ),
    Option(
        "replication-factor",
        "The replication factor for each partition in the topic being created. If not supplied, defaults"
        " to the cluster default.",
        takes="replication factor",
        type="Integer",
    ),
    Option(
        "topic",
        "The topic to create, alter, describe or delete. It also accepts a regular expression, except "
        "for --create option. Put topic name in double quotes and use the '\\' prefix to escape regular "
        'expression symbols; e.g. "test\\.topic".',
        takes="topic",
    ),
    Option("topics-with-overrides", "if set when describing topics, only show topics that have overridden configs"),
    Option(
        "unavailable-partitions", "if set when describing topics, only show partitions whose leader is not available"
    ),
    Option(
        "under-min-isr-partitions",
        "if set when describing topics, only show partitions whose isr count is less than the configured"
        " minimum. Not supported with the --zookeeper option.",
    ),
    Option("under-replicated-partitions", "if set when describing topics, only show under replicated partitions"),
    Option(
        "zookeeper",
        "DEPRECATED, The connection string for the zookeeper connection in the form host:port. Multiple "
        "hosts can be given to allow fail-over.",
        takes="hosts",
    ),
)
