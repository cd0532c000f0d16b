"""The coordinator's settings: Kafka's key beside each field, Kafka's defaults, checked on construction.

Source of keys and defaults: Kafka 4's broker configuration reference. Read next: shard.py.
"""

from __future__ import annotations

from moldau.model.value import value


@value(kw_only=True)
class GroupsConfig:
    """Settings of one shard; all times in milliseconds. ValueError names a value that cannot be."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_size: int = 2_147_483_647  # group.max.size
    new_member_join_timeout_ms: int = 300_000  # no key in Kafka: a constant there
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    offset_commit_timeout_ms: int = 5_000  # offsets.commit.timeout.ms

    def __post_init__(self) -> None:
        if not 0 < self.min_session_timeout_ms <= self.max_session_timeout_ms:
            raise ValueError("group.min.session.timeout.ms must be positive and at most group.max.session.timeout.ms")
        if self.initial_rebalance_delay_ms < 0:
            raise ValueError(
                f"group.initial.rebalance.delay.ms is {self.initial_rebalance_delay_ms}; at least 0 is allowed"
            )
        for name in (
            "max_size",
            "offsets_retention_ms",
            "offsets_retention_check_interval_ms",
            "offset_commit_timeout_ms",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; at least 1 is allowed")
