"""Whatever a setting is set to: it is refused, or everybody who acts on it can; nothing that is set ends a node.

Every key of topics, brokers, groups and client metrics is tried with a table of hostile texts: through the controller,
as a client would, and as a record that is in the log already, left by somebody with other rules.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import settings

from moldau.broker.config.dynamic import DynamicConfig
from moldau.broker.config.node_config import NodeConfig
from moldau.broker.network.connection_quotas import KEYS as LIMITS
from moldau.broker.network.connection_quotas import ConnectionQuotas
from moldau.broker.replicas.cleaner import LogCleaner
from moldau.broker.replicas.throttles import Throttles
from moldau.broker.replicas.topic_log_configs import TopicConfigs
from moldau.controller.active import ActiveController
from moldau.controller.facts import Settings
from moldau.controller.requests import AlterConfigs, ConfigChange, IncrementalAlterConfigs, Operation, Tick
from moldau.image import Delta, Image
from moldau.image.configs import ResourceType, topic_value
from moldau.model import Code
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import TEXT_BYTES_MAX, ConfigError, ConfigKey, Kind
from moldau.model.dynamic_config import DYNAMIC_KEYS
from moldau.model.group_config import CLIENT_METRICS_KEYS, GROUP_KEYS
from moldau.model.topic_config import TOPIC_KEYS
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealClock
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.storage import LogDirs
from moldau.wire.records.metadata import ConfigRecord
from tests.packages.broker.doubles import metadata, node_config
from tests.packages.doubles import ManualTasks, manual_world

LONG = "9" * 5000
HOSTILE = (
    "", " ", ",", ",,,", ", ,", "nan", "NaN", "inf", "-inf", "Infinity", "1e308", "1e309", "-1e308", "1e-400", ".5",
    "5.",
    "0", "-0", "-1", "+1", "1", "2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", LONG, f"-{LONG}", f"0.{LONG}", f"1e{LONG}", "1_000", "\N{ARABIC-INDIC DIGIT THREE}", "\xb2",
    "0x10", "true", "FALSE", "yes", "*", "*,*", "0:1", "0:1,", " 0:1 , 1:1 ", "0:1,*", f"{LONG}:1", f"1:{LONG}", "a:b",
    "\xb2:1", "127.0.0.1:5", f"127.0.0.1:{LONG}", "127.0.0.1:\xb2", "::1:5", "compact,delete", "compact,compact",
    "delete,",
    "by_duration:P", f"by_duration:P{LONG}D", "client_id=[", "client_id=(", "=", "\0", "\xe9" * 20_000, "x" * 40_000,
    "\ud800", "${file:a:b}", "PLAINTEXT://h:1",
)  # fmt: skip
FEW = HOSTILE[:10]
"""Texts that are tried with operations for lists on a key that is none: refused before a text is read."""
OF_LISTS = (Operation.SET, Operation.APPEND, Operation.SUBTRACT)
KEYS: dict[int, tuple[str, dict[str, ConfigKey]]] = {
    ResourceType.TOPIC: ("t", TOPIC_KEYS),
    ResourceType.BROKER: ("1", DYNAMIC_KEYS),
    ResourceType.GROUP: ("g", GROUP_KEYS),
    ResourceType.CLIENT_METRICS: ("m", CLIENT_METRICS_KEYS),
}
EVERY_KEY = [(kind, key) for kind, (_, keys) in KEYS.items() for key in keys.values()]


def texts(key: ConfigKey) -> Iterator[str]:
    """Hostile texts, and those at the key's own bounds. Under the profile `seconds` a tenth of the former: each has its
    turn with some of the keys."""
    few = settings.get_current_profile_name() == "seconds"
    yield from HOSTILE[len(key.name) % 10 :: 10] if few else HOSTILE
    for bound in (key.low, key.high):
        if bound is not None:
            yield from (str(int(bound) + step) for step in (-1, 0, 1))
    yield from key.one_of
    yield ",".join(key.one_of)
    yield key.text(key.default) or ""


def fits(text: str) -> bool:
    """Whether a record can hold the text at all."""
    try:
        return len(text.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def topic_keys_of(image: Image, delta: Delta) -> Iterator[str]:
    """The keys of topics whose values may be others than before: a setting's own, and those that it is a synonym of."""
    changed = {
        name
        for resource, before in delta.configs.items()
        for name in image.config(*resource).keys() | before.keys()
        if name not in before or image.config(*resource).get(name) != before[name]
    }
    for name, key in TOPIC_KEYS.items():
        if name in changed or any(synonym.name in changed for synonym in key.synonyms):
            yield name


class Node:
    """Everybody in a node who acts on settings, over an image that a test changes."""

    def __init__(self, image: Image, config: NodeConfig | None = None) -> None:
        self.image = image
        self.config = config or node_config()
        self.metadata = metadata(image)
        self.tasks = ManualTasks()  # that nobody runs: a setting is applied at once
        world = manual_world(clock=RealClock(), tasks=self.tasks, disk=RealDisk())
        self.dynamic = DynamicConfig(self.config)
        self._limits = ConnectionQuotas(world, self.config.__getitem__)
        self._cleaning = LogCleaner(world, LogDirs(world.disk, []), self.config)
        for key in LIMITS:
            self.dynamic.react(key, self._limits.reconfigure)
        for key in ("log.cleaner.backoff.ms", "log.cleaner.threads"):
            self.dynamic.react(key, self._cleaning.reconfigure)
        self._throttles = Throttles(1, world.clock, world.tasks)
        self._topics = TopicConfigs(1, self.config)

    def apply(self, delta: Delta) -> None:
        resources = set(delta.configs)
        self.dynamic.apply(self.image, delta)
        self._throttles.changed(self.image, resources)
        self._topics.changed(self.image, resources)
        self._topics.log_config(self.image, "t")
        self._topics.limits(self.image, "t")
        static = self.config.static_topic_config()
        for key in topic_keys_of(self.image, delta):
            topic_value(self.image, "t", key, static)
        assert self._cleaning._keys_max(1) > 0
        assert len(self.tasks.spawned) < 1000
        assert self._throttles.leading.quota.wait_ms >= 0
        numbers = Settings(node_id=1, static=static)
        for key in ("num.partitions", "default.replication.factor"):
            assert numbers.number(self.image, key) == self.config[key]


def set_to(harness: ControllerHarness, kind: int, key: str, operation: int, text: str | None) -> Code:
    resource = ConfigChange(resource_type=kind, resource_name=KEYS[kind][0], changes=((key, operation, text),))
    (result,) = harness.submit(IncrementalAlterConfigs(resources=(resource,))).resources
    message = result[2].message or ""
    assert len(message) < 2000, "an answer must hold it"
    return Code(result[2].code)


@pytest.fixture(scope="module")
def harness() -> ControllerHarness:
    harness = ControllerHarness(brokers=2)
    harness.create("t", (0, 1))
    return harness


@pytest.mark.parametrize(("kind", "key"), EVERY_KEY, ids=[f"{kind}-{key.name}" for kind, key in EVERY_KEY])
def test_every_text_is_refused_or_applied(harness: ControllerHarness, kind: int, key: ConfigKey) -> None:
    node, taken = Node(harness.image), 0
    for text in texts(key):
        for operation in OF_LISTS if key.kind is Kind.LIST or text in FEW else (Operation.SET,):
            if set_to(harness, kind, key.name, operation, text) == Code.NONE and harness.records:
                taken += 1
                node.apply(harness.delta)
    set_to(harness, kind, key.name, Operation.DELETE, None)
    node.apply(harness.delta)


@pytest.mark.parametrize(("kind", "key"), EVERY_KEY, ids=[f"{kind}-{key.name}" for kind, key in EVERY_KEY])
def test_every_text_that_is_in_the_log_already_is_survived_and_can_be_set_right(kind: int, key: ConfigKey) -> None:
    harness = ControllerHarness(brokers=2)
    harness.create("t", (0, 1))
    node, name = Node(harness.image), KEYS[kind][0]
    for text in filter(fits, texts(key)):
        harness.commit([ConfigRecord(resource_type=kind, resource_name=name, name=key.name, value=text)])
        node.apply(harness.delta)
    Node(harness.image).apply(beginning(harness.image))
    harness.commit([ConfigRecord(resource_type=kind, resource_name=name, name=key.name, value="\0")])
    harness.controller = ActiveController(harness.controller.settings)
    harness.commit(
        harness.controller.claim(3, harness.image, harness.facts()).records
    )  # another controller, that finds it there
    harness.submit(Tick())
    assert set_to(harness, kind, key.name, Operation.DELETE, None) == Code.NONE
    assert key.name not in harness.image.config(kind, name)


def beginning(image: Image) -> Delta:
    """All settings at once, as a node meets them that starts, or loads a snapshot."""
    delta = Delta()
    delta.configs = {resource: {} for resource in image.configs}
    return delta


@pytest.mark.parametrize("key", BROKER_KEYS.values(), ids=BROKER_KEYS)
def test_every_text_in_the_file_stops_the_start_with_a_sentence_or_is_applied(key: ConfigKey) -> None:
    harness = ControllerHarness(brokers=2)
    harness.create("t", (0, 1))
    for text in texts(key):
        with suppress(ConfigError):
            Node(harness.image, node_config(1, **{key.name: text})).apply(beginning(harness.image))


def test_what_cannot_be_read_is_named_once_and_deletes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    harness = ControllerHarness(brokers=2)
    harness.create("t", (0, 1), configs={"retention.ms": "5"})
    node = Node(harness.image)
    with caplog.at_level(logging.ERROR):
        for name, key, text in (
            ("t", "retention.ms", "soon"), ("t", "cleanup.policy", "shred"), ("1", "log.cleaner.backoff.ms", "no"),
        ):  # fmt: skip
            kind = ResourceType.TOPIC if name == "t" else ResourceType.BROKER
            harness.commit([ConfigRecord(resource_type=kind, resource_name=name, name=key, value=text)])
            node.apply(harness.delta)
            harness.commit([ConfigRecord(resource_type=kind, resource_name=name, name="other", value=text)])
            node.apply(harness.delta)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(",")[0] for line in lines] == [
        "topic t has retention.ms=soon", "topic t has cleanup.policy=shred", "broker 1 has log.cleaner.backoff.ms=no",
    ]  # fmt: skip
    found = node._topics.log_config(harness.image, "t")
    assert (found.retention_ms, found.cleanup_policy) == (-1, ())
    assert node.config["log.cleaner.backoff.ms"] == BROKER_KEYS["log.cleaner.backoff.ms"].default


def test_a_brokers_unreadable_setting_leaves_the_clusters_in_force() -> None:
    harness, key = ControllerHarness(brokers=2), "max.connections"
    harness.commit([ConfigRecord(resource_type=4, resource_name="", name=key, value="7")])
    node = Node(harness.image)
    node.apply(beginning(harness.image))
    harness.commit([ConfigRecord(resource_type=4, resource_name="1", name=key, value="-7")])
    node.apply(harness.delta)
    assert node.config[key] == 7


@pytest.mark.parametrize("name", ["9" * 5000, "-1", "\xb2", " 1", "1 ", "", "x" * 40_000])
def test_a_resource_of_any_name_is_answered(harness: ControllerHarness, name: str) -> None:
    for kind in range(-1, 70):
        for request in (IncrementalAlterConfigs, AlterConfigs):
            change = ConfigChange(resource_type=kind, resource_name=name, changes=((name, Operation.SET, name),))
            for result in harness.submit(request(resources=(change,))).resources:
                assert len(result[2].message or "") < 2000


def test_tiered_storage_is_not_promised_to_a_topic(harness: ControllerHarness) -> None:
    assert set_to(harness, ResourceType.TOPIC, "remote.storage.enable", Operation.SET, "true") == Code.INVALID_CONFIG
    assert set_to(harness, ResourceType.TOPIC, "remote.storage.enable", Operation.SET, "false") == Code.NONE
