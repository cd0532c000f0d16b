"""Broker keys that may be changed while a broker runs, and those that exist only so. Source: KIP-226, Apache Kafka 4.3.

Settings of one broker may be any of them; settings of all brokers together (the broker named "") may not be those of
``PER_BROKER``, which name files, passwords and addresses. Other broker keys are read-only: they need a restart.
"""

from __future__ import annotations

from moldau.terms.broker_config import BROKER_KEYS
from moldau.terms.config_key import LONG_MAX, ConfigKey, Kind, table

# fmt: off
PER_BROKER = frozenset((
    "cordoned.log.dirs", "listener.security.protocol.map", "listeners", "principal.builder.class",
    "sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal.to.local.rules", "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    "sasl.mechanism.inter.broker.protocol", "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class", "ssl.key.password",
    "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
    "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.type",
))

CLUSTER_WIDE = frozenset((
    "background.threads", "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "config.providers", "follower.fetch.last.tiered.offset.enable",
    "group.consumer.assignment.interval.ms", "group.coordinator.cached.buffer.max.bytes",
    "group.share.assignment.interval.ms", "group.streams.assignment.interval.ms", "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size", "log.cleaner.delete.retention.ms", "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio", "log.cleaner.min.compaction.lag.ms", "log.cleaner.threads",
    "log.cleanup.policy", "log.flush.interval.messages", "log.flush.interval.ms", "log.index.interval.bytes",
    "log.index.size.max.bytes", "log.local.retention.bytes", "log.local.retention.ms",
    "log.message.timestamp.after.max.ms", "log.message.timestamp.before.max.ms", "log.message.timestamp.type",
    "log.preallocate", "log.retention.bytes", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms",
    "log.segment.bytes", "log.segment.delete.delay.ms", "max.connection.creation.rate", "max.connections",
    "max.connections.per.ip", "max.connections.per.ip.overrides", "message.max.bytes", "metric.reporters",
    "min.insync.replicas", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir",
    "num.replica.fetchers", "producer.id.expiration.ms", "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms", "remote.log.index.file.cache.total.size.bytes",
    "remote.log.manager.copier.thread.pool.size", "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.expiration.thread.pool.size", "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads",
    "share.coordinator.cached.buffer.max.bytes", "transaction.partition.verification.enable",
    "unclean.leader.election.enable",
))
# fmt: on

ONLY_DYNAMIC = table(
    ConfigKey(
        "leader.replication.throttled.rate",
        Kind.LONG,
        LONG_MAX,
        "Bytes a second that a leader sends to throttled replicas.",
        low=0,
    ),
    ConfigKey(
        "follower.replication.throttled.rate",
        Kind.LONG,
        LONG_MAX,
        "Bytes a second that a follower fetches for throttled replicas.",
        low=0,
    ),
    ConfigKey(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        Kind.LONG,
        LONG_MAX,
        "Bytes a second that replicas move between directories.",
        low=0,
    ),
)

DYNAMIC_KEYS: dict[str, ConfigKey] = {
    **{name: BROKER_KEYS[name] for name in sorted(PER_BROKER | CLUSTER_WIDE)},
    **ONLY_DYNAMIC,
}
"""Every key that a broker may have set dynamically."""
