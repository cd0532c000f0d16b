"""ZooKeeper brought back from an older copy: leader epochs of the states are lower than those in the logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.zookeeper import batch, own_logs, restoring, translation
from moldau.broker.zookeeper.restoring import IDS_AHEAD_MAX, IDS_BELIEVED
from moldau.client.producer import Producer
from moldau.image import Image
from moldau.image.partition import NO_LEADER
from moldau.model import Code, TopicPartition
from moldau.ports.zookeeper import Op, Set, Stat
from moldau.replication.epochs import EpochTable
from moldau.storage.producers import Producers
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.records.metadata import PartitionRecord
from moldau.zookeeper import paths, znodes
from moldau.zookeeper.payload import EPOCH_MAX, LONG_MAX
from moldau.zookeeper.reading import Survey, read
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_plane import settled
from tests.packages.broker.test_zookeeper_removed import placed, restarted
from tests.packages.broker.zookeeper_nodes import Nodes

NAMES = {"on-12": [1, 2], "on-23": [2, 3], "on-31": [3, 1]}
STATES = {name: f"/brokers/topics/{name}/partitions/0/state" for name in NAMES}


async def written(nodes: Nodes, count: int) -> None:
    """Ten records more in each topic, which are committed, so that each log has ``count``."""
    client = nodes.client()
    for name in NAMES:
        producer = Producer(client)
        await producer.prepare(name)
        for number in range(10):
            producer.send(name, b"%d" % number, partition=0)
        await producer.close()
    client.close()
    await until(lambda: watermarks(nodes) == [count] * 6, f"every replica has {count} records, and knows it")


def watermarks(nodes: Nodes) -> list[int]:
    replicas = (r for node in nodes.nodes.values() for r in node.replicas.by_key.values())
    return [replica.machine.high_watermark for replica in replicas if replica.partition.topic in NAMES]


def with_epoch(nodes: Nodes, leader_epoch: int) -> Callable[[], None]:
    """States say another leader epoch, and all that they said beside."""

    def change() -> None:
        for path in STATES.values():
            nodes.write(path, json.dumps(nodes.json(path) | {"leader_epoch": leader_epoch}).encode())

    return change


async def at_rest(nodes: Nodes) -> None:
    await until(lambda: len(nodes.controllers) == 1 and settled(nodes), "somebody is controller")
    await until(lambda: all(len(nodes.json(path)["isr"]) == 2 for path in STATES.values()), "all are in sync")
    await until(nodes.agree, "everybody knows it")


@pytest.mark.parametrize("read", [True, False])
def test_leader_epochs_of_an_older_copy_of_zookeeper_are_raised_above_those_of_the_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, read: bool
) -> None:
    """Followers never followed, and nobody said why: acknowledged records could not be read any more. A controller
    raises the epochs by its own logs (``read``), and by what the other brokers answer."""
    if not read:
        monkeypatch.setattr("moldau.broker.zookeeper.loading.raised_epochs", lambda *_, **__: [])

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            for name, replicas in NAMES.items():
                await placed(nodes, name, replicas)
            await written(nodes, 10)
            await restarted(nodes, with_epoch(nodes, 30))
            await at_rest(nodes)
            await written(nodes, 20)
            assert "older than the logs" not in caplog.text
            await restarted(nodes, with_epoch(nodes, 0))
            await at_rest(nodes)
            least = own_logs.AHEAD_MAX if read else 30
            assert all(nodes.json(path)["leader_epoch"] > least for path in STATES.values())
            await written(nodes, 30)
        assert "the data of ZooKeeper are older than the logs" in caplog.text

    run(scenario)


def test_all_states_are_raised_above_all_logs_where_one_log_is_of_a_later_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log elsewhere may be of the very next epoch, under another leader: elected to it, a second leader wrote under
    the same epoch, and the followers kept what the first had written there."""
    monkeypatch.setattr("moldau.broker.zookeeper.channels.Channels._find_later_log_epochs", lambda *_: None)

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            for name, replicas in NAMES.items():
                await placed(nodes, name, replicas)
            await restarted(nodes, with_epoch(nodes, 30))
            await at_rest(nodes)
            await written(nodes, 10)
            before = {name: nodes.json(path)["leader_epoch"] for name, path in STATES.items()}

            def change() -> None:
                """One of each broker's two logs is ahead by one; the third topic is as it was."""
                for name in ("on-12", "on-31"):
                    znode = nodes.json(STATES[name])
                    nodes.write(STATES[name], json.dumps(znode | {"leader_epoch": 29}).encode())

            await restarted(nodes, change)
            await at_rest(nodes)
            assert all(nodes.json(path)["leader_epoch"] > before[name] + 1000 for name, path in STATES.items())
            await written(nodes, 20)

    run(scenario)


@pytest.mark.parametrize("epochs", [True, False])
def test_producer_ids_of_logs_are_not_handed_out_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, epochs: bool
) -> None:
    """A new producer under an id of a log was taken for the old one: of 60 producers of one record each that were all
    told success, 54 had written nothing. Said of by leader epochs (``epochs``), or by the ids in the logs."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            for name, replicas in NAMES.items():
                await placed(nodes, name, replicas)
            await restarted(nodes, with_epoch(nodes, 30))
            await at_rest(nodes)
            await written(nodes, 10)
            end = int(nodes.json(paths.PRODUCER_IDS)["block_end"])
            assert "producer ids" not in caplog.text

            def change() -> None:
                nodes.write(paths.PRODUCER_IDS, b"")
                if epochs:
                    with_epoch(nodes, 0)()

            await restarted(nodes, change)
            await at_rest(nodes)
            await written(nodes, 20)
            assert int(nodes.json(paths.PRODUCER_IDS)["block_start"]) > end
        assert "producer ids that logs have" in caplog.text

    run(scenario)


def test_the_same_copy_may_be_brought_back_twice(tmp_path: Path) -> None:
    """Epochs and ids that were counted from the copy alone were the same the second time: replicas did not follow, and
    the ids that were left out the first time, and used since, were handed out once more."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            for name, replicas in NAMES.items():
                await placed(nodes, name, replicas)
            await written(nodes, 10)

            def copy() -> None:
                nodes.write(paths.PRODUCER_IDS, b"")
                with_epoch(nodes, 0)()

            ends = []
            for total in (20, 30):
                await restarted(nodes, copy)
                await at_rest(nodes)
                await written(nodes, total)
                ends.append(int(nodes.json(paths.PRODUCER_IDS)["block_end"]))
            assert ends[1] - ends[0] > IDS_AHEAD_MAX // 2

    run(scenario)


def result_of(work: Generator[None, None, list[Op]]) -> list[Op]:
    """What work that pauses returns in the end."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            ops: list[Op] = end.value
            return ops


@pytest.mark.parametrize(
    ("id", "passed"),
    [(999, False), (1000, True), (1000 + IDS_BELIEVED - 1, True), (1000 + IDS_BELIEVED, False), (LONG_MAX, False)],
)
def test_an_id_that_a_client_made_up_is_no_reason_to_leave_ids_out(id: int, passed: bool) -> None:
    """Clients may write any id: the ids end, and one batch would have taken all of them."""
    block = znodes.producer_ids_json(znodes.ProducerIdBlock(1, 0, 999))
    found = read(Survey(producer_ids=(block, Stat(0, 0, 0, 0))), lambda: ID)
    held: Any = Held(ID)
    held.known_producers = Producers()
    held.known_producers._by_id[id] = None
    unread: Any = Held(ID)
    unread.known_producers = None
    ops = result_of(restoring.passed_producer_ids_in_slices(found, [unread, held], 1, behind=0))
    assert bool(ops) is passed
    assert result_of(restoring.passed_producer_ids_in_slices(found, [], 1, behind=1)), (
        "the epochs say that it is an older copy"
    )
    if passed:
        (op,) = ops
        assert isinstance(op, Set)
        end = id + IDS_AHEAD_MAX
        assert znodes.parse_producer_ids(op.data) == znodes.ProducerIdBlock(-1, end - 999, end), "one that Kafka reads"


class Held:
    """As much of a log as is looked at."""

    def __init__(self, topic_id: bytes, *epochs: int) -> None:
        self.topic_id = topic_id
        self.epochs = EpochTable((epoch, 10 * at) for at, epoch in enumerate(epochs))


ID = bytes(range(16))


def role(name: str, *, type: int = batch.INCREMENTAL, quorum: bool = False) -> LeaderAndIsrRequest:
    """Broker 1 leads partition 0 under leader epoch 3."""
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(leader=1, isr=[1], replicas=[1], leader_epoch=3)
    topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=name, topic_id=ID, partition_states=[state])
    return LeaderAndIsrRequest(type=type, is_k_raft_controller=quorum, topic_states=[topic])


@pytest.mark.parametrize(
    ("type", "quorum", "raised"),
    [(batch.INCREMENTAL, False, True), (batch.UNKNOWN, False, False), (batch.FULL, True, False)],
)
def test_a_role_under_an_epoch_that_has_been_is_named_once_and_waits_where_it_is_raised(
    caplog: pytest.LogCaptureFixture, type: int, quorum: bool, raised: bool
) -> None:
    """Apache Kafka's controllers, and those of a quorum, raise nothing for such an answer: the role is taken then."""
    logs: Any = {TopicPartition("t", 0): Held(ID, 2, 7), TopicPartition("u", 0): Held(ID, 3)}
    request = role("t", type=type, quorum=quorum)
    records, told = translation.leader_and_isr(Image(), 1, request)
    found = list(own_logs.outdated(request, logs, told))
    assert [(one.partition, one.epoch, one.latest) for one in found] == [(TopicPartition("t", 0), 3, 7)]
    assert own_logs.is_raised(request) is raised
    named: dict[Any, int] = {}
    for _ in range(2):
        own_logs.name_outdated(found, named, raised=raised)
    assert (
        caplog.text.count("t-0: leader epoch 3 is older than 7 of the log here: the data of ZooKeeper are older") == 1
    )
    assert [one.code for one in told] == [Code.NONE]
    assert [one.code for one in own_logs.held_back(found, records, told)] == [Code.FENCED_LEADER_EPOCH]
    assert [one.leader for one in records if isinstance(one, PartitionRecord)] == [NO_LEADER]
    assert not list(own_logs.outdated(role("u"), logs, told)), "a log of this very epoch is none of a later one"
    others: Any = {TopicPartition("t", 0): Held(bytes(16), 7)}
    assert not list(own_logs.outdated(role("t"), others, told)), "of another topic"
    stale = [one._replace(code=Code.STALE_CONTROLLER_EPOCH) for one in told]
    assert not list(own_logs.outdated(request, logs, stale)), "an old request that comes late says nothing of ZooKeeper"


@pytest.mark.parametrize("latest", [3 + own_logs.AHEAD_MAX + 1, 77_777_777, EPOCH_MAX])
def test_an_epoch_that_only_damage_can_have_made_holds_nothing_back(
    caplog: pytest.LogCaptureFixture, latest: int
) -> None:
    """The controller would have raised the epoch by one for years, or written one that nobody reads."""
    logs: Any = {TopicPartition("t", 0): Held(ID, 2, latest)}
    records, told = translation.leader_and_isr(Image(), 1, role("t"))
    found = list(own_logs.outdated(role("t"), logs, told))
    own_logs.name_outdated(found, {}, raised=True)
    assert own_logs.held_back(found, records, told) == told
    assert [one.leader for one in records if isinstance(one, PartitionRecord)] == [1]
    assert "its epochs are damaged" in caplog.text


def shown(name: str, *, replicas: list[int], version: int = 0, number: int = 0) -> UpdateMetadataRequest:
    """Broker 1 leads a partition under leader epoch 3."""
    state = UpdateMetadataRequest.UpdateMetadataPartitionState(
        partition_index=number, leader=1, isr=[1], replicas=replicas, leader_epoch=3, zk_version=version
    )
    topic = UpdateMetadataRequest.UpdateMetadataTopicState(topic_name=name, topic_id=ID, partition_states=[state])
    return UpdateMetadataRequest(topic_states=[topic])


def test_a_role_that_was_held_back_is_not_taken_from_what_all_brokers_are_shown() -> None:
    """An ISR that changes under the same leader epoch is shown before LeaderAndIsr: leading under the old epoch the log
    forgets the later ones."""
    image = Image()
    records, told = translation.leader_and_isr(image, 1, role("t"))
    logs: Any = {TopicPartition("t", 0): Held(ID, 2, 7)}
    own_logs.held_back(own_logs.outdated(role("t"), logs, told), records, told)
    image.apply_all(records, 0)
    assert translation.update_metadata(image, 1, shown("t", replicas=[1], version=6), {}) == []


def test_a_topic_whose_id_is_that_of_another_topic_s_log_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A replica under the wrong name begins empty, and whoever fetches by the id would cut the other's log to that."""
    logs: Any = {TopicPartition("t", 0): Held(ID, 2)}
    named: set[tuple[str, str]] = set()
    image = Image()  # of a broker that has just started, and was shown the copy's partitions on other brokers
    image.apply_all(translation.update_metadata(image, 1, shown("a-copy", replicas=[2], number=1), {}), 0)
    assert ID in image.topics
    for _ in range(2):
        believed, told = own_logs.without_copies(role("a-copy"), logs, named)
    assert believed.topic_states == []
    assert told == [("a-copy", ID, 0, Code.INCONSISTENT_TOPIC_ID)]
    assert caplog.text.count("topic a-copy is refused: its id is that of topic t, whose logs are here") == 1
    other: Any = {TopicPartition("t", 0): Held(bytes(16), 2)}  # Any: logs, as far as their ids
    for name, held in (("t", logs), ("a-copy", other)):
        request = role(name)
        assert own_logs.without_copies(request, held, named) == (request, [])
