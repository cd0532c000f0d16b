"""What the settings of one resource must be together, beyond each value by itself.

Decides only whether a set of settings may stand: a broker's defaults of topics must be good values of those, a group's
times within what brokers allow, a metrics subscription must match clients by properties there are. Each key by itself
is checked in ``configs.py``, from the tables in ``moldau.model``. Sources: KIP-848, KIP-714, Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from moldau.controller.facts import DecisionContext, Problem
from moldau.image.configs import ResourceType
from moldau.model import Code
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigError, ConfigKey, Kind, shown
from moldau.model.group_config import GROUP_KEYS, MATCHED, broker_bound
from moldau.model.topic_defaults import check_default

LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
LAGS_OF_BROKER = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
_DURATION = r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?\Z"


def wrong_together(context: DecisionContext, kind: int, settings: Mapping[str, str]) -> Problem | None:
    """What is wrong with all the settings that a resource would have, or None.

    Those that are being set are good values of their keys; what was there before may be anything.
    """
    match kind:
        case ResourceType.TOPIC:
            return _of_topic(context, settings)
        case ResourceType.BROKER:
            return _of_broker(context, settings)
        case ResourceType.GROUP:
            return _of_group(context, settings)
        case ResourceType.CLIENT_METRICS:
            return _of_client_metrics(settings)
        case _:
            return None


def _of_topic(context: DecisionContext, settings: Mapping[str, str]) -> Problem | None:
    text = _crossed(context, settings, *LAGS)
    return None if text is None else Problem(Code.INVALID_CONFIG, text)


def _of_broker(context: DecisionContext, settings: Mapping[str, str]) -> Problem | None:
    text = _crossed(context, settings, *LAGS_OF_BROKER)
    if text is not None:
        return Problem(Code.INVALID_REQUEST, text)
    try:
        for name, text in settings.items():
            if name not in BROKER_KEYS or BROKER_KEYS[name].is_good(text):
                check_default(name, text)
    except ConfigError as error:
        return Problem(Code.INVALID_REQUEST, str(error))
    return None


def _crossed(context: DecisionContext, settings: Mapping[str, str], least: str, most: str) -> str | None:
    """What is wrong when a lower limit is above its upper one, of which the brokers may have set either."""
    low, high = (
        int(settings[name])
        if name in settings and BROKER_KEYS[of_broker].is_good(settings[name])
        else context.settings.number(context.image, of_broker)
        for name, of_broker in zip((least, most), LAGS_OF_BROKER, strict=True)
    )
    if low <= high or not settings.keys() & {least, most}:
        return None
    return f"conflict: {least} ({low}) must not be more than {most} ({high})"


def _of_group(context: DecisionContext, settings: Mapping[str, str]) -> Problem | None:
    numbers = {name: key.parse(settings[name]) for name, key in _numbers(settings)}
    for name, value in numbers.items():
        for side, breaks in (("min", int.__lt__), ("max", int.__gt__)):
            bound = broker_bound(name, side)
            if bound is not None and breaks(value, context.settings.number(context.image, bound)):
                than = "less" if side == "min" else "more"
                return Problem(Code.INVALID_CONFIG, f"{name} must not be {than} than the brokers' {bound}.")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        values = {name: numbers.get(name, GROUP_KEYS[name].default) for name in (session, heartbeat)}
        if values[session] <= values[heartbeat]:
            return Problem(Code.INVALID_CONFIG, f"{session} must be greater than {heartbeat}.")
    reset = settings.get("share.auto.offset.reset", "latest")
    if reset not in ("latest", "earliest") and not re.match(_DURATION, reset):
        allowed = "latest, earliest or by_duration:PnDTnHnMn.nS is expected"
        return Problem(
            Code.INVALID_CONFIG, f"Invalid value {shown(reset)} for configuration share.auto.offset.reset: {allowed}"
        )
    return None


def _numbers(settings: Mapping[str, str]) -> list[tuple[str, ConfigKey]]:
    """The settings that are whole numbers; what an older version or another controller left and is none counts not."""
    keys = ((name, GROUP_KEYS[name]) for name in settings if name in GROUP_KEYS)
    return [(name, key) for name, key in keys if key.kind is Kind.INT and key.is_good(settings[name])]


def _of_client_metrics(settings: Mapping[str, str]) -> Problem | None:
    for pattern in filter(None, (part.strip() for part in settings.get("match", "").split(","))):
        name, equals, wanted = pattern.partition("=")
        if name.strip() not in MATCHED or not equals or not wanted.strip() or not _is_pattern(wanted.strip()):
            return Problem(Code.INVALID_CONFIG, f"Illegal client matching pattern: {shown(pattern)}")
    return None


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
