"""Broker keys that may be changed while a broker runs, and those that exist only so. Source: KIP-226, Apache Kafka 4.3.

Settings of one broker may be any of them; settings of all brokers together (the broker named "") may not be those of
``PER_BROKER``, which name files, passwords and addresses. Other broker keys are read-only: they need a restart.
``refused_names`` tells which names may not be changed, in Kafka's order; values are checked by ``config_key.py``.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import LONG_MAX, ConfigKey, Kind, table

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

BY_LISTENER = frozenset((
    "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
    "ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location",
    "ssl.truststore.password", "ssl.truststore.type",
))  # fmt: skip
"""Keys that Kafka changes under a listener's name only (listener.name.NAME.KEY). Listeners with TLS are not served."""

BY_RESTART = frozenset(("listener.security.protocol.map", "listeners"))
"""Keys that Kafka has as dynamic, and that are not changed here under a running node: its addresses."""

DYNAMIC_KEYS: dict[str, ConfigKey] = {
    **{name: BROKER_KEYS[name] for name in sorted(PER_BROKER | CLUSTER_WIDE)},
    **ONLY_DYNAMIC,
}
"""Every key that a broker may have set dynamically."""


def update_mode(name: str) -> str:
    """How a broker key may be changed, in Kafka's words.

    >>> update_mode("node.id"), update_mode("sasl.jaas.config"), update_mode("log.retention.ms")
    ('read-only', 'per-broker', 'cluster-wide')
    """
    if name not in DYNAMIC_KEYS or name in BY_RESTART:
        return "read-only"
    return "per-broker" if name in PER_BROKER else "cluster-wide"


def refused_names(names: Iterable[str], *, of_cluster: bool) -> str | None:
    """Why settings of these names may not be made together on a broker, or on all of them; None when they may.

    Names that no broker knows are not judged here.
    """
    found = sorted(names)
    for wrong, why in (
        ([n for n in found if n in BROKER_KEYS and n not in DYNAMIC_KEYS], "Cannot update these configs dynamically"),
        (
            [n for n in found if n in BY_LISTENER],
            "These security configs can be dynamically updated only per-listener using the listener prefix",
        ),
        (
            [n for n in found if of_cluster and n in PER_BROKER],
            "Cannot update these configs at default cluster level, broker id must be specified",
        ),
        ([n for n in found if n in BY_RESTART], "Listeners are changed in server.properties, by a restart"),
    ):
        if wrong:
            return f"{why}: [{', '.join(wrong)}]"
    return None
