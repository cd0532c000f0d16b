"""The tools that are finished: the names of their scripts and of their classes, and the module of each.

A module is imported when its tool is run, and has ``main(arguments) -> exit status``. A tool that is not here is not
there: `moldau install-scripts` installs these and no others.
"""

from __future__ import annotations

SCRIPTS: dict[str, str] = {
    "kafka-topics.sh": "topics",
    "kafka-configs.sh": "configs",
    "kafka-reassign-partitions.sh": "reassign_partitions",
    "kafka-broker-api-versions.sh": "api_versions",
    "kafka-get-offsets.sh": "offsets",
    "kafka-leader-election.sh": "elections",
    "kafka-preferred-replica-election.sh": "preferred_elections",
    "kafka-delete-records.sh": "deletions",
    "kafka-log-dirs.sh": "log_dirs",
    "kafka-dump-log.sh": "dump_log",
    "kafka-replica-verification.sh": "replica_verification",
    "kafka-consumer-groups.sh": "groups",
    "kafka-metadata-quorum.sh": "quorum",
    "kafka-features.sh": "features",
    "kafka-cluster.sh": "cluster",
    "kafka-storage.sh": "storage",
    "kafka-consumer-perf-test.sh": "consumer_perf",
    "kafka-producer-perf-test.sh": "producer_perf",
    "kafka-verifiable-producer.sh": "verifiable_producer",
    "kafka-verifiable-consumer.sh": "verifiable_consumer",
    "kafka-console-producer.sh": "console_producer",
    "kafka-console-consumer.sh": "console_consumer",
}
"""Script -> module of this package."""

CLASSES: dict[str, str] = {
    "org.apache.kafka.tools.TopicCommand": "topics",
    "kafka.admin.ConfigCommand": "configs",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand": "reassign_partitions",
    "org.apache.kafka.tools.BrokerApiVersionsCommand": "api_versions",
    "org.apache.kafka.tools.GetOffsetShell": "offsets",
    "org.apache.kafka.tools.LeaderElectionCommand": "elections",
    "kafka.admin.PreferredReplicaLeaderElectionCommand": "preferred_elections",
    "org.apache.kafka.tools.DeleteRecordsCommand": "deletions",
    "org.apache.kafka.tools.LogDirsCommand": "log_dirs",
    "org.apache.kafka.tools.DumpLogSegments": "dump_log",
    "kafka.tools.DumpLogSegments": "dump_log",
    "org.apache.kafka.tools.ReplicaVerificationTool": "replica_verification",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": "groups",
    "org.apache.kafka.tools.MetadataQuorumCommand": "quorum",
    "org.apache.kafka.tools.FeatureCommand": "features",
    "org.apache.kafka.tools.ClusterTool": "cluster",
    "org.apache.kafka.tools.ConsumerPerformance": "consumer_perf",
    "org.apache.kafka.tools.ProducerPerformance": "producer_perf",
    "org.apache.kafka.tools.VerifiableProducer": "verifiable_producer",
    "org.apache.kafka.tools.VerifiableConsumer": "verifiable_consumer",
    "org.apache.kafka.tools.ConsoleProducer": "console_producer",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "console_consumer",
    "kafka.tools.StorageTool": "storage",
    "kafka.tools.StateChangeLogMerger": "state_change_log_merger",
}
"""Class, as `kafka-run-class.sh` is given it -> module of this package."""

OF_ZOOKEEPER = {
    "topics": "zookeeper_topics", "configs": "zookeeper_configs", "reassign_partitions": "zookeeper_reassign",
}  # fmt: skip
"""Module -> the one that answers in its place when --zookeeper is given: a tool of Kafka 2.8.2."""

RUN_CLASS = "kafka-run-class.sh"

KAFKA_VERSION = "4.3.1"
"""Whose tools these are equal to: what ``--version`` says."""
