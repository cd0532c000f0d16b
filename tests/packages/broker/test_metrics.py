"""A node's pages: the text that Prometheus reads, figures of replicas, elections counted, requests that are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.controller.service import ControllerService
from moldau.broker.data import DataSide
from moldau.broker.groups.coordinator import Coordinator, ShardContext
from moldau.broker.lifecycle import Stage
from moldau.broker.metrics.elections import Elections
from moldau.broker.metrics.figures import figures
from moldau.broker.metrics.health import not_safe_to_restart
from moldau.broker.metrics.page import Pages
from moldau.broker.metrics.text import Family, page
from moldau.broker.replicas.cleaner import LogCleaner
from moldau.image import Delta, Image
from moldau.model import Code
from moldau.model.config_key import ConfigError
from moldau.storage import LogDirs
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, batch, records_of, run, until
from tests.packages.broker.doubles import NodeDouble, PlaneDouble, metadata, zookeeper_config

METRICS = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_labels_are_escaped_and_names_stay_as_they_are() -> None:
    one = Family("a_b", "What it is.")
    one.add(0.25, topic='q"\\n', partition=3)
    empty = Family("c_total", "Nothing.")
    assert page([one, empty]) == (
        '# HELP a_b What it is.\n# TYPE a_b gauge\na_b{topic="q\\"\\\\n",partition="3"} 0.25\n'
    )


@dataclass
class ActingController(ControllerService):
    """An active controller."""

    active: bool = True
    awaiting_commit: int = 2


@dataclass
class NoGroups(Coordinator):
    """A coordinator of nothing."""

    shards: dict[int, ShardContext] = field(default_factory=dict)


@dataclass
class Living:
    """How far a broker's life has come."""

    stage: Stage = Stage.RUNNING


@dataclass
class LogsAndCleaner(DataSide):
    """A broker's directories, and who cleans what is in them."""

    log_dirs: LogDirs
    cleaning: LogCleaner


@dataclass(kw_only=True)
class ReportedNode(NodeDouble):
    """A node whose figures are shown."""

    data: LogsAndCleaner
    lifecycle: Living = field(default_factory=Living)
    loaded: bool = True
    has_joined: bool = True
    survivals: Mapping[str, int] = field(default_factory=lambda: {"retention": 2})

    def survived(self, where: str, error: BaseException) -> None:
        raise AssertionError(where) from error

    def healthy(self) -> bool:
        return True


def node(cluster: DataCluster) -> ReportedNode:
    """A controller that is also the data cluster's broker 0."""
    broker = cluster.brokers[0]
    logs = broker.replicas.logs
    reported = ReportedNode(
        config=zookeeper_config(0),
        world=cluster.world,
        metadata=metadata(cluster.image),
        plane=PlaneDouble(leader=(0, 1)),
        controller=ActingController(),
        coordinator=NoGroups(),
        listeners=[broker.socket_listener],
        replicas=broker.replicas,
        data=LogsAndCleaner(logs, LogCleaner(cluster.world, logs, broker.config)),
    )
    reported.metadata.offset = 7
    return reported


async def ask(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    answer = await reader.read()
    writer.close()
    return answer


async def get(pages: Pages, path: str) -> tuple[int, str]:
    answer = (await ask(pages.port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())).decode()
    head, _, body = answer.partition("\r\n\r\n")
    assert f"Content-Length: {len(body.encode())}" in head
    return int(head.split()[1]), body


def samples(text: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_figures_of_replicas_are_those_of_the_moment(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            pages = Pages(node(cluster))
            await pages.open("127.0.0.1", 0)
            before = samples((await get(pages, "/metrics"))[1])
            manager = "kafka_server_replicamanager_"
            assert (before[manager + "leadercount"], before[manager + "partitioncount"]) == (2, 2)
            assert before[manager + "underreplicatedpartitions"] == 0
            assert before["kafka_controller_kafkacontroller_activecontrollercount"] == 1
            assert before["kafka_controller_controllereventmanager_eventqueuesize"] == 2
            await cluster.produce(0, batch(3))
            cluster.change(1, isr=[0], replicas=[0, 1])
            cluster.configure(min_insync_replicas="2")
            after = samples((await get(pages, "/metrics?all"))[1])
            where = f'{{topic="{TOPIC}",partition="%d"}}'
            assert after["kafka_server_brokertopicmetrics_messagesin_total"] == 3
            assert after["kafka_log_log_logendoffset" + where % 0] == 3
            assert after["kafka_cluster_partition_underminisr" + where % 1] == 1
            assert after[manager + "underreplicatedpartitions"] == 1
            assert after[manager + "underminisrpartitioncount"] == 1, "the other has one replica, and needs no more"
            for dir in cluster.brokers[0].replicas.logs.dirs:
                cluster.brokers[0].replicas.failed(dir.fail(OSError(5, "Input/output error")))
            gone = samples((await get(pages, "/metrics"))[1])
            assert gone[manager + "offlinereplicacount"] == 2
            assert gone["kafka_log_logmanager_offlinelogdirectorycount"] == 1
            pages.close()

    run(work)


def test_traffic_is_told_by_topic_and_by_api_and_who_waits(tmp_path: Path) -> None:
    async def work() -> None:
        # A follower's fetch that waits no longer than half a second is not there for a moment, now and then.
        async with DataCluster(tmp_path, 2, replica_fetch_wait_max_ms="100000") as cluster:
            cluster.create(0, 1)
            pages = Pages(node(cluster))
            await pages.open("127.0.0.1", 0)
            data = batch(3)
            assert (await cluster.produce(0, data)).error_code == 0
            assert len(records_of(await cluster.fetch(0, 0))) == len(data)
            assert (await cluster.produce(1, data)).error_code == Code.NOT_LEADER_OR_FOLLOWER
            assert (await cluster.fetch(0, 99)).error_code == Code.OFFSET_OUT_OF_RANGE
            wait = asyncio.ensure_future(cluster.fetch(0, 3, max_wait_ms=60_000))
            room = cluster.brokers[0].replicas.purgatory
            await until(lambda: room.kinds()["Fetch"] == 2, "the consumer's fetch waits beside the follower's")
            seen = samples((await get(pages, "/metrics"))[1])
            topics, size = "kafka_server_brokertopicmetrics_", len(data)
            for where in ("", f'{{topic="{TOPIC}"}}'):
                for name in ("bytesin_total", "bytesout_total", "replicationbytesout_total"):
                    assert seen[topics + name + where] == size, name
                assert seen[topics + "messagesin_total" + where] == 3
            assert cluster.brokers[1].replicas.traffic.total().replicated_in == size
            assert cluster.brokers[1].replicas.failed_produces == 1
            assert seen[topics + "failedfetchrequests_total"] == 1
            waiting = "kafka_server_delayedoperationpurgatory_purgatorysize"
            assert seen[waiting + '{delayedOperation="Fetch"}'] == 2
            of_produce = '{request="Produce",listener="PLAINTEXT"}'
            requests = "kafka_network_requestmetrics_"
            assert seen[requests + "requests_total" + of_produce] == 1
            assert seen[requests + "totaltimems_count" + of_produce] == 1
            of_consumers = '{request="FetchConsumer",listener="PLAINTEXT"}'
            assert seen[requests + "requests_total" + of_consumers] == 3
            assert seen[requests + "totaltimems_count" + of_consumers] == 2, "one waits"
            assert requests + 'totaltimems{request="Produce",listener="PLAINTEXT",quantile="0.99"}' in seen
            await cluster.produce(0, data)
            await wait
            pages.close()

    run(work)


def test_every_figure_is_on_the_page_of_metrics(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            found = await figures(node(cluster), Elections())
            text = METRICS.read_text()
            for family in found:
                assert f"| `{family.name}` |" in text, f"docs/{METRICS.name} does not tell of {family.name}"
                assert family.help in text, family.name

    run(work)


def test_the_state_of_a_node_names_its_replicas_those_that_miss_some_first(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1, partitions=2)
            cluster.change(1, replicas=[0, 1, 2])
            await cluster.produce(0, batch(3))
            await until(lambda: cluster.brokers[0].replicas.by_key[TOPIC_ID, 0].log.high_watermark == 3, "committed")
            pages = Pages(node(cluster))
            await pages.open("127.0.0.1", 0)
            status, text = await get(pages, "/debug")
            pages.close()
            assert status == 200
            replicas = text.partition("[replicas]\n")[2].splitlines()
            assert [line.split()[0] for line in replicas] == [f"Replica({TOPIC}-1", f"Replica({TOPIC}-0"]
            assert "leader 0 in epoch" in replicas[1]
            assert "isr [0, 1] of [0, 1], high watermark 3" in replicas[1]
            assert f"Log({TOPIC}-0 0-3, 1 segments)" in replicas[1]
            assert "of a follower: 2 partitions" in text.partition("[fetch sessions]")[2]
            assert "\nmetrics: Visit._serve:" in text.partition("[tasks]")[2], "who asks is a task too"
            other = "".join(map(repr, cluster.brokers[1].replicas.fetchers))
            assert other.startswith("Fetcher(from broker 0: 2 partitions,")

    run(work)


def test_what_is_no_request_for_a_page_is_refused_by_name(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            one = node(cluster)
            pages = Pages(one)
            await pages.open("127.0.0.1", 0)
            for text, status in (
                (b"GET / HTTP/1.1\r\n\r\n", b"404"),
                (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
                (b"\x00\x00\x00\x10hello\r\n\r\n", b"400"),
                (b"GET /" + b"x" * 8187, b"400"),
            ):
                answer = await ask(pages.port, text)
                assert answer.split()[1] == status, text[:20]
            head = await ask(pages.port, b"HEAD /livez HTTP/1.0\r\n\r\n")
            assert head.endswith(b"\r\n\r\n")
            assert await get(pages, "/readyz") == (200, "ok\n")
            one.lifecycle.stage = Stage.FENCED
            assert await get(pages, "/readyz") == (503, "the broker is registered, fenced\n")
            assert (await get(pages, "/healthz"))[0] == 503
            assert await get(pages, "/livez") == (200, "ok\n")
            pages.close()

    run(work)


def test_a_broker_that_is_needed_is_not_safe_to_restart(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=3)
            one = node(cluster)
            assert not_safe_to_restart(one) == [], "one replica was wanted"
            cluster.change(0, replicas=[0, 1], isr=[0])
            cluster.change(1, replicas=[0, 1], isr=[0, 1])
            cluster.configure(min_insync_replicas="2")
            assert not_safe_to_restart(one) == [
                f"1 partition would have no leader: nobody else is in sync: {TOPIC}-0",
                f"1 partition would refuse acks=all: min.insync.replicas: {TOPIC}-1",
            ]

    run(work)


def test_elections_are_counted_and_unclean_ones_beside(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            one = node(cluster)
            counts = Pages(one)._elections
            (decided,) = one.metadata._watchers
            image = Image()

            def commit(record: Any) -> None:
                delta = Delta()
                image.apply(record, delta=delta)
                decided(image, delta)

            commit(records.TopicRecord(name="t", topic_id=TOPIC_ID))
            commit(
                records.PartitionRecord(
                    topic_id=TOPIC_ID, partition_id=0, replicas=[1, 2], isr=[1], leader=1, leader_epoch=0
                )
            )
            assert (counts.total, counts.unclean) == (0, 0), "made, not elected"
            for fields, expected in (
                ({"leader": -1}, (0, 0)),
                ({"leader": 1}, (1, 0)),
                ({"isr": [1, 2]}, (1, 0)),
                ({"leader": 2, "isr": [2]}, (2, 0)),
                ({"leader": 1, "isr": [1], "leader_recovery_state": 1}, (3, 1)),
                ({"leader_recovery_state": 0}, (3, 1)),
            ):
                commit(records.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, **fields))
                assert (counts.total, counts.unclean) == expected

    run(work)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("127.0.0.1:9308", ("127.0.0.1", 9308)), (":0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80)),
        ("0.0.0.0:9308", ("0.0.0.0", 9308)), ("", None), ("9308", ConfigError), ("a:b", ConfigError),
        ("h:70000", ConfigError), ("http://h:80", ConfigError),
    ],
)  # fmt: skip
def test_where_the_pages_are_is_checked_at_the_start(text: str, where: Any) -> None:
    given = {
        "node.id": "1", "process.roles": "broker", "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "100@localhost:1", "http.listener": text,
    }  # fmt: skip
    if where is ConfigError:
        with pytest.raises(ConfigError, match="http.listener: host:port is expected"):
            NodeConfig(given)
    else:
        assert NodeConfig(given).pages() == where
