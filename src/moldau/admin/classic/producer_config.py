"""A producer's properties, as Kafka names them: numbers, acks, codecs; wrong ones are refused with Kafka's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.options import java_integer
from moldau.admin.classic.session import CONFIG_ERROR
from moldau.wire.compression import Codec

CODECS = {codec.name.lower(): codec for codec in Codec}
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
LINGER_MS, BATCH_BYTES, BUFFER_BYTES, REQUEST_BYTES = 5, 16_384, 32 << 20, 1 << 20
"""The defaults of Kafka 4.3.1's producer."""


def acks_of(properties: Mapping[str, str], default: str = "all") -> int:
    """How many replicas are waited for: 0, 1 or -1."""
    return ACKS[_known("acks", properties.get("acks", default), ACKS)]


def codec_of(properties: Mapping[str, str]) -> Codec:
    """How batches are compressed."""
    return CODECS[_known("compression.type", properties.get("compression.type", "none"), CODECS)]


_FROM_ZERO = frozenset({"linger.ms", "delivery.timeout.ms", "batch.size", "max.block.ms", "request.timeout.ms"})


def number_of(properties: Mapping[str, str], key: str, default: int) -> int:
    """A whole number."""
    try:
        found = java_integer(properties.get(key, str(default)).strip(), 64)
    except ValueError:
        why = f"Invalid value {properties[key]} for configuration {key}: Not a number of type LONG"
        raise JavaError(CONFIG_ERROR, why) from None
    if found < 0 and key in _FROM_ZERO:
        raise JavaError(CONFIG_ERROR, f"Invalid value {found} for configuration {key}: Value must be at least 0")
    return found


def _known(key: str, text: str, known: Iterable[str]) -> str:
    if text not in known:
        why = f"String must be one of: {', '.join(known)}"
        raise JavaError(CONFIG_ERROR, f"Invalid value {text} for configuration {key}: {why}")
    return text
