"""The options of kafka-configs.sh as Apache Kafka 2.8.2 words them: what --zookeeper goes with."""

from __future__ import annotations

from moldau.admin.classic.options import Option
from moldau.admin.classic.zookeeper_topics_options import KEYS

BROKER_KEYS = (
    "advertised.listeners",
    "background.threads",
    "compression.type",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "listener.security.protocol.map",
    "listeners",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleaner.threads",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.message.downconversion.enable",
    "log.message.timestamp.difference.max.ms",
    "log.message.timestamp.type",
    "log.preallocate",
    "log.retention.bytes",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "message.max.bytes",
    "metric.reporters",
    "min.insync.replicas",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "principal.builder.class",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.mechanism.inter.broker.protocol",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "unclean.leader.election.enable",
)
"""What a running broker of 2.8.2 can be configured with."""
RATES = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LISTS = {
    "topics": KEYS,
    "brokers": BROKER_KEYS,
    "users": (*SCRAM, *RATES),
    "clients": RATES,
    "ips": ("connection_creation_rate",),
}
_TLS = (
    "clientCnxnSocket",
    "ssl.cipher.suites",
    "ssl.client.enable",
    "ssl.crl.enable",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.ocsp.enable",
    "ssl.protocol",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)

OPTIONS = (
    Option(
        "add-config",
        "Key Value pairs of configs to add. Square brackets can be used to group values which contain commas: "
        "'k1=v1,k2=[v1,v2,v2],k3=v3'. The following is a list of valid configurations: "
        + "".join(f"For entity-type '{kind}': \n\t" + "\n\t".join(keys) + "\n" for kind, keys in _LISTS.items())
        + "Entity types 'users' and 'clients' may be specified together to update config for clients of a specific "
        "user.",
        takes="",
    ),
    Option(
        "add-config-file",
        "Path to a properties file with configs to add. See add-config for a list of valid configurations.",
        takes="",
    ),
    Option(
        "all",
        "List all configs for the given topic, broker, or broker-logger entity (includes static configuration when "
        "the entity type is brokers)",
    ),
    Option("alter", "Alter the configuration for the entity."),
    Option(
        "bootstrap-server",
        "The Kafka server to connect to. This is required for describing and altering broker configs.",
        takes="server to connect to",
    ),
    Option("broker", "The broker's ID.", takes=""),
    Option("broker-defaults", "The config defaults for all brokers."),
    Option("broker-logger", "The broker's ID for its logger config.", takes=""),
    Option("client", "The client's ID.", takes=""),
    Option("client-defaults", "The config defaults for all clients."),
    Option(
        "command-config",
        "Property file containing configs to be passed to Admin Client. This is used only with --bootstrap-server "
        "option for describing and altering broker configs.",
        takes="command config property file",
    ),
    Option("delete-config", "config keys to remove 'k1,k2'", takes="", repeats_with=","),
    Option("describe", "List configs for the given entity."),
    Option(
        "entity-default",
        "Default entity name for clients/users/brokers/ips (applies to corresponding entity type in command line)",
    ),
    Option("entity-name", "Name of entity (topic name/client id/user principal name/broker id/ip)", takes=""),
    Option("entity-type", "Type of entity (topics/clients/users/brokers/broker-loggers/ips)", takes=""),
    Option("force", "Suppress console prompts"),
    Option("ip", "The IP address.", takes=""),
    Option("ip-defaults", "The config defaults for all IPs."),
    Option("topic", "The topic's name.", takes=""),
    Option("user", "The user's principal name.", takes=""),
    Option("user-defaults", "The config defaults for all users."),
    Option(
        "zk-tls-config-file",
        "Identifies the file where ZooKeeper client TLS connectivity properties are defined.  Any properties other "
        "than " + ", ".join(f"zookeeper.{name}" for name in _TLS) + " are ignored.",
        takes="ZooKeeper TLS configuration",
    ),
    Option(
        "zookeeper",
        "DEPRECATED. The connection string for the zookeeper connection in the form host:port. Multiple URLS can be "
        "given to allow fail-over. Replaced by --bootstrap-server, REQUIRED unless --bootstrap-server is given.",
        takes="urls",
    ),
)
