"""The keys of server.properties that Kafka 4.3 knows and Moldau has no use for: accepted, checked, without effect.

A file that starts Kafka starts Moldau, so these must not be called unknown. Names, types and bounds are Kafka's. A key
moves to ``broker_config.py`` on the day Moldau acts on it.
"""

from __future__ import annotations

from functools import partial

from moldau.model.config_key import INT_MAX, LONG_MAX, ConfigKey, Kind, table

HIGH, LOW = "HIGH", "LOW"


def _key(name: str, default: object, *, kind: Kind, **rest: object) -> ConfigKey:
    return ConfigKey(name, kind, default, "", effect=False, **rest)  # type: ignore[arg-type]


_bool = partial(_key, kind=Kind.BOOLEAN)
_text = partial(_key, kind=Kind.STRING)
_int = partial(_key, kind=Kind.INT)
_short = partial(_key, kind=Kind.SHORT)
_long = partial(_key, kind=Kind.LONG)
_double = partial(_key, kind=Kind.DOUBLE)
_list = partial(_key, kind=Kind.LIST)
_secret = partial(_key, kind=Kind.PASSWORD)
_class = partial(_key, kind=Kind.CLASS)


def _without_effect(doc: str, *keys: ConfigKey) -> dict[str, ConfigKey]:
    return table(*(key._replace(doc=doc) for key in keys))


# fmt: off
TIERED = _without_effect(
    "Tiered storage, which is not offered.",
    _int("remote.fetch.max.wait.ms", 500, low=1),
    _long("remote.list.offsets.request.timeout.ms", 30000, low=1),
    _long("remote.log.index.file.cache.total.size.bytes", 1073741824, low=1, importance=LOW),
    _long("remote.log.index.file.cache.ttl.ms", 900000, low=-1, importance=LOW, internal=True),
    _int("remote.log.manager.copier.thread.pool.size", 10, low=1),
    _long("remote.log.manager.copy.max.bytes.per.second", LONG_MAX, low=1),
    _int("remote.log.manager.copy.quota.window.num", 11, low=1),
    _int("remote.log.manager.copy.quota.window.size.seconds", 1, low=1),
    _int("remote.log.manager.expiration.thread.pool.size", 10, low=1),
    _long("remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, low=1),
    _int("remote.log.manager.fetch.quota.window.num", 11, low=1),
    _int("remote.log.manager.fetch.quota.window.size.seconds", 1, low=1),
    _int("remote.log.manager.follower.thread.pool.size", 2, low=1),
    _long("remote.log.manager.task.interval.ms", 30000, low=1, importance=LOW),
    _long("remote.log.manager.task.retry.backoff.max.ms", 30000, low=1, importance=LOW, internal=True),
    _long("remote.log.manager.task.retry.backoff.ms", 500, low=1, importance=LOW, internal=True),
    _double("remote.log.manager.task.retry.jitter", 0.2, low=0, high=0.5, importance=LOW, internal=True),
    _int("remote.log.manager.thread.pool.size", 2, low=1),
    _int("remote.log.metadata.custom.metadata.max.bytes", 128, low=0, importance=LOW),
    _text("remote.log.metadata.manager.class.name",
         "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"),
    _text("remote.log.metadata.manager.class.path", None),
    _text("remote.log.metadata.manager.impl.prefix", "rlmm.config."),
    _text("remote.log.metadata.manager.listener.name", None),
    _int("remote.log.reader.max.pending.tasks", 100, low=1),
    _int("remote.log.reader.threads", 10, low=1),
    _text("remote.log.storage.manager.class.name", None),
    _text("remote.log.storage.manager.class.path", None),
    _text("remote.log.storage.manager.impl.prefix", "rsm.config."),
    _bool("remote.log.storage.system.enable", False),
    _bool("follower.fetch.last.tiered.offset.enable", False),
)

SHARE = _without_effect(
    "Share groups, which are not offered.",
    _int("share.coordinator.append.linger.ms", -1, low=-1),
    _int("share.coordinator.cached.buffer.max.bytes", 1048588, low=524288),
    _int("share.coordinator.cold.partition.snapshot.interval.ms", 300000, low=1, importance=LOW, internal=True),
    _int("share.coordinator.load.buffer.size", 5242880, low=1, importance=HIGH),
    _int("share.coordinator.snapshot.update.records.per.snapshot", 500, low=0, high=500),
    _int("share.coordinator.state.topic.compression.codec", 0, importance=HIGH),
    _short("share.coordinator.state.topic.min.isr", 2, low=1, importance=HIGH),
    _int("share.coordinator.state.topic.num.partitions", 50, low=1, importance=HIGH),
    _int("share.coordinator.state.topic.prune.interval.ms", 300000, low=1, importance=LOW, internal=True),
    _short("share.coordinator.state.topic.replication.factor", 3, low=1, importance=HIGH),
    _int("share.coordinator.state.topic.segment.bytes", 104857600, low=1, importance=HIGH),
    _int("share.coordinator.threads", 1, low=1),
    _int("share.coordinator.write.timeout.ms", 5000, low=1, importance=HIGH),
    _int("share.fetch.purgatory.purge.interval.requests", 1000),
)

NEWER_GROUPS = _without_effect(
    "Group protocols or coordinator threads that are not offered: the classic protocol is.",
    _int("group.consumer.assignment.interval.ms", 1000, low=0),
    _list("group.consumer.assignors", ("uniform", "range")),
    _int("group.consumer.heartbeat.interval.ms", 5000, low=1),
    _int("group.consumer.max.assignment.interval.ms", 15000, low=0),
    _int("group.consumer.max.heartbeat.interval.ms", 15000, low=1),
    _int("group.consumer.max.session.timeout.ms", 60000, low=1),
    _int("group.consumer.max.size", INT_MAX, low=1),
    _text("group.consumer.migration.policy", "bidirectional"),
    _int("group.consumer.min.assignment.interval.ms", 0, low=0),
    _int("group.consumer.min.heartbeat.interval.ms", 5000, low=1),
    _int("group.consumer.min.session.timeout.ms", 45000, low=1),
    _int("group.consumer.regex.refresh.interval.ms", 600000, low=10000, internal=True),
    _int("group.consumer.session.timeout.ms", 45000, low=1),
    _int("group.coordinator.append.linger.ms", -1, low=-1),
    _int("group.coordinator.background.threads", 2, low=1, importance=HIGH),
    _int("group.coordinator.cached.buffer.max.bytes", 1048588, low=524288),
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"), one_of=("consumer", "classic",
         "share", "streams")),
    _int("group.coordinator.threads", 4, low=1, importance=HIGH),
    _int("group.share.assignment.interval.ms", 1000, low=0),
    _list("group.share.assignors", ("simple",)),
    _int("group.share.delivery.count.limit", 5, low=2, high=10),
    _int("group.share.heartbeat.interval.ms", 5000, low=1),
    _int("group.share.initialize.retry.interval.ms", 30000, low=1, importance=LOW, internal=True),
    _int("group.share.max.assignment.interval.ms", 15000, low=0),
    _int("group.share.max.delivery.count.limit", 10, low=5, high=25),
    _int("group.share.max.heartbeat.interval.ms", 15000, low=1),
    _int("group.share.max.partition.max.record.locks", 4000, low=2000, high=10000),
    _int("group.share.max.record.lock.duration.ms", 60000, low=30000, high=3600000),
    _int("group.share.max.session.timeout.ms", 60000, low=1),
    _int("group.share.max.share.sessions", 2000, low=1),
    _int("group.share.max.size", 200, low=1, high=1000),
    _int("group.share.min.assignment.interval.ms", 0, low=0),
    _int("group.share.min.delivery.count.limit", 2, low=2, high=5),
    _int("group.share.min.heartbeat.interval.ms", 5000, low=1),
    _int("group.share.min.partition.max.record.locks", 100, low=100, high=2000),
    _int("group.share.min.record.lock.duration.ms", 15000, low=1000, high=30000),
    _int("group.share.min.session.timeout.ms", 45000, low=1),
    _int("group.share.partition.max.record.locks", 2000, low=100, high=10000),
    _text("group.share.persister.class.name", "org.apache.kafka.server.share.persister.DefaultStatePersister",
         internal=True),
    _int("group.share.record.lock.duration.ms", 30000, low=1000, high=3600000),
    _int("group.share.session.timeout.ms", 45000, low=1),
    _int("group.streams.assignment.interval.ms", 1000, low=0),
    _int("group.streams.heartbeat.interval.ms", 5000, low=1),
    _int("group.streams.initial.rebalance.delay.ms", 3000, low=0),
    _int("group.streams.max.assignment.interval.ms", 15000, low=0),
    _int("group.streams.max.heartbeat.interval.ms", 15000, low=1),
    _int("group.streams.max.session.timeout.ms", 60000, low=1),
    _int("group.streams.max.size", INT_MAX, low=1),
    _int("group.streams.max.standby.replicas", 2, low=0),
    _int("group.streams.min.assignment.interval.ms", 0, low=0),
    _int("group.streams.min.heartbeat.interval.ms", 5000, low=1),
    _int("group.streams.min.session.timeout.ms", 45000, low=1),
    _int("group.streams.num.standby.replicas", 0, low=0),
    _int("group.streams.session.timeout.ms", 45000, low=1),
    _int("offsets.topic.compression.codec", 0, importance=HIGH),
)

TRANSACTIONS = _without_effect(
    "Transactions, which have no coordinator here yet.",
    _int("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10000, low=1, importance=LOW),
    _int("transaction.max.timeout.ms", 900000, low=1, importance=HIGH),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", 3600000, low=1, importance=LOW),
    _int("transaction.state.log.load.buffer.size", 5242880, low=1, importance=HIGH),
    _int("transaction.state.log.min.isr", 2, low=1, importance=HIGH),
    _int("transaction.state.log.num.partitions", 50, low=1, importance=HIGH),
    _short("transaction.state.log.replication.factor", 3, low=1, importance=HIGH),
    _int("transaction.state.log.segment.bytes", 104857600, low=1, importance=HIGH),
    _bool("transaction.two.phase.commit.enable", False, importance=LOW),
    _int("transactional.id.expiration.ms", 604800000, low=1, importance=HIGH),
)

SASL = _without_effect(
    "Kerberos, OAuth and login plug-ins of the Java security framework.",
    _class("sasl.client.callback.handler.class", None),
    _text("sasl.kerberos.kinit.cmd", "/usr/bin/kinit"),
    _long("sasl.kerberos.min.time.before.relogin", 60000),
    _list("sasl.kerberos.principal.to.local.rules", ("DEFAULT",)),
    _text("sasl.kerberos.service.name", None),
    _double("sasl.kerberos.ticket.renew.jitter", 0.05),
    _double("sasl.kerberos.ticket.renew.window.factor", 0.8),
    _class("sasl.login.callback.handler.class", None),
    _class("sasl.login.class", None),
    _int("sasl.login.connect.timeout.ms", None, importance=LOW),
    _int("sasl.login.read.timeout.ms", None, importance=LOW),
    _short("sasl.login.refresh.buffer.seconds", 300),
    _short("sasl.login.refresh.min.period.seconds", 60),
    _double("sasl.login.refresh.window.factor", 0.8),
    _double("sasl.login.refresh.window.jitter", 0.05),
    _long("sasl.login.retry.backoff.max.ms", 10000, importance=LOW),
    _long("sasl.login.retry.backoff.ms", 100, importance=LOW),
    _text("sasl.oauthbearer.assertion.algorithm", "RS256"),
    _text("sasl.oauthbearer.assertion.claim.aud", None),
    _int("sasl.oauthbearer.assertion.claim.exp.seconds", 300, low=0, high=86400, importance=LOW),
    _text("sasl.oauthbearer.assertion.claim.iss", None),
    _bool("sasl.oauthbearer.assertion.claim.jti.include", False),
    _int("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, low=0, high=3600, importance=LOW),
    _text("sasl.oauthbearer.assertion.claim.sub", None),
    _text("sasl.oauthbearer.assertion.file", None),
    _text("sasl.oauthbearer.assertion.private.key.file", None),
    _secret("sasl.oauthbearer.assertion.private.key.passphrase", None),
    _text("sasl.oauthbearer.assertion.template.file", None),
    _text("sasl.oauthbearer.client.credentials.client.id", None),
    _secret("sasl.oauthbearer.client.credentials.client.secret", None),
    _int("sasl.oauthbearer.clock.skew.seconds", 30, importance=LOW),
    _list("sasl.oauthbearer.expected.audience", (), importance=HIGH),
    _text("sasl.oauthbearer.expected.issuer", None, importance=HIGH),
    _long("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3600000, importance=LOW),
    _long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10000, importance=LOW),
    _long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, importance=LOW),
    _text("sasl.oauthbearer.jwks.endpoint.url", None),
    _class("sasl.oauthbearer.jwt.retriever.class", "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"),
    _class("sasl.oauthbearer.jwt.validator.class", "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"),
    _text("sasl.oauthbearer.scope", None),
    _text("sasl.oauthbearer.scope.claim.name", "scope", importance=LOW),
    _text("sasl.oauthbearer.sub.claim.name", "sub", importance=LOW),
    _text("sasl.oauthbearer.token.endpoint.url", None),
    _class("sasl.server.callback.handler.class", None),
    _long("delegation.token.expiry.check.interval.ms", 3600000, low=1, importance=LOW),
    _long("delegation.token.expiry.time.ms", 86400000, low=1),
    _long("delegation.token.max.lifetime.ms", 604800000, low=1),
    _secret("delegation.token.secret.key", None),
    _class("principal.builder.class", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
    _text("security.providers", None, importance=LOW),
)

SSL = _without_effect(
    "Details of the Java TLS framework.",
    _bool("ssl.allow.dn.changes", False, importance=LOW),
    _bool("ssl.allow.san.changes", False, importance=LOW),
    _list("ssl.cipher.suites", ()),
    _text("ssl.endpoint.identification.algorithm", "https", importance=LOW),
    _class("ssl.engine.factory.class", None, importance=LOW),
    _text("ssl.keymanager.algorithm", "SunX509"),
    _text("ssl.principal.mapping.rules", "DEFAULT", importance=LOW),
    _text("ssl.provider", None),
    _text("ssl.secure.random.implementation", None, importance=LOW),
    _text("ssl.trustmanager.algorithm", "PKIX"),
)

QUOTAS = _without_effect(
    "Quota windows of the Java quota framework.",
    _int("replication.quota.window.num", 11, low=1, importance=LOW),
    _int("replication.quota.window.size.seconds", 1, low=1, importance=LOW),
    _class("alter.config.policy.class.name", None, importance=LOW),
    _int("alter.log.dirs.replication.quota.window.num", 11, low=1, importance=LOW),
    _int("alter.log.dirs.replication.quota.window.size.seconds", 1, low=1, importance=LOW),
    _long("controller.performance.always.log.threshold.ms", 2000, low=0, internal=True),
    _long("controller.performance.sample.period.ms", 60000, low=100, internal=True),
    _class("client.quota.callback.class", None, importance=LOW),
)

PROCESS = _without_effect(
    "Threads, plug-ins and purgatories of the Java process, which has no counterpart here.",
    _text("authorizer.class.name", "", importance=LOW),
    _int("background.threads", 10, low=1, importance=HIGH),
    _list("config.providers", (), importance=LOW),
    _list("cordoned.log.dirs", ()),
    _class("create.topic.policy.class.name", None, importance=LOW),
    _int("delete.records.purgatory.purge.interval.requests", 1),
    _list("early.start.listeners", None, importance=HIGH),
    _int("fetch.purgatory.purge.interval.requests", 1000),
    _long("internal.metadata.delete.delay.millis", 60000, importance=LOW, internal=True),
    _int("kafka.metrics.polling.interval.secs", 10, low=1, importance=LOW),
    _list("kafka.metrics.reporters", (), importance=LOW),
    _long("log.local.retention.bytes", -2, low=-2),
    _long("log.local.retention.ms", -2, low=-2),
    _list("metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",), importance=LOW),
    _int("metrics.num.samples", 2, low=1, importance=LOW),
    _text("metrics.recording.level", "INFO", importance=LOW),
    _long("metrics.sample.window.ms", 30000, low=1, importance=LOW),
    _int("num.io.threads", 8, low=1, importance=HIGH),
    _int("num.network.threads", 3, low=1, importance=HIGH),
    _int("num.replica.alter.log.dirs.threads", None, importance=HIGH),
    _int("producer.purgatory.purge.interval.requests", 1000),
    _long("server.max.startup.time.ms", LONG_MAX, low=0, internal=True),
    _int("telemetry.max.bytes", 1048576, low=1, importance=LOW),
    _bool("unstable.api.versions.enable", False, importance=HIGH, internal=True),
    _bool("unstable.feature.versions.enable", False, importance=HIGH, internal=True),
)
# fmt: on

INERT_KEYS: dict[str, ConfigKey] = {
    **TIERED,
    **SHARE,
    **NEWER_GROUPS,
    **TRANSACTIONS,
    **SASL,
    **SSL,
    **QUOTAS,
    **PROCESS,
}
