"""The keys of server.properties: name, type, default, bounds, importance, one line of doc.

A pure table, from which the configuration reference is generated. Names, types, defaults and bounds are those of Apache
Kafka 4.3 (the same file starts either); the words are ours. Keys that Kafka knows and Moldau has no use for are in
``broker_config_inert.py``; of those here, ``_NOT_LOOKED_AT`` names the ones that nothing hangs on. Both are accepted
and checked, and documented as without effect. A key in neither is unknown: a warning names it.
``BROKER_KEYS`` is both together. Read next: ``config_key.py``, ``moldau.broker`` (the settings of a node).
"""

from __future__ import annotations

from functools import partial

from moldau.model.broker_config_inert import INERT_KEYS
from moldau.model.config_key import INT_MAX, LONG_MAX, ConfigKey, Kind, table
from moldau.model.topic_config import TOPIC_KEYS

HIGH, LOW = "HIGH", "LOW"
_HOUR_MS = 3_600_000

_bool = partial(ConfigKey, kind=Kind.BOOLEAN)
_text = partial(ConfigKey, kind=Kind.STRING)
_int = partial(ConfigKey, kind=Kind.INT)
_short = partial(ConfigKey, kind=Kind.SHORT)
_long = partial(ConfigKey, kind=Kind.LONG)
_double = partial(ConfigKey, kind=Kind.DOUBLE)
_list = partial(ConfigKey, kind=Kind.LIST)
_secret = partial(ConfigKey, kind=Kind.PASSWORD)

# A table reads best one key after the other, so the formatter is kept out of it.
# fmt: off
IDENTITY = table(
    _list("process.roles", default=None, required=True, one_of=("broker", "controller"), importance=HIGH,
          doc="What this node is: broker, controller, or both."),
    _int("node.id", default=None, required=True, low=0, importance=HIGH,
         doc="This node's number, unique in the cluster."),
    _int("broker.id", default=-1, importance=HIGH,
         doc="Older name of node.id; must agree with it if both are given."),
    _text("broker.rack", default=None,
          doc="Rack or zone of this broker; replicas spread over racks."),
    _list("log.dir", default=("/tmp/kafka-logs",), importance=HIGH,
          doc="Data folder, used when log.dirs is not given."),
    _list("log.dirs", default=None, importance=HIGH,
          doc="Data folders; one that fails takes only its own partitions offline."),
    _text("metadata.log.dir", default=None, importance=HIGH,
          doc="Folder of the metadata log; the first of log.dirs when not set. A start is refused while a metadata log"
              " stands in another of log.dirs."),
)

ZOOKEEPER = table(
    _text("zookeeper.connect", default=None, importance=HIGH,
          doc="ZooKeeper's servers: host:port,... and maybe /chroot. With it, and no process.roles: ZooKeeper mode."),
    _int("zookeeper.session.timeout.ms", default=18_000, low=1, importance=HIGH,
         doc="How long ZooKeeper waits for a silent broker before it takes it for dead."),
    _int("zookeeper.connection.timeout.ms", default=None, low=1, importance=HIGH,
         doc="How long a start waits for ZooKeeper; the session's time when not set."),
    _bool("zookeeper.metadata.migration.enable", default=False, importance=HIGH,
          doc="Whether this broker, or this controller, takes part in the move from ZooKeeper to the quorum."),
)

QUORUM = table(
    _list("controller.listener.names", default=None, required=True, importance=HIGH,
          doc="Listeners that speak to controllers; a controller listens on the first."),
    _list("controller.quorum.voters", default=(), importance=HIGH,
          doc="The voters, as id@host:port, separated by commas."),
    _list("controller.quorum.bootstrap.servers", default=(), importance=HIGH,
          doc="Addresses (host:port) through which a node finds the quorum when no voters are listed."),
    _bool("controller.quorum.auto.join.enable", default=False, importance=LOW,
          doc="Whether a new controller joins the voters itself."),
    _int("controller.quorum.election.timeout.ms", default=1000, low=0, importance=HIGH,
         doc="How long a candidate waits for votes before it tries again."),
    _int("controller.quorum.election.backoff.max.ms", default=1000, low=0, importance=HIGH,
         doc="The longest random pause between two attempts of a candidate."),
    _int("controller.quorum.fetch.timeout.ms", default=2000, low=0, importance=HIGH,
         doc="Silence after which a follower stands for election, and a leader resigns."),
    _int("controller.quorum.append.linger.ms", default=25, low=0,
         doc="The longest the leader gathers metadata; Moldau writes once per loop turn instead."),
    _int("controller.quorum.request.timeout.ms", default=2000, low=0,
         doc="Patience of one request between quorum members."),
    _int("controller.quorum.retry.backoff.ms", default=20, low=0, importance=LOW,
         doc="Pause before a quorum request is tried again."),
    _int("controller.quorum.fetch.max.bytes", default=1_048_576, low=1, importance=LOW,
         doc="The most one metadata fetch brings."),
    _int("controller.quorum.fetch.snapshot.max.bytes", default=1_048_576, low=1, importance=LOW,
         doc="The most one snapshot fetch brings."),
    _int("broker.heartbeat.interval.ms", default=2000, doc="Time between a broker's heartbeats to the controller."),
    _int("broker.session.timeout.ms", default=9000, doc="Silence after which the controller fences a broker."),
    _int("initial.broker.registration.timeout.ms", default=60_000,
         doc="How long a starting broker tries to register before it gives up and exits."),
    _long("metadata.log.max.record.bytes.between.snapshots", default=20_971_520, low=1, importance=HIGH,
          doc="Metadata written since the last snapshot that makes the next one due."),
    _long("metadata.log.max.snapshot.interval.ms", default=_HOUR_MS, low=0, importance=HIGH,
          doc="Age of uncovered metadata that makes a snapshot due; 0 turns this trigger off."),
    _int("metadata.log.segment.bytes", default=1_073_741_824, low=8_388_608, importance=HIGH,
         doc="Segment size of the metadata log."),
    _long("metadata.log.segment.ms", default=168 * _HOUR_MS, importance=HIGH,
          doc="Age at which a metadata segment is closed."),
    _long("metadata.max.retention.bytes", default=104_857_600, importance=HIGH,
          doc="Size of the metadata log and its snapshots above which the oldest go; two snapshots stay."),
    _long("metadata.max.retention.ms", default=168 * _HOUR_MS, importance=HIGH,
          doc="Age above which snapshots, and the metadata below the next one, go; two snapshots stay."),
    _int("metadata.max.idle.interval.ms", default=500, low=0, importance=LOW,
         doc="How often the active controller writes a no-op when nothing happens, so that lag can be seen; 0 never."),
    _int("internal.metadata.log.segment.bytes", default=None, internal=True, importance=LOW,
         doc="Metadata segment size below the public minimum; for tests."),
    _int("internal.metadata.max.batch.size.in.bytes", default=8_388_608, internal=True, importance=LOW,
         doc="Largest metadata batch; for tests."),
)

LOGGERS = table(
    _text("logger.level", default="INFO", importance=LOW,
          doc="Level of the node's log at its start, or LOGGER=LEVEL with commas between: FATAL, ERROR, WARN, INFO, "
              "DEBUG, TRACE. `--log-level` and MOLDAU_LOG_LEVEL go before it."),
    _int("logger.file.max.bytes", default=16_777_216, low=65_536, importance=LOW,
         doc="Size of server.log, controller.log, state-change.log and state-change.jsonl at which the next begins."),
    _int("logger.file.max.age.hours", default=0, low=0, importance=LOW,
         doc="Age of each of these logs at which the next begins, however small it is; 0 is never."),
    _bool("logger.state.change.stdout", default=False, importance=LOW,
          doc="Whether the lines of state-change.log are written to standard output too."),
    _int("logger.max.files", default=5, low=1, high=1000, importance=LOW,
         doc="Files kept of each of these logs, the one that is written included; the older are NAME.1, NAME.2 ..."),
)

NETWORK = table(
    _list("listeners", default=("PLAINTEXT://:9092",), importance=HIGH,
          doc="Where to listen: name://host:port each. An empty host is loopback."),
    _text("http.listener", default=None, importance=LOW,
          doc="host:port of the node's own pages: /metrics, /livez, /readyz, /healthz, /safe-to-restart, /debug."),
    _list("advertised.listeners", default=None, importance=HIGH,
          doc="Addresses told to clients; the listeners when not set."),
    _text("listener.security.protocol.map", importance=LOW, doc="Which security protocol each listener name speaks.",
          default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"),
    _text("inter.broker.listener.name", default=None, doc="Listener that brokers use among themselves."),
    _text("security.inter.broker.protocol", default="PLAINTEXT", one_of=("PLAINTEXT", "SSL",
          "SASL_PLAINTEXT", "SASL_SSL"),
          doc="Protocol between brokers when inter.broker.listener.name is not set."),
    _int("socket.send.buffer.bytes", default=102_400, importance=HIGH,
         doc="SO_SNDBUF of client connections; -1 is the system's."),
    _int("socket.receive.buffer.bytes", default=102_400, importance=HIGH,
         doc="SO_RCVBUF of client connections; -1 is the system's."),
    _int("socket.request.max.bytes", default=104_857_600, low=1, importance=HIGH,
         doc="The largest request taken; a larger one is refused before memory is."),
    _int("socket.listen.backlog.size", default=50, low=1, doc="Connections waiting to be accepted."),
    _long("socket.connection.setup.timeout.ms", default=10_000, doc="Patience for one connection to be made."),
    _long("socket.connection.setup.timeout.max.ms", default=30_000, doc="Patience grows up to this after failures."),
    _int("queued.max.requests", default=500, low=1, importance=HIGH,
         doc="Long requests that are worked on at a time; above, no connection's next request is begun."),
    _long("queued.max.request.bytes", default=-1,
          doc="Bytes of requests not handled yet above which large ones wait for memory, and, beside these, bytes of"
              " fetches that wait for records, above which who has one waits; -1 is 48 MB."),
    _int("max.connections", default=INT_MAX, low=0, doc="Connections a node takes at a time."),
    _int("max.connections.per.ip", default=INT_MAX, low=0, doc="Connections a node takes from one address."),
    _text("max.connections.per.ip.overrides", default="", doc="Exceptions to max.connections.per.ip, as host:count."),
    _int("max.connection.creation.rate", default=INT_MAX, low=0, doc="New connections a second, at most."),
    _long("connections.max.idle.ms", default=600_000,
          doc="A connection whose client says nothing for this long, and waits for nothing, is closed; below 0 never."),
    _int("request.timeout.ms", default=30_000, importance=HIGH, doc="Patience of a request that this node sends."),
)

LOG = table(
    _int("num.partitions", default=1, low=1, doc="Partitions of a topic created without a number."),
    _int("default.replication.factor", default=1, doc="Replicas of a topic created without a number."),
    _bool("auto.create.topics.enable", default=True, importance=HIGH,
          doc="Whether asking for an unknown topic creates it."),
    _bool("delete.topic.enable", default=True, importance=HIGH, doc="Whether topics can be deleted."),
    _int("log.segment.bytes", default=1_073_741_824, low=1_048_576, low_standing=14, importance=HIGH,
         doc=TOPIC_KEYS["segment.bytes"].doc),
    _int("log.roll.hours", default=168, low=1, importance=HIGH, doc="segment.ms in hours; log.roll.ms wins."),
    _long("log.roll.ms", default=None, importance=HIGH, doc=TOPIC_KEYS["segment.ms"].doc),
    _int("log.roll.jitter.hours", default=0, low=0, importance=HIGH,
         doc="segment.jitter.ms in hours; log.roll.jitter.ms wins."),
    _long("log.roll.jitter.ms", default=None, importance=HIGH, doc=TOPIC_KEYS["segment.jitter.ms"].doc),
    _int("log.retention.hours", default=168, importance=HIGH, doc="retention.ms in hours; minutes and ms win."),
    _int("log.retention.minutes", default=None, importance=HIGH, doc="retention.ms in minutes; log.retention.ms wins."),
    _long("log.retention.ms", default=None, importance=HIGH, doc=TOPIC_KEYS["retention.ms"].doc),
    _long("log.retention.bytes", default=-1, importance=HIGH, doc=TOPIC_KEYS["retention.bytes"].doc),
    _long("log.retention.check.interval.ms", default=300_000, low=1, doc="How often old segments are looked for."),
    _list("log.cleanup.policy", default=("delete",), one_of=("compact", "delete"),
          doc=TOPIC_KEYS["cleanup.policy"].doc),
    _int("log.index.size.max.bytes", default=10_485_760, low=4, doc=TOPIC_KEYS["segment.index.bytes"].doc),
    _int("log.index.interval.bytes", default=4096, low=0, doc=TOPIC_KEYS["index.interval.bytes"].doc),
    _long("log.flush.interval.messages", default=LONG_MAX, low=1, importance=HIGH,
          doc=TOPIC_KEYS["flush.messages"].doc),
    _long("log.flush.interval.ms", default=None, importance=HIGH, doc=TOPIC_KEYS["flush.ms"].doc),
    _long("log.flush.scheduler.interval.ms", default=LONG_MAX, importance=HIGH,
          doc="How often logs due for a flush are looked for."),
    _int("log.flush.offset.checkpoint.interval.ms", default=60_000, low=0, importance=HIGH,
         doc="How often the recovery points are written down."),
    _int("log.flush.start.offset.checkpoint.interval.ms", default=60_000, low=0, importance=HIGH,
         doc="How often the log start offsets are written down."),
    _long("log.segment.delete.delay.ms", default=60_000, low=0, importance=HIGH,
          doc=TOPIC_KEYS["file.delete.delay.ms"].doc),
    _bool("log.preallocate", default=False, doc=TOPIC_KEYS["preallocate"].doc),
    _text("log.message.timestamp.type", default="CreateTime", one_of=("CreateTime", "LogAppendTime"),
          doc=TOPIC_KEYS["message.timestamp.type"].doc),
    _long("log.message.timestamp.before.max.ms", default=LONG_MAX, low=0,
          doc=TOPIC_KEYS["message.timestamp.before.max.ms"].doc),
    _long("log.message.timestamp.after.max.ms", default=_HOUR_MS, low=0,
          doc=TOPIC_KEYS["message.timestamp.after.max.ms"].doc),
    _int("message.max.bytes", default=1_048_588, low=0, importance=HIGH, doc=TOPIC_KEYS["max.message.bytes"].doc),
    _text("compression.type", default="producer", one_of=TOPIC_KEYS["compression.type"].one_of, importance=HIGH,
          doc=TOPIC_KEYS["compression.type"].doc),
    _int("compression.gzip.level", default=-1, low=-1, high=9, doc=TOPIC_KEYS["compression.gzip.level"].doc),
    _int("compression.lz4.level", default=9, low=1, high=17, doc=TOPIC_KEYS["compression.lz4.level"].doc),
    _int("compression.zstd.level", default=3, low=-131072, high=22, doc=TOPIC_KEYS["compression.zstd.level"].doc),
    _int("num.recovery.threads.per.data.dir", default=2, low=1, importance=HIGH,
         doc="Logs of a folder loaded, and recovered, at a time; a start goes by what the file says."),
    _long("log.dir.failure.timeout.ms", default=30_000, low=1, importance=LOW,
          doc="A broker that cannot report a failed folder to the controller for this long stops."),
    _long("log.initial.task.delay.ms", default=30_000, low=0, importance=LOW, internal=True,
          doc="Pause after the start before background work on logs begins."),
    _bool("log.cleaner.enable", default=True, doc="Whether compaction runs."),
    _int("log.cleaner.threads", default=1, low=0, doc="Compactions at a time, each on a thread of its own."),
    _long("log.cleaner.dedupe.buffer.size", default=134_217_728, doc="Memory for the offset map of compaction."),
    _double("log.cleaner.io.buffer.load.factor", default=0.9,
            doc="How full the offset map may get before a pass ends."),
    _int("log.cleaner.io.buffer.size", default=524_288, low=0,
         doc="Bytes that compaction collects before it writes, of all threads together."),
    _double("log.cleaner.io.max.bytes.per.second", default=1.7976931348623157e308, doc="Speed limit of compaction."),
    _long("log.cleaner.backoff.ms", default=15_000, low=0, doc="Pause of compaction when nothing is dirty enough."),
    _double("log.cleaner.min.cleanable.ratio", default=0.5, low=0, high=1,
            doc=TOPIC_KEYS["min.cleanable.dirty.ratio"].doc),
    _long("log.cleaner.delete.retention.ms", default=24 * _HOUR_MS, low=0, doc=TOPIC_KEYS["delete.retention.ms"].doc),
    _long("log.cleaner.min.compaction.lag.ms", default=0, low=0, doc=TOPIC_KEYS["min.compaction.lag.ms"].doc),
    _long("log.cleaner.max.compaction.lag.ms", default=LONG_MAX, low=1, doc=TOPIC_KEYS["max.compaction.lag.ms"].doc),
    _int("producer.id.expiration.ms", default=86_400_000, low=1, importance=LOW,
         doc="An idempotent producer silent for this long is forgotten by the partition."),
    _int("producer.id.expiration.check.interval.ms", default=600_000, low=1, importance=LOW, internal=True,
         doc="How often silent producers are looked for."),
)

REPLICATION = table(
    _int("min.insync.replicas", default=1, low=1, importance=HIGH, doc=TOPIC_KEYS["min.insync.replicas"].doc),
    _bool("unclean.leader.election.enable", default=False, importance=HIGH,
          doc=TOPIC_KEYS["unclean.leader.election.enable"].doc),
    _long("unclean.leader.election.interval.ms", default=300_000, low=1, internal=True,
          doc="How often leaderless partitions that allow an unclean election are looked for."),
    _bool("transaction.partition.verification.enable", default=True, importance=LOW,
          doc="Whether the coordinator of a transaction is asked before its first batch is in a log, also where the"
              " client has told it of the partition itself."),
    _int("add.partitions.to.txn.retry.backoff.ms", default=20, low=1, importance=HIGH,
         doc="How long a transaction coordinator in which the transaction before is ending is left alone."),
    _int("add.partitions.to.txn.retry.backoff.max.ms", default=100, low=0, importance=HIGH,
         doc="For how long it is asked again; then the client tries again."),
    _long("replica.lag.time.max.ms", default=30_000, importance=HIGH,
          doc="A follower that has not caught up with the leader for this long leaves the ISR."),
    _int("num.replica.fetchers", default=1, low=1, importance=HIGH,
         doc="Fetchers per leader broker that replicas are shared among."),
    _int("replica.fetch.max.bytes", default=1_048_576, low=0,
         doc="The most a follower asks of one partition at a time."),
    _int("replica.fetch.wait.max.ms", default=500, importance=HIGH, doc="How long a follower's fetch waits for data."),
    _int("replica.fetch.min.bytes", default=1, importance=HIGH, doc="Data that ends the wait of a follower's fetch."),
    _int("replica.fetch.response.max.bytes", default=10_485_760, low=0,
         doc="The most a follower's whole fetch brings."),
    _int("replica.fetch.backoff.ms", default=1000, low=0, doc="Pause of a partition's fetching after an error."),
    _int("replica.socket.timeout.ms", default=30_000, importance=HIGH, doc="Patience of a follower's fetch."),
    _int("replica.socket.receive.buffer.bytes", default=65_536, importance=HIGH,
         doc="SO_RCVBUF of a follower's connection."),
    _long("replica.high.watermark.checkpoint.interval.ms", default=5000, importance=HIGH,
          doc="How often high watermarks are written down."),
    _text("replica.selector.class", default=None,
          doc="How a reader is sent to a replica near it; a name that ends in RackAwareReplicaSelector goes by rack."),
    _bool("auto.leader.rebalance.enable", default=True, importance=HIGH,
          doc="Whether preferred leaders are restored in the background."),
    _long("leader.imbalance.check.interval.seconds", default=300, low=1, importance=HIGH,
          doc="How often that is looked at."),
    _int("leader.imbalance.per.broker.percentage", default=10, importance=HIGH,
         doc="Share of its preferred partitions led elsewhere that triggers it (Kafka: until 3.9)."),
    _bool("controlled.shutdown.enable", default=True,
          doc="Whether a stopping broker hands its leaderships over first."),
    _int("controlled.shutdown.max.retries", default=3,
         doc="Attempts to hand over before the broker goes anyway (Kafka: until 3.9)."),
    _long("controlled.shutdown.retry.backoff.ms", default=5000, doc="Pause between those attempts (Kafka: until 3.9)."),
    _int("controller.socket.timeout.ms", default=30_000, doc="Patience of a broker's request to the controller."),
    _int("fetch.max.bytes", default=57_671_680, low=1024, doc="The most one fetch brings, whatever the client asked."),
    _int("max.incremental.fetch.session.cache.slots", default=1000, low=0,
         doc="Incremental fetch sessions kept for clients."),
    _int("max.request.partition.size.limit", default=2000, low=1, doc="Partitions in one answer of a paged describe."),
)

GROUPS = table(
    _int("group.min.session.timeout.ms", default=6000, doc="The shortest session a group member may ask for."),
    _int("group.max.session.timeout.ms", default=1_800_000, doc="The longest session a group member may ask for."),
    _int("group.initial.rebalance.delay.ms", default=3000,
         doc="How long a new group waits for more members before it is dealt out."),
    _int("group.max.size", default=INT_MAX, low=1, doc="The most members of one group."),
    _int("offset.metadata.max.bytes", default=4096, importance=HIGH, doc="The longest text beside a committed offset."),
    _int("offsets.commit.timeout.ms", default=5000, low=1, importance=HIGH,
         doc="Patience for a commit to reach all replicas."),
    _int("offsets.load.buffer.size", default=5_242_880, low=1, importance=HIGH,
         doc="Bytes read at a time when groups are loaded."),
    _long("offsets.retention.check.interval.ms", default=600_000, low=1, importance=HIGH,
          doc="How often old offsets are looked for."),
    _int("offsets.retention.minutes", default=10_080, low=1, importance=HIGH,
         doc="An empty group's offsets are kept this long."),
    _int("offsets.topic.num.partitions", default=50, low=1, importance=HIGH,
         doc="Partitions of __consumer_offsets; not to be changed once it is there."),
    _short("offsets.topic.replication.factor", default=3, low=1, importance=HIGH,
           doc="Replicas of __consumer_offsets; shrinks to the number of brokers there are."),
    _int("offsets.topic.segment.bytes", default=104_857_600, low=1, importance=HIGH,
         doc="Segment size of __consumer_offsets."),
)

QUOTAS = table(
    _int("quota.window.num", default=11, low=1, importance=LOW,
         doc="Windows over which the rate of a client is measured."),
    _int("quota.window.size.seconds", default=1, low=1, importance=LOW, doc="Length of one of these windows."),
    _int("controller.quota.window.num", default=11, low=1, importance=LOW,
         doc="Windows whose controller mutations a client may make at once."),
    _int("controller.quota.window.size.seconds", default=1, low=1, importance=LOW,
         doc="Length of one of these windows."),
)

SECURITY = table(
    _text("ssl.client.auth", default="none", one_of=("required", "requested", "none"),
          doc="Whether clients must show a certificate."),
    _text("ssl.keystore.location", default=None, doc="File with this node's key and certificate."),
    _secret("ssl.keystore.password", default=None, doc="Password of the key store."),
    _text("ssl.keystore.type", default="JKS", doc="Format of the key store."),
    _secret("ssl.keystore.key", default=None, doc="Private key as PEM text."),
    _secret("ssl.keystore.certificate.chain", default=None, doc="Certificate chain as PEM text."),
    _secret("ssl.key.password", default=None, doc="Password of the private key."),
    _text("ssl.truststore.location", default=None, doc="File with the certificates that are trusted."),
    _secret("ssl.truststore.password", default=None, doc="Password of the trust store."),
    _text("ssl.truststore.type", default="JKS", doc="Format of the trust store."),
    _secret("ssl.truststore.certificates", default=None, doc="Trusted certificates as PEM text."),
    _text("ssl.protocol", default="TLSv1.3", doc="The TLS version preferred."),
    _list("ssl.enabled.protocols", default=("TLSv1.2", "TLSv1.3"), doc="TLS versions that are spoken."),
    _list("sasl.enabled.mechanisms", default=("GSSAPI",), doc="SASL mechanisms offered."),
    _text("sasl.mechanism.inter.broker.protocol", default="GSSAPI", doc="SASL mechanism between brokers."),
    _text("sasl.mechanism.controller.protocol", default="GSSAPI", importance=HIGH,
          doc="SASL mechanism towards controllers."),
    _secret("sasl.jaas.config", default=None,
            doc="Login of a listener, in JAAS form; per listener and mechanism by prefix."),
    _int("sasl.server.max.receive.size", default=524_288, doc="The largest SASL token taken before a client is known."),
    _long("connections.max.reauth.ms", default=0, doc="A SASL connection must authenticate again after this; 0 never."),
    _int("connection.failed.authentication.delay.ms", default=100, low=0, importance=LOW,
         doc="How long a failed login is kept waiting for its close."),
)
# fmt: on

_NOT_LOOKED_AT = frozenset((
    "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
    "controller.quorum.append.linger.ms", "internal.metadata.max.batch.size.in.bytes",
    "log.flush.start.offset.checkpoint.interval.ms", "log.initial.task.delay.ms", "log.preallocate",
    "metadata.log.segment.ms", "offsets.load.buffer.size", "producer.id.expiration.check.interval.ms",
    "replica.socket.receive.buffer.bytes",
    "replica.socket.timeout.ms", "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    "socket.listen.backlog.size", "socket.receive.buffer.bytes", "socket.send.buffer.bytes", *SECURITY,
))  # fmt: skip
"""Only PLAINTEXT is served, so that nothing of ``SECURITY`` counts. A test holds that every other key is looked at."""


def _as_served(section: dict[str, ConfigKey]) -> dict[str, ConfigKey]:
    return {name: key._replace(effect=key.effect and name not in _NOT_LOOKED_AT) for name, key in section.items()}


SECTIONS: dict[str, dict[str, ConfigKey]] = {
    "Identity": _as_served(IDENTITY),
    "Quorum and controller": _as_served(QUORUM),
    "ZooKeeper": _as_served(ZOOKEEPER),
    "Network": _as_served(NETWORK),
    "Log files of the node": _as_served(LOGGERS),
    "Topics and logs": _as_served(LOG),
    "Replication": _as_served(REPLICATION),
    "Groups": _as_served(GROUPS),
    "Quotas of clients": _as_served(QUOTAS),
    "Security": _as_served(SECURITY),
    "Accepted without effect": INERT_KEYS,
}

BROKER_KEYS: dict[str, ConfigKey] = {name: key for section in SECTIONS.values() for name, key in section.items()}
assert len(BROKER_KEYS) == sum(len(section) for section in SECTIONS.values()), "a key stands in two sections"
