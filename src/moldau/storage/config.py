"""What a topic's configuration means to its logs: one frozen value, Kafka's key beside each field.

Names, types, defaults and bounds are those of the table ``moldau.model.topic_config``; this file only says which of
them a log (or the replica around it) looks at. Which of several settings wins is decided elsewhere (``moldau.image``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.model.config_key import ConfigError
from moldau.model.topic_config import TOPIC_KEYS
from moldau.model.value import value


def _key(name: str) -> Any:  # Any: keys have values of several types
    """The default of the topic key ``name``, for the field of that name with underscores."""
    return TOPIC_KEYS[name].default


@value(kw_only=True)
class LogConfig:
    """The topic configuration a log runs under; times in milliseconds, sizes in bytes.

    Values may come from several places (topic, broker, file), none of which saw the others: nothing is refused here. A
    min.compaction.lag.ms above max.compaction.lag.ms, which nobody may set together, holds records back all the same.

    >>> LogConfig.parse({"retention.ms": "1000"}).retention_ms
    1000
    """

    cleanup_policy: tuple[str, ...] = _key("cleanup.policy")
    compression_type: str = _key("compression.type")
    delete_retention_ms: int = _key("delete.retention.ms")
    file_delete_delay_ms: int = _key("file.delete.delay.ms")
    flush_messages: int = _key("flush.messages")
    flush_ms: int = _key("flush.ms")
    index_interval_bytes: int = _key("index.interval.bytes")
    internal_segment_bytes: int | None = _key("internal.segment.bytes")
    max_compaction_lag_ms: int = _key("max.compaction.lag.ms")
    max_message_bytes: int = _key("max.message.bytes")
    message_timestamp_after_max_ms: int = _key("message.timestamp.after.max.ms")
    message_timestamp_before_max_ms: int = _key("message.timestamp.before.max.ms")
    message_timestamp_type: str = _key("message.timestamp.type")
    min_cleanable_dirty_ratio: float = _key("min.cleanable.dirty.ratio")
    min_compaction_lag_ms: int = _key("min.compaction.lag.ms")
    min_insync_replicas: int = _key("min.insync.replicas")
    retention_bytes: int = _key("retention.bytes")
    retention_ms: int = _key("retention.ms")
    segment_bytes: int = _key("segment.bytes")
    segment_index_bytes: int = _key("segment.index.bytes")
    segment_jitter_ms: int = _key("segment.jitter.ms")
    segment_ms: int = _key("segment.ms")
    unclean_leader_election_enable: bool = _key("unclean.leader.election.enable")

    @classmethod
    def parse(cls, settings: Mapping[str, str | None]) -> LogConfig:
        """From Kafka keys and texts. Keys that no log looks at are checked and dropped; None means the default.

        ConfigError names an unknown key, or the key, the value and what is allowed.
        """
        values: dict[str, Any] = {}  # Any: as above
        for name, text in settings.items():
            key = TOPIC_KEYS.get(name)
            if key is None:
                raise ConfigError(f"Unknown topic config name: {name}")
            if text is None:
                continue
            value = key.parse_existing(text)
            if name in _FIELDS:
                values[_FIELDS[name]] = value
        return cls(**values)

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def roll_bytes(self) -> int:
        """The size at which a segment rolls: segment.bytes, or the tests' smaller one."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes


_FIELDS = {name.replace("_", "."): name for name in LogConfig.__annotations__}
"""Kafka's key -> the field that holds it."""
