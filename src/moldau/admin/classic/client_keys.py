"""Which values the properties of Kafka's clients take: types, bounds and choices, and the words that refuse others.

Also keys that change nothing here are judged, so that a value that Kafka's client would not start with is refused and
not passed over. What one key must be for another's sake is producer_config.py's and consumer_config.py's. Passwords,
texts that may be anything, and serializers, which the tools choose themselves, are not listed. Source: ConfigDef of the
clients of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.admin.classic.java import CONFIG_ERROR, JavaError
from moldau.admin.classic.java_values import java_decimal
from moldau.admin.classic.options import java_integer
from moldau.model.named import NamedTuple

PRODUCER, CONSUMER, ADMIN, VERSIONS = "P", "C", "A", "V"
"""The clients; the last is the one of kafka-broker-api-versions.sh, which knows few keys."""
KAFKA_ERROR = "org.apache.kafka.common.KafkaException"
_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"
_OF_JAVA = ("java.", "javax.", "org.apache.kafka.")
"""How the names of classes begin that Java's tools may have and these have not."""

_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
_KEYS = """
PCAV client.dns.lookup one-of use_all_dns_ips resolve_canonical_bootstrap_servers_only
P buffer.memory LONG 0
PA retries INT 0 2147483647
P acks one-of all -1 0 1
P compression.type one-of none gzip snappy lz4 zstd
P compression.gzip.level INT 1 9 -1
P compression.lz4.level INT 1 17
P compression.zstd.level INT -131072 22
P batch.size INT 0
P partitioner.adaptive.partitioning.enable BOOLEAN
P partitioner.availability.timeout.ms LONG 0
P partitioner.ignore.keys BOOLEAN
P linger.ms LONG 0
P delivery.timeout.ms INT 0
PCA send.buffer.bytes INT -1
PCA receive.buffer.bytes INT -1
P max.request.size INT 0
PCA reconnect.backoff.ms LONG 0
PCA reconnect.backoff.max.ms LONG 0
PCA retry.backoff.ms LONG 0
V retry.backoff.ms LONG
PCA retry.backoff.max.ms LONG 0
PCA enable.metrics.push BOOLEAN
P max.block.ms LONG 0
PCA request.timeout.ms INT 0
V request.timeout.ms INT
PCA metadata.max.age.ms LONG 0
P metadata.max.idle.ms LONG 5000
PCA metrics.sample.window.ms LONG 0
PCA metrics.num.samples INT 1
PCA metrics.recording.level one-of INFO DEBUG TRACE
PCA metric.reporters LIST
P max.in.flight.requests.per.connection INT 1
PCAV socket.connection.setup.timeout.ms LONG
PCAV socket.connection.setup.timeout.max.ms LONG
PCA connections.max.idle.ms LONG
P partitioner.class CLASS
PC interceptor.classes LIST
PCAV security.protocol one-whatever-case SASL_SSL PLAINTEXT SSL SASL_PLAINTEXT
PCAV ssl.cipher.suites LIST
PCAV ssl.enabled.protocols LIST
PCAV ssl.engine.factory.class CLASS
PCAV sasl.kerberos.ticket.renew.window.factor DOUBLE
PCAV sasl.kerberos.ticket.renew.jitter DOUBLE
PCAV sasl.kerberos.min.time.before.relogin LONG
PCAV sasl.login.refresh.window.factor DOUBLE 0.5 1.0
PCAV sasl.login.refresh.window.jitter DOUBLE 0.0 0.25
PCAV sasl.login.refresh.min.period.seconds SHORT 0 900
PCAV sasl.login.refresh.buffer.seconds SHORT 0 3600
PCAV sasl.client.callback.handler.class CLASS
PCAV sasl.login.callback.handler.class CLASS
PCAV sasl.login.class CLASS
PCAV sasl.login.connect.timeout.ms INT
PCAV sasl.login.read.timeout.ms INT
PCAV sasl.login.retry.backoff.max.ms LONG
PCAV sasl.login.retry.backoff.ms LONG
PCAV sasl.oauthbearer.jwt.retriever.class CLASS
PCAV sasl.oauthbearer.jwt.validator.class CLASS
PCAV sasl.oauthbearer.assertion.algorithm one-whatever-case ES256 RS256
PCAV sasl.oauthbearer.assertion.claim.exp.seconds INT 0 86400
PCAV sasl.oauthbearer.assertion.claim.jti.include BOOLEAN
PCAV sasl.oauthbearer.assertion.claim.nbf.seconds INT 0 3600
PCAV sasl.oauthbearer.jwks.endpoint.refresh.ms LONG
PCAV sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG
PCAV sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG
PCAV sasl.oauthbearer.clock.skew.seconds INT
PCAV sasl.oauthbearer.expected.audience LIST
PCAV sasl.oauthbearer.header.urlencode BOOLEAN
P enable.idempotence BOOLEAN
P transaction.timeout.ms INT
P transactional.id not-empty
P transaction.two.phase.commit.enable BOOLEAN
PCA metadata.recovery.strategy one-whatever-case REBOOTSTRAP NONE
PCA metadata.recovery.rebootstrap.trigger.ms LONG 0
PCA config.providers LIST
C group.instance.id not-empty
C session.timeout.ms INT
C heartbeat.interval.ms INT
C enable.auto.commit BOOLEAN
C auto.commit.interval.ms INT 0
C max.partition.fetch.bytes INT 0
C fetch.min.bytes INT 0
C fetch.max.bytes INT 0
C fetch.max.wait.ms INT 0
C check.crcs BOOLEAN
CA default.api.timeout.ms INT 0
C max.poll.records INT 1
C max.poll.interval.ms INT 1
C exclude.internal.topics BOOLEAN
C internal.throw.on.fetch.stable.offset.unsupported BOOLEAN
C isolation.level one-of read_committed read_uncommitted
C allow.auto.create.topics BOOLEAN
C group.protocol one-whatever-case CONSUMER CLASSIC
"""
"""Whose key, its name, its kind; of a number the least, the most, and one more that it may be; else the choices."""


class Key(NamedTuple):
    """A key of a client."""

    name: str
    kind: str
    values: tuple[str, ...]


BY_CLIENT: dict[str, list[Key]] = {PRODUCER: [], CONSUMER: [], ADMIN: [], VERSIONS: []}
for _clients, _name, _kind, *_values in map(str.split, _KEYS.split("\n")[1:-1]):
    for _client in _clients:
        BY_CLIENT[_client].append(Key(_name, _kind, tuple(_values)))


def demand_values(client: str, properties: Mapping[str, str]) -> None:
    """JavaError for the first value that Kafka's client does not take; ``client``: PRODUCER or another of these."""
    split_list("bootstrap.servers", properties.get("bootstrap.servers", ""))
    if client == ADMIN:
        split_list("bootstrap.controllers", properties.get("bootstrap.controllers", ""))
    for key in BY_CLIENT[client]:
        text = properties.get(key.name)
        if text is None:
            continue
        if key.kind == "LIST":
            split_list(key.name, text)
            continue
        shown, why = _judged(key, text)
        if why is not None:
            raise JavaError(CONFIG_ERROR, f"Invalid value {shown} for configuration {key.name}: {why}")


def demand_classes(properties: Mapping[str, str], failed: Callable[[JavaError], JavaError]) -> None:
    """JavaError for a class that a client would load as it starts, wrapped by ``failed`` where Kafka's client does.

    No class can be loaded here: one that is not there in Java either is refused as Java refuses it, one that may be is
    refused in our words, as without it the client would do something else than what was asked for.
    """
    for key in ("metric.reporters", "partitioner.class", "interceptor.classes"):
        for name in split_list(key, properties.get(key, "")):
            if name == _REPORTER and key == "metric.reporters":
                continue  # measures go to a JVM's management, and change nothing
            if name.startswith(_OF_JAVA):
                raise JavaError(CONFIG_ERROR, f"{key}: Moldau's tools do not load classes of Java, and so not {name}")
            lost = JavaError("java.lang.ClassNotFoundException", name)
            raise failed(JavaError(KAFKA_ERROR, f"Class {name} cannot be found", lost))


def split_list(key: str, text: str) -> list[str]:
    """The values of a list; JavaError where one of several is empty."""
    values = [one.strip() for one in text.split(",")] if text.strip() else []
    if not all(values):
        raise JavaError(CONFIG_ERROR, f"Configuration '{key}' values must not be empty.")
    return values


def _judged(key: Key, given: str) -> tuple[str, str | None]:
    """The value as a refusal shows it, and why it is refused."""
    text = given.strip()
    if key.kind == "BOOLEAN":
        is_one = text.lower() in ("true", "false")
        return given, None if is_one else "Expected value to be either true or false"
    if key.kind == "CLASS":
        return given, None if text.startswith(_OF_JAVA) else f"Class {given} could not be found."
    if key.kind == "not-empty":
        return text, None if text else "String must be non-empty"
    if key.kind == "one-of":
        return text, None if text in key.values else f"String must be one of: {', '.join(key.values)}"
    if key.kind == "one-whatever-case":
        is_one = text.upper() in key.values
        return text, None if is_one else f"String must be one of (case insensitive): {', '.join(key.values)}"
    try:
        number = float(text) if key.kind == "DOUBLE" else java_integer(text, _BITS[key.kind])
    except ValueError:
        return given, f"Not a number of type {key.kind}"
    return java_decimal(number) if isinstance(number, float) else str(number), _out_of_bounds(key, number)


def _out_of_bounds(key: Key, number: float) -> str | None:
    low, high, other = (*key.values, None, None, None)[:3]
    too_low = low is not None and number < float(low)
    too_high = high is not None and number > float(high)
    if other is not None:
        if (too_low or too_high) and number != float(other):
            return f"Value must be between {low} and {high} or equal to {other}"
        return None
    if too_low:
        return f"Value must be at least {low}"
    return f"Value must be no more than {high}" if too_high else None
