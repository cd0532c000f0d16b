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

ELSEWHERE = (
    "reassign", "leader", "replica", "log", "job", "publish", "quorum", "adopt", "status", "storage", "migrate",
    "spark", "pipeline",
)  # fmt: skip
"""Those whose examples need plans, several nodes or their files: tests/packages/admin/test_examples.py says which tests
run them."""
