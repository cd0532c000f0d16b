"""Every topic configuration key: name, type, default, bounds, the broker keys that set it, one line of doc.

A pure table. Facts (names, types, defaults, bounds, synonyms) are those of Apache Kafka 4.3; the words are ours.
Read next: ``config_key.py`` (what a key is), ``moldau.storage`` (what the log does with them).
"""

from __future__ import annotations

from moldau.model.config_key import LONG_MAX, ConfigError, ConfigKey, Kind, Synonym, table

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_WEEK_MS = 7 * 24 * _HOUR_MS


def _broker(*names: str) -> tuple[Synonym, ...]:
    """Broker keys in order of precedence; hours and minutes are turned into milliseconds."""
    factors = {"hours": _HOUR_MS, "minutes": _MINUTE_MS}
    return tuple(Synonym(name, factors.get(name.rsplit(".", 1)[-1], 1)) for name in names)


TOPIC_KEYS: dict[str, ConfigKey] = table(
    ConfigKey(
        "cleanup.policy",
        Kind.LIST,
        ("delete",),
        one_of=("compact", "delete"),
        synonyms=_broker("log.cleanup.policy"),
        doc="What happens to old segments: delete by age and size, compact by key, or both. Empty keeps everything.",
    ),
    ConfigKey(
        "compression.gzip.level",
        Kind.INT,
        -1,
        low=-1,
        high=9,
        synonyms=_broker("compression.gzip.level"),
        doc="Level used when the broker itself compresses with gzip; -1 is the codec's own default.",
        effect=False,
    ),
    ConfigKey(
        "compression.lz4.level",
        Kind.INT,
        9,
        low=1,
        high=17,
        synonyms=_broker("compression.lz4.level"),
        doc="Level used when the broker itself compresses with lz4.",
        effect=False,
    ),
    ConfigKey(
        "compression.type",
        Kind.STRING,
        "producer",
        synonyms=_broker("compression.type"),
        one_of=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="How batches are stored: as the producer sent them, or re-encoded by the broker with the codec named here.",
    ),
    ConfigKey(
        "compression.zstd.level",
        Kind.INT,
        3,
        low=-131072,
        high=22,
        synonyms=_broker("compression.zstd.level"),
        doc="Level used when the broker itself compresses with zstd.",
        effect=False,
    ),
    ConfigKey(
        "delete.retention.ms",
        Kind.LONG,
        24 * _HOUR_MS,
        low=0,
        synonyms=_broker("log.cleaner.delete.retention.ms"),
        doc="How long a compacted topic keeps a tombstone, so that a reader from the start still sees the deletion.",
    ),
    ConfigKey(
        "file.delete.delay.ms",
        Kind.LONG,
        60_000,
        low=0,
        synonyms=_broker("log.segment.delete.delay.ms"),
        doc="How long a removed file stays on disk under another name, so that a read in progress can end.",
    ),
    ConfigKey(
        "flush.messages",
        Kind.LONG,
        LONG_MAX,
        low=1,
        synonyms=_broker("log.flush.interval.messages"),
        doc="Force the log to disk after this many records. By default replicas are the safety, not the disk.",
    ),
    ConfigKey(
        "flush.ms",
        Kind.LONG,
        LONG_MAX,
        low=0,
        synonyms=_broker("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        doc="Force the log to disk after this much time since the last flush.",
    ),
    ConfigKey(
        "follower.replication.throttled.replicas",
        Kind.LIST,
        (),
        doc="Replicas throttled on the following side, as partition:broker pairs, or * for all.",
    ),
    ConfigKey(
        "index.interval.bytes",
        Kind.INT,
        4096,
        low=0,
        synonyms=_broker("log.index.interval.bytes"),
        doc="Bytes of log between two index entries: smaller finds an offset faster and makes the index larger.",
    ),
    ConfigKey(
        "internal.segment.bytes",
        Kind.INT,
        None,
        internal=True,
        low=14,
        doc="Segment size below the public minimum; for tests of rolling only.",
    ),
    ConfigKey(
        "leader.replication.throttled.replicas",
        Kind.LIST,
        (),
        doc="Replicas throttled on the leading side, as partition:broker pairs, or * for all.",
    ),
    ConfigKey(
        "local.retention.bytes",
        Kind.LONG,
        -2,
        low=-2,
        synonyms=_broker("log.local.retention.bytes"),
        effect=False,
        doc="Local size kept before tiered storage takes over; -2 follows retention.bytes. Tiering is not offered.",
    ),
    ConfigKey(
        "local.retention.ms",
        Kind.LONG,
        -2,
        low=-2,
        synonyms=_broker("log.local.retention.ms"),
        effect=False,
        doc="Local time kept before tiered storage takes over; -2 follows retention.ms. Tiering is not offered.",
    ),
    ConfigKey(
        "max.compaction.lag.ms",
        Kind.LONG,
        LONG_MAX,
        low=1,
        synonyms=_broker("log.cleaner.max.compaction.lag.ms"),
        doc="The longest a record of a compacted topic may wait before it can be compacted away.",
    ),
    ConfigKey(
        "max.message.bytes",
        Kind.INT,
        1_048_588,
        low=0,
        synonyms=_broker("message.max.bytes"),
        doc="The largest batch, after compression, that the topic takes.",
    ),
    ConfigKey(
        "message.timestamp.after.max.ms",
        Kind.LONG,
        _HOUR_MS,
        low=0,
        synonyms=_broker("log.message.timestamp.after.max.ms"),
        doc="How far in the future a record's own timestamp may lie (CreateTime only).",
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        Kind.LONG,
        LONG_MAX,
        low=0,
        synonyms=_broker("log.message.timestamp.before.max.ms"),
        doc="How far in the past a record's own timestamp may lie (CreateTime only).",
    ),
    ConfigKey(
        "message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        one_of=("CreateTime", "LogAppendTime"),
        synonyms=_broker("log.message.timestamp.type"),
        doc="Whose clock stamps a record: the producer's (CreateTime) or the leader's on append (LogAppendTime).",
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        Kind.DOUBLE,
        0.5,
        low=0,
        high=1,
        synonyms=_broker("log.cleaner.min.cleanable.ratio"),
        doc="Compact when at least this share of the log is not yet compacted.",
    ),
    ConfigKey(
        "min.compaction.lag.ms",
        Kind.LONG,
        0,
        low=0,
        synonyms=_broker("log.cleaner.min.compaction.lag.ms"),
        doc="The least time a record stays as it is before it can be compacted away.",
    ),
    ConfigKey(
        "min.insync.replicas",
        Kind.INT,
        1,
        low=1,
        synonyms=_broker("min.insync.replicas"),
        doc="With acks=all, the least number of in-sync replicas for a write to be taken.",
    ),
    ConfigKey(
        "preallocate",
        Kind.BOOLEAN,
        False,
        synonyms=_broker("log.preallocate"),
        doc="Reserve a new segment's whole size on disk at once.",
        effect=False,
    ),
    ConfigKey(
        "remote.log.copy.disable",
        Kind.BOOLEAN,
        False,
        effect=False,
        doc="Stop copying to tiered storage. Tiering is not offered.",
    ),
    ConfigKey(
        "remote.log.delete.on.disable",
        Kind.BOOLEAN,
        False,
        effect=False,
        doc="Delete tiered data when tiering is turned off. Tiering is not offered.",
    ),
    ConfigKey(
        "remote.storage.enable",
        Kind.BOOLEAN,
        False,
        effect=False,
        doc="Tiered storage for the topic. Tiering is not offered.",
    ),
    ConfigKey(
        "retention.bytes",
        Kind.LONG,
        -1,
        synonyms=_broker("log.retention.bytes"),
        doc="Size of one partition above which old segments are deleted; -1 is no limit.",
    ),
    ConfigKey(
        "retention.ms",
        Kind.LONG,
        _WEEK_MS,
        low=-1,
        synonyms=_broker("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        doc="Age above which segments are deleted; -1 is no limit.",
    ),
    ConfigKey(
        "segment.bytes",
        Kind.INT,
        1_073_741_824,
        low=1_048_576,
        low_standing=14,  # KIP-1030 raised it with release 4.0
        synonyms=_broker("log.segment.bytes"),
        doc="Size at which a segment is closed and a new one begun. Retention works in whole segments.",
    ),
    ConfigKey(
        "segment.index.bytes",
        Kind.INT,
        10_485_760,
        low=4,
        synonyms=_broker("log.index.size.max.bytes"),
        doc="The largest an offset index may grow; a full index rolls the segment.",
    ),
    ConfigKey(
        "segment.jitter.ms",
        Kind.LONG,
        0,
        low=0,
        synonyms=_broker("log.roll.jitter.ms", "log.roll.jitter.hours"),
        doc="A random time taken off segment.ms, so that not all partitions roll together.",
    ),
    ConfigKey(
        "segment.ms",
        Kind.LONG,
        _WEEK_MS,
        low=1,
        synonyms=_broker("log.roll.ms", "log.roll.hours"),
        doc="Age at which a segment is closed even if it is not full.",
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        False,
        synonyms=_broker("unclean.leader.election.enable"),
        doc="Whether a replica outside the ISR may lead when no other is left; records may be lost.",
    ),
)


def check_offered(name: str, text: str) -> None:
    """ConfigError when a good value asks for what is not offered, and what would be missed."""
    if name == "remote.storage.enable" and TOPIC_KEYS[name].parse(text):
        raise ConfigError(f"Invalid value {text} for configuration {name}: tiered storage is not served")
