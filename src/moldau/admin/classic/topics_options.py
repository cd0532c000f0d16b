"""The options of kafka-topics.sh, as Apache Kafka 4.3.1 words them."""

from __future__ import annotations

from moldau.admin.classic.options import Option
from moldau.admin.classic.topic_keys import TOPIC_KEYS

OPTIONS = (
    Option(
        "alter",
        "Alter the number of partitions and replica assignment. (To alter topic configurations, the "
        "kafka-configs tool can be used.)",
    ),
    Option(
        "at-min-isr-partitions",
        "If set when describing topics, only show partitions whose isr count is equal to the configured minimum.",
    ),
    Option("bootstrap-server", "REQUIRED: The Kafka server to connect to.", takes="server to connect to"),
    Option(
        "command-config",
        "Property file containing configs to be passed to Admin Client.",
        takes="command config property file",
    ),
    Option(
        "config",
        "A topic configuration override for the topic being created. The following is a list of valid "
        "configurations: \n\t" + TOPIC_KEYS + "\nSee the Kafka documentation for full details on the topic "
        "configs. It is supported only in combination with --create. (To alter topic configurations, the "
        "kafka-configs tool can be used.)",
        takes="name=value",
    ),
    Option("create", "Create a new topic."),
    Option("delete", "Delete a topic."),
    Option("delete-config", "This option is no longer supported and has been deprecated since 4.0", takes="name"),
    Option("describe", "List details for the given topics."),
    Option(
        "exclude-internal",
        "Exclude internal topics when listing or describing topics. By default, the internal topics are included.",
    ),
    Option(
        "if-exists",
        "If set when altering or deleting or describing topics, the action will only execute if the topic exists.",
    ),
    Option(
        "if-not-exists",
        "If set when creating topics, the create request will not fail if the topic already exists, but "
        "the request will still be sent.",
    ),
    Option("list", "List all available topics."),
    Option(
        "partition-size-limit-per-response",
        "The maximum partition size to be included in one DescribeTopicPartitions response.",
        takes="maximum number of partitions per response",
        type="Integer",
    ),
    Option(
        "partitions",
        "The number of partitions for the topic being created or altered. If not supplied with --create, "
        "the topic uses the cluster default. (WARNING: If partitions are increased for a topic that has a "
        "key, the partition logic or ordering of the messages will be affected).",
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
        "The replication factor for each partition in the topic being created. If not supplied, the topic "
        "uses the cluster default.",
        takes="replication factor",
        type="Integer",
    ),
    Option(
        "topic",
        "The topic to create, alter, describe or delete. It also accepts a regular expression, except for "
        "--create option.",
        takes="topic",
    ),
    Option("topic-id", "The topic-id to describe.", takes="topic-id"),
    Option("topics-with-overrides", "If set when describing topics, only show topics that have overridden configs."),
    Option(
        "unavailable-partitions",
        "If set when describing topics, only show partitions whose leader is not available.",
    ),
    Option(
        "under-min-isr-partitions",
        "If set when describing topics, only show partitions whose isr count is less than the configured minimum.",
    ),
    Option("under-replicated-partitions", "If set when describing topics, only show under-replicated partitions."),
)
