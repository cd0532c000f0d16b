"""A producer's properties, as Kafka names them: numbers, acks, codecs; wrong ones are refused with Kafka's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.admin.classic.client_keys import KAFKA_ERROR as KAFKA_ERROR
from moldau.admin.classic.client_keys import PRODUCER, demand_classes, demand_values
from moldau.admin.classic.java import CONFIG_ERROR, JavaError
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.wire.compression import Codec

CODECS = {codec.name.lower(): codec for codec in Codec}
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
LINGER_MS, BATCH_BYTES, BUFFER_BYTES, REQUEST_BYTES = 5, 16_384, 32 << 20, 1 << 20
"""The defaults of Kafka 4.3.1's producer."""
IN_FLIGHT_MAX = 5
_BATCH_OVERHEAD, _RECORD_OVERHEAD = 61, 21
NO_PRODUCER = "Failed to construct kafka producer"


def acks_of(properties: Mapping[str, str], default: str = "all") -> int:
    """How many replicas are waited for: 0, 1 or -1."""
    return ACKS[properties.get("acks", default).strip()]


def codec_of(properties: Mapping[str, str]) -> Codec:
    """How batches are compressed."""
    return CODECS[properties.get("compression.type", "none").strip()]


def number_of(properties: Mapping[str, str], key: str, default: int) -> int:
    """A whole number."""
    return int(properties.get(key, default))


def demand_consistent(properties: Mapping[str, str]) -> None:
    """JavaError where Kafka's producer would not start: for a value, or as one property does not go with another."""
    demand_values(PRODUCER, properties)
    idempotent = properties.get("enable.idempotence")
    wanted = idempotent is None or idempotent.strip().lower() == "true"
    disabling = {
        "Must set retries to non-zero when using the idempotent producer.": number_of(properties, "retries", 1) == 0,
        "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence.": (
            acks_of(properties) != -1
        ),
    }
    against = [why for why, holds in disabling.items() if wanted and holds]
    if idempotent is not None and against:
        raise JavaError(CONFIG_ERROR, against[0])
    in_flight = number_of(properties, "max.in.flight.requests.per.connection", 5)
    if wanted and in_flight > IN_FLIGHT_MAX:
        why = "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most 5."
        raise JavaError(CONFIG_ERROR, f"{why} Current value is {in_flight}.")
    if "transactional.id" in properties and (against or not wanted):
        raise JavaError(CONFIG_ERROR, "Cannot set a transactional.id without also enabling idempotence.")
    demand_classes(properties, no_producer)
    request_ms = number_of(properties, "request.timeout.ms", 30_000)
    least_ms = min(number_of(properties, "linger.ms", LINGER_MS) + request_ms, (1 << 31) - 1)
    if "delivery.timeout.ms" in properties and number_of(properties, "delivery.timeout.ms", 0) < least_ms:
        why = "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        raise no_producer(JavaError(CONFIG_ERROR, why))


def demand_size(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]], most: int) -> None:
    """JavaError for a record that may be larger in a batch of its own than ``max.request.size``."""
    size = _BATCH_OVERHEAD + _RECORD_OVERHEAD + _varint_size(len(headers)) + _size(key) + _size(value)
    size += sum(_size(name.encode()) + _size(data) for name, data in headers)
    if size > most:
        why = f"The message is {size} bytes when serialized which is larger than {most}"
        what = f"{why}, which is the value of the max.request.size configuration."
        raise JavaError(f"{PACKAGE}RecordTooLargeException", what)


def _size(data: bytes | None) -> int:
    """How many bytes a key or a value takes in a record: its length, and that in a number of varying size."""
    return 1 if data is None else _varint_size(len(data)) + len(data)


def _varint_size(number: int) -> int:
    return max(1, -(-(number << 1).bit_length() // 7))


def no_producer(why: JavaError) -> JavaError:
    """Kafka's producer would not start."""
    return JavaError(KAFKA_ERROR, NO_PRODUCER, why)
