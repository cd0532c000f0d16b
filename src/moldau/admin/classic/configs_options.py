"""The options of kafka-configs.sh, as Apache Kafka 4.3.1 words them. Which go together: configs_entities.py."""

from __future__ import annotations

from moldau.admin.classic.options import Option
from moldau.admin.classic.topic_keys import TOPIC_KEYS

OPTIONS = (
    Option(
        "add-config",
        "Key Value pairs of configs to add. Square brackets can be used to group values which contain "
        "commas: 'k1=v1,k2=[v1,v2,v2],k3=v3'. The following is a list of valid configurations: For "
        "entity-type 'topics': \n\t" + TOPIC_KEYS + "\nFor entity-type 'brokers': \n\tbackground.threads\n\t"
        "compression.gzip.level\n\tcompression.lz4.level\n\tcompression.type\n\tcompression.zstd.level\n\t"
        "config.providers\n\tcordoned.log.dirs\n\tfollower.fetch.last.tiered.offset.enable\n\t"
        "follower.replication.throttled.rate\n\tgroup.consumer.assignment.interval.ms\n\t"
        "group.coordinator.cached.buffer.max.bytes\n\tgroup.share.assignment.interval.ms\n\t"
        "group.streams.assignment.interval.ms\n\tleader.replication.throttled.rate\n\t"
        "listener.security.protocol.map\n\tlisteners\n\tlog.cleaner.backoff.ms\n\t"
        "log.cleaner.dedupe.buffer.size\n\tlog.cleaner.delete.retention.ms\n\t"
        "log.cleaner.io.buffer.load.factor\n\tlog.cleaner.io.buffer.size\n\t"
        "log.cleaner.io.max.bytes.per.second\n\tlog.cleaner.max.compaction.lag.ms\n\t"
        "log.cleaner.min.cleanable.ratio\n\tlog.cleaner.min.compaction.lag.ms\n\tlog.cleaner.threads\n\t"
        "log.cleanup.policy\n\tlog.flush.interval.messages\n\tlog.flush.interval.ms\n\t"
        "log.index.interval.bytes\n\tlog.index.size.max.bytes\n\tlog.local.retention.bytes\n\t"
        "log.local.retention.ms\n\tlog.message.timestamp.after.max.ms\n\t"
        "log.message.timestamp.before.max.ms\n\tlog.message.timestamp.type\n\tlog.preallocate\n\t"
        "log.retention.bytes\n\tlog.retention.ms\n\tlog.roll.jitter.ms\n\tlog.roll.ms\n\t"
        "log.segment.bytes\n\tlog.segment.delete.delay.ms\n\tmax.connection.creation.rate\n\t"
        "max.connections\n\tmax.connections.per.ip\n\tmax.connections.per.ip.overrides\n\t"
        "message.max.bytes\n\tmetric.reporters\n\tmin.insync.replicas\n\tnum.io.threads\n\t"
        "num.network.threads\n\tnum.recovery.threads.per.data.dir\n\tnum.replica.fetchers\n\t"
        "principal.builder.class\n\tproducer.id.expiration.ms\n\tremote.fetch.max.wait.ms\n\t"
        "remote.list.offsets.request.timeout.ms\n\tremote.log.index.file.cache.total.size.bytes\n\t"
        "remote.log.manager.copier.thread.pool.size\n\tremote.log.manager.copy.max.bytes.per.second\n\t"
        "remote.log.manager.expiration.thread.pool.size\n\t"
        "remote.log.manager.fetch.max.bytes.per.second\n\tremote.log.manager.follower.thread.pool.size\n\t"
        "remote.log.reader.threads\n\treplica.alter.log.dirs.io.max.bytes.per.second\n\t"
        "sasl.enabled.mechanisms\n\tsasl.jaas.config\n\tsasl.kerberos.kinit.cmd\n\t"
        "sasl.kerberos.min.time.before.relogin\n\tsasl.kerberos.principal.to.local.rules\n\t"
        "sasl.kerberos.service.name\n\tsasl.kerberos.ticket.renew.jitter\n\t"
        "sasl.kerberos.ticket.renew.window.factor\n\tsasl.login.refresh.buffer.seconds\n\t"
        "sasl.login.refresh.min.period.seconds\n\tsasl.login.refresh.window.factor\n\t"
        "sasl.login.refresh.window.jitter\n\tsasl.mechanism.inter.broker.protocol\n\t"
        "share.coordinator.cached.buffer.max.bytes\n\tssl.cipher.suites\n\tssl.client.auth\n\t"
        "ssl.enabled.protocols\n\tssl.endpoint.identification.algorithm\n\tssl.engine.factory.class\n\t"
        "ssl.key.password\n\tssl.keymanager.algorithm\n\tssl.keystore.certificate.chain\n\t"
        "ssl.keystore.key\n\tssl.keystore.location\n\tssl.keystore.password\n\tssl.keystore.type\n\t"
        "ssl.protocol\n\tssl.provider\n\tssl.secure.random.implementation\n\tssl.trustmanager.algorithm\n\t"
        "ssl.truststore.certificates\n\tssl.truststore.location\n\tssl.truststore.password\n\t"
        "ssl.truststore.type\n\ttransaction.partition.verification.enable\n\t"
        "unclean.leader.election.enable\nFor entity-type 'users': \n\tSCRAM-SHA-256\n\tSCRAM-SHA-512\n\t"
        "consumer_byte_rate\n\tcontroller_mutation_rate\n\tproducer_byte_rate\n\trequest_percentage\nFor "
        "entity-type 'clients': \n\tconsumer_byte_rate\n\tcontroller_mutation_rate\n\t"
        "producer_byte_rate\n\trequest_percentage\nFor entity-type 'ips': \n\tconnection_creation_rate\n"
        "For entity-type 'client-metrics': \n\tinterval.ms\n\tmatch\n\tmetrics\nFor entity-type "
        "'groups': \n\tconsumer.assignment.interval.ms\n\tconsumer.heartbeat.interval.ms\n\t"
        "consumer.session.timeout.ms\n\tshare.assignment.interval.ms\n\tshare.auto.offset.reset\n\t"
        "share.delivery.count.limit\n\tshare.heartbeat.interval.ms\n\tshare.isolation.level\n\t"
        "share.partition.max.record.locks\n\tshare.record.lock.duration.ms\n\t"
        "share.renew.acknowledge.enable\n\tshare.session.timeout.ms\n\tstreams.assignment.interval.ms\n\t"
        "streams.heartbeat.interval.ms\n\tstreams.initial.rebalance.delay.ms\n\t"
        "streams.num.standby.replicas\n\tstreams.session.timeout.ms\nEntity types 'users' and 'clients' "
        "may be specified together to update config for clients of a specific user.",
        takes="",
    ),
    Option(
        "add-config-file",
        "Path to a properties file with configs to add. See add-config for a list of valid configurations.",
        takes="",
    ),
    Option("all", "List all configs for the given entity, including static configs if available."),
    Option("alter", "Alter the configuration for the entity."),
    Option("bootstrap-controller", "The Kafka controllers to connect to.", takes="controller to connect to"),
    Option("bootstrap-server", "The Kafka servers to connect to.", takes="server to connect to"),
    Option("broker", "The broker's ID.", takes=""),
    Option("broker-defaults", "The config defaults for all brokers."),
    Option("broker-logger", "The broker's ID for its logger config.", takes=""),
    Option("client", "The client's ID.", takes=""),
    Option("client-defaults", "The config defaults for all clients."),
    Option("client-metrics", "The client metrics config resource name.", takes=""),
    Option(
        "command-config",
        "Property file containing configs to be passed to Admin Client. This is used only with "
        "--bootstrap-server option for describing and altering broker configs.",
        takes="command config property file",
    ),
    Option("delete-config", "config keys to remove 'k1,k2'", takes="", repeats_with=","),
    Option("describe", "List configs for the given entity."),
    Option(
        "entity-default",
        "Default entity name for clients/users/brokers/ips (applies to corresponding entity type)",
    ),
    Option(
        "entity-name",
        "Name of entity (topic name/client id/user principal name/broker id/ip/client metrics/group id)",
        takes="",
    ),
    Option(
        "entity-type",
        "Type of entity (topics/clients/users/brokers/broker-loggers/ips/client-metrics/groups)",
        takes="",
    ),
    Option("group", "The group's ID.", takes=""),
    Option("ip", "The IP address.", takes=""),
    Option("ip-defaults", "The config defaults for all IPs."),
    Option("topic", "The topic's name.", takes=""),
    Option("user", "The user's principal name.", takes=""),
    Option("user-defaults", "The config defaults for all users."),
)
