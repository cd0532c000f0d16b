"""The configuration each topic's logs run under, worked out once per set of overrides and shared.

Decides nothing: which setting wins is ``moldau.image``'s, what it means ``moldau.storage``'s. See
``replicas/manager.py``.
"""

from __future__ import annotations

from moldau.broker.replicas.deps import ReplicaSettings
from moldau.image import Image
from moldau.image.configs import topic_setting
from moldau.model.topic_config import TOPIC_KEYS
from moldau.replication.roles import Limits
from moldau.storage import LogConfig

TOPIC, BROKER = 2, 4


class TopicConfigs:
    """LogConfig and replication limits by topic."""

    def __init__(self, me: int, config: ReplicaSettings) -> None:
        self._me = me
        self._static = config.static_topic_config()
        self._lag_max_ms: int = config["replica.lag.time.max.ms"]
        self._logs: dict[frozenset[tuple[str, str]], LogConfig] = {}
        self._limits: dict[str, Limits] = {}

    def log_config(self, image: Image, topic: str) -> LogConfig:
        """What the topic's logs run under."""
        own = frozenset(image.config(TOPIC, topic).items())
        found = self._logs.get(own)
        if found is None:
            texts = {key: topic_setting(image, topic, key, self._static, self._me).value for key in TOPIC_KEYS}
            found = self._logs[own] = LogConfig.parse(texts)
        return found

    def limits(self, image: Image, topic: str) -> Limits:
        """What the topic's replication obeys; one object per topic, changed in place."""
        found = self._limits.get(topic)
        if found is None:
            found = self._limits[topic] = Limits(1, self._lag_max_ms)
            found.min_insync_replicas = self.log_config(image, topic).min_insync_replicas
        return found

    def changed(self, image: Image, resources: set[tuple[int, str]]) -> set[str] | None:
        """Settings of these (type, name) changed: the topics concerned, or None for all."""
        everything = any(kind == BROKER for kind, _ in resources)
        if everything or len(self._logs) > 1000:
            self._logs.clear()
        topics = None if everything else {name for kind, name in resources if kind == TOPIC}
        for topic in list(self._limits) if topics is None else topics & self._limits.keys():
            self._limits[topic].min_insync_replicas = self.log_config(image, topic).min_insync_replicas
        return topics

    def forget(self, topic: str) -> None:
        """The topic is gone from this broker."""
        self._limits.pop(topic, None)
