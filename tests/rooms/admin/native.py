"""The commands that ask any Kafka cluster, with standard requests only."""

from __future__ import annotations

NATIVE = (
    "topic",
    "config",
    "group",
    "record",
    "produce",
    "consume",
    "tail",
    "feature",
    "broker",
    "doctor",
    "perf",
    "completion",
)
