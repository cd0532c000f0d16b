"""Settings that are changed while a node runs: which value counts, who hears of it, and what compaction makes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from moldau.broker.config.dynamic import DynamicConfig
from moldau.broker.config.node_config import NodeConfig
from moldau.broker.replicas.cleaner import LogCleaner
from moldau.image import Delta, Image
from moldau.model import TopicPartition
from moldau.model.config_key import LONG_MAX
from moldau.model.dynamic_config import DYNAMIC_KEYS, update_mode
from moldau.runtime.world import real_world
from moldau.storage import Log, LogConfig, LogDirs
from moldau.storage.compaction import Compaction
from moldau.wire.batch import build
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, batch, run, until

PARTITION = TopicPartition("kept", 0)
CONFIG = LogConfig(
    cleanup_policy=("compact",), internal_segment_bytes=1000, min_cleanable_dirty_ratio=0.0, delete_retention_ms=1000
)


def node_config(**given: str) -> NodeConfig:
    return NodeConfig(
        {
            "node.id": "1", "process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER", "controller.quorum.voters": "100@localhost:1",
            **{name.replace("_", "."): value for name, value in given.items()},
        }
    )  # fmt: skip


class Told:
    """A node's settings, and an image that tests change."""

    def __init__(self, **given: str) -> None:
        self.config = node_config(**given)
        self.dynamic = DynamicConfig(self.config)
        self.image = Image()

    def set(self, who: str, key: str, value: str | None) -> Any:
        delta = Delta()
        record = records.ConfigRecord(resource_type=4, resource_name=who, name=key, value=value)
        self.image.apply(record, delta=delta)
        self.dynamic.apply(self.image, delta)
        return self.config[key]


def test_a_brokers_own_setting_goes_before_the_clusters_and_that_before_the_files() -> None:
    told, key = Told(log_cleaner_backoff_ms="7000"), "log.cleaner.backoff.ms"
    assert told.config[key] == 7000
    assert told.set("", key, "5000") == 5000
    assert told.set("1", key, "3000") == 3000
    assert told.set("2", key, "1000") == 3000, "another broker's"
    assert told.set("", key, "4000") == 3000
    assert told.set("1", key, None) == 4000
    assert told.set("", key, None) == 7000


def test_keys_that_exist_only_so_have_a_default_and_return_to_it() -> None:
    told, key = Told(), "leader.replication.throttled.rate"
    assert told.config[key] == LONG_MAX
    assert told.set("1", key, "10") == 10
    assert told.set("1", key, None) == LONG_MAX


def test_who_asked_hears_of_a_change_and_of_nothing_else() -> None:
    told, heard = Told(), []
    told.dynamic.react("log.cleaner.backoff.ms", lambda: heard.append(told.config["log.cleaner.backoff.ms"]))
    told.set("", "log.retention.ms", "1")
    told.set("", "log.cleaner.backoff.ms", "20")
    told.set("", "log.cleaner.backoff.ms", "20")
    told.set("1", "log.cleaner.backoff.ms", "20")
    told.set("1", "log.cleaner.backoff.ms", "30")
    assert heard == [20, 30]


def test_addresses_do_not_change_under_a_running_node() -> None:
    told = Told()
    told.set("1", "listeners", "PLAINTEXT://127.0.0.1:9999")
    assert told.config["listeners"] == ("PLAINTEXT://127.0.0.1:0",)


def test_followers_share_a_leaders_partitions_among_as_many_fetchers_as_are_wanted(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1, partitions=6)
            follower = cluster.brokers[1]
            fetchers = follower.replicas.fetchers
            for count in (1, 3, 2):
                follower.config.adopt({"num.replica.fetchers": str(count)})
                cluster.commit(records.ConfigRecord(resource_type=4, resource_name="", name="x", value=str(count)))
                assert len(fetchers) == count
                for number in range(6):
                    assert (await cluster.produce(0, batch(), number=number)).error_code == 0
                assert all(cluster.image.at((TOPIC_ID, number)).isr == (0, 1) for number in range(6)), TOPIC

    run(work)


# ---- every setting that may be changed while a broker runs

TOPIC_DEFAULTS = {
    "compression.type": ("zstd", "compression_type", "zstd"),
    "log.cleaner.delete.retention.ms": ("7", "delete_retention_ms", 7),
    "log.cleaner.max.compaction.lag.ms": ("8", "max_compaction_lag_ms", 8),
    "log.cleaner.min.cleanable.ratio": ("0.25", "min_cleanable_dirty_ratio", 0.25),
    "log.cleaner.min.compaction.lag.ms": ("9", "min_compaction_lag_ms", 9),
    "log.cleanup.policy": ("compact", "cleanup_policy", ("compact",)),
    "log.flush.interval.messages": ("10", "flush_messages", 10),
    "log.flush.interval.ms": ("11", "flush_ms", 11),
    "log.index.interval.bytes": ("12", "index_interval_bytes", 12),
    "log.index.size.max.bytes": ("13", "segment_index_bytes", 13),
    "log.message.timestamp.after.max.ms": ("14", "message_timestamp_after_max_ms", 14),
    "log.message.timestamp.before.max.ms": ("15", "message_timestamp_before_max_ms", 15),
    "log.message.timestamp.type": ("LogAppendTime", "message_timestamp_type", "LogAppendTime"),
    "log.retention.bytes": ("16", "retention_bytes", 16),
    "log.retention.ms": ("17", "retention_ms", 17),
    "log.roll.jitter.ms": ("18", "segment_jitter_ms", 18),
    "log.roll.ms": ("19", "segment_ms", 19),
    "log.segment.bytes": ("1048577", "segment_bytes", 1048577),
    "log.segment.delete.delay.ms": ("20", "file_delete_delay_ms", 20),
    "message.max.bytes": ("21", "max_message_bytes", 21),
    "min.insync.replicas": ("2", "min_insync_replicas", 2),
    "unclean.leader.election.enable": ("true", "unclean_leader_election_enable", True),
}
"""Key -> a value, and what the log of a topic with no setting of its own then runs under."""

OF_A_START = {"num.recovery.threads.per.data.dir"}
"""What only a start uses: a broker that runs takes it, as Apache Kafka's does, and has no more logs to load."""
SHOWN_ELSEWHERE = {
    "follower.replication.throttled.rate", "leader.replication.throttled.rate",  # test_throttles.py
    "replica.alter.log.dirs.io.max.bytes.per.second",  # test_relocations.py
    "max.connection.creation.rate", "max.connections", "max.connections.per.ip",
    "max.connections.per.ip.overrides",  # test_connection_limits.py
    "log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.threads",
    "num.replica.fetchers", "producer.id.expiration.ms",  # below, and above
    "transaction.partition.verification.enable",  # test_transactions_led.py
}  # fmt: skip


def test_a_topics_default_reaches_its_open_logs_from_the_cluster_and_from_the_broker(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            log = cluster.brokers[0].replica().log
            for key, (text, field, value) in TOPIC_DEFAULTS.items():
                before = getattr(log.config, field)
                assert before != value
                for who in ("", "0"):
                    for now, seen in ((text, value), (None, before)):
                        cluster.commit(records.ConfigRecord(resource_type=4, resource_name=who, name=key, value=now))
                        assert getattr(log.config, field) == seen, (who, key, now)

    run(work)


def test_no_setting_that_is_taken_at_run_time_is_without_a_test_or_said_to_be_without_effect() -> None:
    taken = {key for key, known in DYNAMIC_KEYS.items() if known.effect and update_mode(key) != "read-only"}
    assert taken == TOPIC_DEFAULTS.keys() | SHOWN_ELSEWHERE | OF_A_START


def test_a_producer_is_forgotten_as_soon_as_the_broker_is_told_to() -> None:
    told, key = Told(), "producer.id.expiration.ms"
    heard: list[int] = []
    told.dynamic.react(key, lambda: heard.append(told.config[key]))
    told.set("", key, "5")
    told.set("", key, None)
    assert heard == [5, 86_400_000]


# ---- compaction


class Cleaner:
    """One dirty log in a real folder, and compaction over it."""

    def __init__(self, folder: Path, logs: int = 1, **dynamic: str) -> None:
        self.failures: list[BaseException] = []
        world = real_world(asyncio.get_running_loop(), lambda task, error: self.failures.append(error))
        self.dirs = LogDirs(world.disk, [str(folder / "data")], random=world.random)
        self.dirs.claim("mini", 1)
        self.dirs.load(lambda _: CONFIG)
        self.log: Log = self.dirs.create(PARTITION, TOPIC_ID, CONFIG)
        self.config = node_config()
        self.config.adopt({name.replace("_", "."): value for name, value in dynamic.items()})
        self.cleaning = LogCleaner(world, self.dirs, self.config)
        for number in range(1, logs):
            self.dirs.create(TopicPartition("kept", number), TOPIC_ID, CONFIG)
        for log in self.dirs.logs.values():
            for turn in range(60):
                log.append_leader(build([(turn, b"k%d" % (turn % 10), b"v" * 50, ())]), 0, turn)
            log.high_watermark = log.log_end_offset
        self.dirs.flush_pass(10**9)
        self.dirs.checkpoint()


def test_every_dirty_log_is_compacted_and_a_small_offset_map_takes_several_runs(tmp_path: Path) -> None:
    async def work() -> None:
        whole = Cleaner(tmp_path / "a")
        assert await whole.cleaning.clean() > 0
        small = Cleaner(tmp_path / "b", log_cleaner_dedupe_buffer_size="1")
        begin, reached = small.dirs.compactions.begin, []

        def counted(log: Log, now_ms: int) -> Compaction | None:
            reached.append(log.cleaned_to)
            return begin(log, now_ms)

        small.dirs.compactions.begin = counted  # type: ignore[method-assign]
        await small.cleaning.clean()
        assert small.log.cleaned_to == whole.log.cleaned_to
        assert reached == sorted(set(reached))
        assert len(reached) > 10

    run(work)


def test_a_log_that_is_deleted_while_it_is_compacted_costs_nobody_anything(tmp_path: Path) -> None:
    async def work() -> None:
        scene = Cleaner(tmp_path, log_cleaner_io_max_bytes_per_second="6000")
        cleaning = asyncio.ensure_future(scene.cleaning.clean())
        folder = tmp_path / "data" / str(PARTITION)
        await until(lambda: list(folder.glob("*.cleaned")), "it is under way")
        scene.dirs.delete(PARTITION, 0)
        again = scene.dirs.create(PARTITION, bytes([8] * 16), CONFIG)
        await cleaning
        assert scene.dirs.offline == []
        assert again.log_end_offset == 0
        assert not list(folder.glob("*.cleaned"))
        assert not scene.failures

    run(work)


def test_a_stop_does_not_wait_for_a_slow_compaction(tmp_path: Path) -> None:
    async def work() -> None:
        scene = Cleaner(tmp_path, log_cleaner_io_max_bytes_per_second="1")
        cleaning = asyncio.ensure_future(scene.cleaning.clean())
        await asyncio.sleep(0.05)
        assert not cleaning.done()
        scene.cleaning.stop()
        await asyncio.wait_for(cleaning, 60)

    run(work)


def test_the_pause_between_two_looks_is_changed_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        scene = Cleaner(tmp_path, log_cleaner_backoff_ms="3600000")
        scene.cleaning.start()
        await asyncio.sleep(0)
        scene.config.adopt({"log.cleaner.backoff.ms": "10"})
        scene.cleaning.reconfigure()
        await until(lambda: scene.log.cleaned_to > 0)
        scene.cleaning.stop()

    run(work)


def test_as_many_logs_are_compacted_at_a_time_as_there_are_cleaner_threads(tmp_path: Path) -> None:
    async def work() -> None:
        slow = {"log_cleaner_backoff_ms": "10", "log_cleaner_io_max_bytes_per_second": "1"}
        scene = Cleaner(tmp_path, logs=4, **slow)
        running = scene.dirs.compactions.running
        scene.cleaning.start()
        await until(lambda: len(running) == 1, "one thread")
        scene.config.adopt({**{name.replace("_", "."): value for name, value in slow.items()},
                            "log.cleaner.threads": "3"})  # fmt: skip
        scene.cleaning.reconfigure()
        await until(lambda: len(running) == 3, "three threads")
        scene.cleaning.stop()
        await until(lambda: not scene.cleaning._wakers, "all have ended")
        assert not scene.failures

    run(work)


def test_what_compaction_writes_is_collected_as_far_as_the_io_buffer_says(tmp_path: Path) -> None:
    async def work() -> None:
        saved = []
        for size in ("0", "524288"):
            scene = Cleaner(tmp_path / size, log_cleaner_io_buffer_size=size)
            saved.append(await scene.cleaning.clean())
        assert saved[0] == saved[1] > 0

    run(work)


def test_a_damaged_log_costs_neither_the_node_nor_the_other_logs(tmp_path: Path) -> None:
    async def work() -> None:
        scene = Cleaner(tmp_path, logs=2, log_cleaner_backoff_ms="10")
        segment = tmp_path / "data" / "kept-0" / f"{0:020d}.log"
        data = bytearray(segment.read_bytes())
        data[8] ^= 0x40
        segment.write_bytes(data)
        scene.cleaning.start()
        whole = scene.dirs.logs[TopicPartition("kept", 1)]
        await until(lambda: whole.cleaned_to == whole.active.base_offset, "the whole log is compacted")
        await until(lambda: scene.dirs.compactions.uncleanable, "the other one is given up")
        looks = scene.cleaning._looked_ms
        await until(lambda: scene.cleaning._looked_ms > looks + 50, "several looks later")
        assert list(scene.dirs.compactions.uncleanable) == [PARTITION]
        assert not scene.failures
        scene.cleaning.stop()

    run(work)
