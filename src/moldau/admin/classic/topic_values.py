"""Topic configurations as Kafka's tools check them before they ask a broker."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.admin.classic.java import CONFIG_ERROR, JavaError
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.model.config_key import ConfigError, ConfigKey, Kind
from moldau.model.topic_config import TOPIC_KEYS

REPLICAS = (
    "must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


def refuse_bad_values(configs: Mapping[str, str]) -> None:
    """JavaError for a name that no topic has, or a value that its name cannot have."""
    known = {name: key for name, key in TOPIC_KEYS.items() if not key.internal}
    for name in configs:
        if name not in known:
            raise JavaError(f"{PACKAGE}InvalidConfigurationException", f"Unknown topic config name: {name}")
    for name, text in configs.items():
        try:
            known[name].parse(text)
        except ConfigError:
            raise JavaError(CONFIG_ERROR, refusal(known[name], text.strip())) from None
    low, high = "min.compaction.lag.ms", "max.compaction.lag.ms"
    if low in configs and high in configs and int(configs[low]) > int(configs[high]):
        text = f"conflict topic config setting {low} ({configs[low]}) > {high} ({configs[high]})"
        raise JavaError(f"{PACKAGE}InvalidConfigurationException", text)


def refusal(key: ConfigKey, text: str) -> str:
    """Why a key cannot have this value, in Kafka's words."""
    value, why = text, ""
    if key.kind is Kind.LIST:
        value = f"[{', '.join(word.strip() for word in text.split(','))}]"
        why = f"{key.name} {REPLICAS}"
    if key.one_of:
        members = text.split(",") if key.kind is Kind.LIST else [text]
        value = next((word.strip() for word in members if word.strip() not in key.one_of), text)
        why = f"String must be one of: {', '.join(key.one_of)}"
    elif key.kind is Kind.BOOLEAN:
        why = "Expected value to be either true or false"
    elif key.kind in (Kind.INT, Kind.SHORT, Kind.LONG, Kind.DOUBLE):
        why = _out_of_bounds(key, text) or f"Not a number of type {key.kind.name}"
    return f"Invalid value {value} for configuration {key.name}: {why}"


def _out_of_bounds(key: ConfigKey, text: str) -> str:
    """Which bound a number is beyond; empty when it is no number of the key's type."""
    try:
        number = key._replace(low=None, high=None).parse(text)
    except ConfigError:
        return ""
    if key.name == "compression.gzip.level":
        return "Value must be between 1 and 9 or equal to -1"
    if key.low is not None and number < key.low:
        return f"Value must be at least {key.low}"
    return f"Value must be no more than {key.high}"
