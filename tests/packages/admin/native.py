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
    "reassign", "leader", "replica", "log", "job", "quorum", "adopt", "status", "storage", "migrate", "spark",
    "pipeline",
)  # fmt: skip
"""Those whose examples need plans, several nodes or their files: tests/live/test_reassign_apply.py runs them, and
tests/live/test_cluster_pipelines.py those of ``job``, tests/live/test_adopt.py that of ``adopt``."""
