"""Which values the properties of Kafka's clients take: types, bounds and choices, and the words that refuse others.

Also keys that change nothing here are judged, so that a value that Kafka's client would not start with is refused and
not passed over. What one key must be for another's sake is producer_config.py's and consumer_config.py's. Classes and
passwords, and texts that may be anything, are not listed. Source: ConfigDef of the clients of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.admin.classic.java import CONFIG_ERROR, JavaError
from moldau.admin.classic.java_values import java_decimal
from moldau.admin.classic.options import java_integer
from moldau.model.named import NamedTuple

PRODUCER, CONSUMER, ADMIN = "P", "C", "A"

_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
_KEYS = """
PCA client.dns.lookup one-of use_all_dns_ips resolve_canonical_bootstrap_servers_only
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
PCA retry.backoff.max.ms LONG 0
PCA enable.metrics.push BOOLEAN
P max.block.ms LONG 0
PCA request.timeout.ms INT 0
PCA metadata.max.age.ms LONG 0
P metadata.max.idle.ms LONG 5000
PCA metrics.sample.window.ms LONG 0
PCA metrics.num.samples INT 1
PCA metrics.recording.level one-of INFO DEBUG TRACE
P max.in.flight.requests.per.connection INT 1
PCA socket.connection.setup.timeout.ms LONG
PCA socket.connection.setup.timeout.max.ms LONG
PCA connections.max.idle.ms LONG
PCA security.protocol one-whatever-case SASL_SSL PLAINTEXT SSL SASL_PLAINTEXT
PCA sasl.kerberos.ticket.renew.window.factor DOUBLE
PCA sasl.kerberos.ticket.renew.jitter DOUBLE
PCA sasl.kerberos.min.time.before.relogin LONG
PCA sasl.login.refresh.window.factor DOUBLE 0.5 1.0
PCA sasl.login.refresh.window.jitter DOUBLE 0.0 0.25
PCA sasl.login.refresh.min.period.seconds SHORT 0 900
PCA sasl.login.refresh.buffer.seconds SHORT 0 3600
PCA sasl.login.connect.timeout.ms INT
PCA sasl.login.read.timeout.ms INT
PCA sasl.login.retry.backoff.max.ms LONG
PCA sasl.login.retry.backoff.ms LONG
PCA sasl.oauthbearer.assertion.algorithm one-whatever-case ES256 RS256
PCA sasl.oauthbearer.assertion.claim.exp.seconds INT 0 86400
PCA sasl.oauthbearer.assertion.claim.jti.include BOOLEAN
PCA sasl.oauthbearer.assertion.claim.nbf.seconds INT 0 3600
PCA sasl.oauthbearer.jwks.endpoint.refresh.ms LONG
PCA sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG
PCA sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG
PCA sasl.oauthbearer.clock.skew.seconds INT
PCA sasl.oauthbearer.header.urlencode BOOLEAN
P enable.idempotence BOOLEAN
P transaction.timeout.ms INT
P transactional.id not-empty
P transaction.two.phase.commit.enable BOOLEAN
PCA metadata.recovery.strategy one-whatever-case REBOOTSTRAP NONE
PCA metadata.recovery.rebootstrap.trigger.ms LONG 0
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


BY_CLIENT: dict[str, list[Key]] = {PRODUCER: [], CONSUMER: [], ADMIN: []}
for _clients, _name, _kind, *_values in map(str.split, _KEYS.split("\n")[1:-1]):
    for _client in _clients:
        BY_CLIENT[_client].append(Key(_name, _kind, tuple(_values)))


def demand_values(client: str, properties: Mapping[str, str]) -> None:
    """JavaError for the first value that Kafka's client does not take; ``client``: PRODUCER, CONSUMER or ADMIN."""
    split_servers("bootstrap.servers", properties.get("bootstrap.servers", ""))
    for key in BY_CLIENT[client]:
        text = properties.get(key.name)
        if text is not None:
            shown, why = _judged(key, text)
            if why is not None:
                raise JavaError(CONFIG_ERROR, f"Invalid value {shown} for configuration {key.name}: {why}")


def split_servers(key: str, text: str) -> list[str]:
    """The servers of a list; JavaError where one of several is empty."""
    servers = [one.strip() for one in text.split(",")] if text.strip() else []
    if not all(servers):
        raise JavaError(CONFIG_ERROR, f"Configuration '{key}' values must not be empty.")
    return servers


def _judged(key: Key, given: str) -> tuple[str, str | None]:
    """The value as a refusal shows it, and why it is refused."""
    text = given.strip()
    if key.kind == "BOOLEAN":
        is_one = text.lower() in ("true", "false")
        return given, None if is_one else "Expected value to be either true or false"
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
