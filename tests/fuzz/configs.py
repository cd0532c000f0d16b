"""Every setting of topics, brokers, groups and clients' metrics with values from the edge, set and taken back.

What keeps clients away by right (no connections at all) or slows replication down on demand is set on nothing that the
witness needs.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

from moldau.model.broker_config import BROKER_KEYS
from moldau.model.group_config import GROUP_KEYS
from moldau.model.topic_config import TOPIC_KEYS
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from moldau.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.fuzz.target import TOPICS, Line, Target

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
KEEPS_AWAY = ("max.connection", "connection.creation", "throttled", "background.threads", "listener")
VALUES = (
    "", " ", "0", "1", "-1", "-2", "2147483647", "2147483648", "9223372036854775807", "-9223372036854775808", "1e9",
    "nan", "inf", "0x10", "1.5", "true", "TRUE", "null", ",", ",,,", "a,,b", "a:b", "1:1", "1:1,2:2", "*", "**",
    "compact,delete", "delete", "\u0661\u0662", "1" * 5_000, "9" * 4_301 + ":1", "x" * 40_000, "x" * 1_200_000,
    "PLAINTEXT://:1", "é", "\x00",
    "org.apache.kafka.Nobody", "gzip", "producer", "LogAppendTime", "0.5", "1.0", "600000",
)  # fmt: skip
WAIT_S = 20.0


class ConfigFuzzer:
    """One round sets some keys of one thing, reads nothing, and takes them back."""

    def __init__(self, target: Target, rng: Random) -> None:
        self.target = target
        self.rng = rng
        self._number = 0

    def round(self) -> int:
        """Ask for some changes; how many."""
        address = self.rng.choice([where for kind, where in self.target.listeners() if kind != "controller"])
        with suppress(OSError, ValueError), Line(address, WAIT_S) as line:
            return self._create(line) if self.rng.random() < 0.1 else self._alter(line)
        return 1

    def close(self) -> None:
        """Nothing is kept."""

    def _drawn(self) -> tuple[int, str, list[str]]:
        """What is changed: its type, its name, and the keys that it has."""
        kind = self.rng.choices((TOPIC, BROKER, GROUP, METRICS, LOGGER), (5, 5, 2, 1, 1))[0]
        if kind == TOPIC:
            return kind, self.rng.choice(list(TOPICS)), list(TOPIC_KEYS)
        if kind == BROKER:
            keys = [key for key in BROKER_KEYS if not any(word in key for word in KEEPS_AWAY)]
            return kind, self.rng.choice(["", *(str(node.id) for node in self.target.cluster.spec.nodes)]), keys
        if kind == GROUP:
            return kind, "fuzz-group", list(GROUP_KEYS)
        if kind == METRICS:
            return kind, self.rng.choice(("m", "", "x" * 300)), ["metrics", "interval.ms", "match"]
        return kind, "1", ["moldau", "root", "moldau.node", "kafka.controller", "nobody"]

    def _alter(self, line: Line) -> int:
        kind, name, keys = self._drawn()
        chosen = self.rng.sample(keys, min(len(keys), self.rng.choice((1, 1, 1, 3))))
        if self.rng.random() < 0.05:
            chosen.append(self.rng.choice(("no.such.key", "", "x" * 40_000)))
        ops = {key: self.rng.choices((SET, APPEND, SUBTRACT, DELETE, 9), (12, 2, 1, 1, 1))[0] for key in chosen}
        values = {key: self.rng.choice(VALUES) for key in chosen}
        self._ask(line, kind, name, [(key, op, values[key]) for key, op in ops.items()])
        for key in chosen:  # one by one: a key that is none must not keep another from being taken back
            self._ask(line, kind, name, [(key, DELETE, None)])
        return 2 * len(chosen)

    def _ask(self, line: Line, kind: int, name: str, changes: list[tuple[str, int, str | None]]) -> None:
        cls = IncrementalAlterConfigsRequest
        configs = [cls.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
        resource = cls.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        line.ask(cls(resources=[resource]), 1)

    def _create(self, line: Line) -> int:
        cls = CreateTopicsRequest
        self._number += 1
        name = f"fuzz-{self._number}"
        keys = self.rng.sample(list(TOPIC_KEYS), 2)
        configs = [cls.CreatableTopicConfig(name=key, value=self.rng.choice(VALUES)) for key in keys]
        topic = cls.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
        line.ask(cls(topics=[topic], timeout_ms=10_000), 5)
        line.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)
        return 2
