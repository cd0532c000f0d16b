"""Partitions that this broker leads, in transactions that another broker coordinates: batches, markers, offsets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import moldau.broker.replicas.transactions
from moldau.broker.api import k00_produce
from moldau.model import Code, TopicPartition
from moldau.wire.batch import build
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest
from moldau.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from moldau.wire.messages.k27_write_txn_markers import WriteTxnMarkersRequest
from moldau.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from moldau.wire.records import metadata as records
from tests.packages.broker import data_cluster
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, run, until
from tests.packages.broker.group_cluster import GroupBroker, GroupCluster
from tests.packages.broker.hostile_peer import HostilePeer

STATE_ID, COORDINATOR = bytes([11] * 16), 5
Result = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


class Transactions:
    """A transaction coordinator that gives the codes of ``says``, and remembers what it was asked."""

    def __init__(self) -> None:
        self.says: list[Code] = []
        self.asked: list[tuple[bool, str, list[int]]] = []
        self.peer = HostilePeer(self.answer)
        self.peer.tame.add(AddPartitionsToTxnRequest.api_key)

    def answer(self, request: Any) -> AddPartitionsToTxnResponse:
        response = AddPartitionsToTxnResponse()
        for one in request.transactions:
            told = AddPartitionsToTxnResponse.AddPartitionsToTxnResult(transactional_id=one.transactional_id)
            response.results_by_transaction.append(told)
            for topic in one.topics:
                self.asked.append((one.verify_only, topic.name, list(topic.partitions)))
                code = self.says.pop(0) if self.says else Code.NONE
                parts = [Result(partition_index=number, partition_error_code=code) for number in topic.partitions]
                told.topic_results.append(
                    AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                        name=topic.name, results_by_partition=parts
                    )
                )
        return response


@asynccontextmanager
async def mixed(folder: Path) -> AsyncIterator[tuple[GroupCluster, Transactions]]:
    """Brokers 0 and 1, of which 0 leads a topic of two partitions, and the coordinator's broker 5."""
    coordinator = Transactions()
    async with GroupCluster(folder, 2) as cluster:
        port = await coordinator.peer.listen()
        try:
            endpoint = records.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=port)
            cluster.commit(
                records.RegisterBrokerRecord(
                    broker_id=COORDINATOR, broker_epoch=77, end_points=[endpoint], fenced=False
                )
            )
            cluster.create(COORDINATOR, topic="__transaction_state", id=STATE_ID)
            cluster.create(0, 1, topic="__consumer_offsets", id=bytes([9] * 16))
            cluster.create(0, 1, partitions=2)
            await cluster.loaded(0)
            yield cluster, coordinator
        finally:
            coordinator.peer.close()


@pytest.fixture(autouse=True)
def groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_cluster, "MiniBroker", GroupBroker)


def batch(sequence: int = 0, producer: int = 7, epoch: int = 0) -> bytes:
    return build(
        [(1_700_000_000_000, b"k", b"v", [])], producer_id=producer, producer_epoch=epoch, base_sequence=sequence,
        transactional=True,
    )  # fmt: skip


async def produce(cluster: GroupCluster, *batches: bytes, version: int = 11, id: str = "x") -> list[Code]:
    """The codes of a batch to each partition."""
    parts = [ProduceRequest.PartitionProduceData(index=n, records=data) for n, data in enumerate(batches)]
    topic = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=parts)
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic], transactional_id=id)
    answer = await cluster.ask(0, request, version)
    return [Code(slot.error_code) for slot in answer.responses[0].partition_responses]


async def mark(
    cluster: GroupCluster, *, commits: bool = True, epoch: int = 0, coordinator: int = 0, level: int = 0,
    topic: str = TOPIC, partitions: tuple[int, ...] = (0,), producer: int = 7,
) -> list[Code]:  # fmt: skip
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer, producer_epoch=epoch, transaction_result=commits, coordinator_epoch=coordinator,
        transaction_version=level,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
    )  # fmt: skip
    answer = await cluster.ask(0, WriteTxnMarkersRequest(markers=[marker]), 2)
    return [Code(one.error_code) for one in answer.markers[0].topics[0].partitions]


def stable(cluster: GroupCluster) -> tuple[int, int]:
    """The last stable offset and the high watermark of the first partition."""
    replica = cluster.brokers[0].replica()
    high = replica.machine.high_watermark
    return replica.log.producers.stable_offset(high), high


def test_a_transaction_is_in_the_log_once_its_coordinator_knows_of_it_and_ends_with_its_marker(tmp_path: Path) -> None:
    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            assert await produce(cluster, batch(), batch()) == [Code.NONE, Code.NONE]
            assert coordinator.asked == [(True, TOPIC, [0, 1])]
            assert await produce(cluster, batch(1)) == [Code.NONE]
            assert len(coordinator.asked) == 1, "the transaction is there already"
            assert stable(cluster) == (0, 2)
            assert await mark(cluster, partitions=(0, 1, 9)) == [Code.NONE, Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]
            assert stable(cluster) == (3, 3)
            assert await produce(cluster, batch(2), version=12) == [Code.NONE]
            assert coordinator.asked[1:] == [(False, TOPIC, [0])], "clients since then leave it to the leader"

    run(work)


@pytest.mark.parametrize(
    ("says", "hears"),
    [
        ([Code.INVALID_TXN_STATE], Code.INVALID_TXN_STATE),
        ([Code.TRANSACTION_ABORTABLE], Code.TRANSACTION_ABORTABLE),
        ([Code.INVALID_PRODUCER_EPOCH], Code.INVALID_PRODUCER_EPOCH),
        ([Code.NOT_COORDINATOR], Code.NOT_ENOUGH_REPLICAS),
        ([Code.COORDINATOR_LOAD_IN_PROGRESS], Code.NOT_ENOUGH_REPLICAS),
        ([Code.CONCURRENT_TRANSACTIONS] * 10_000, Code.NOT_ENOUGH_REPLICAS),
        ([Code.CONCURRENT_TRANSACTIONS, Code.NONE], Code.NONE),
    ],
)
def test_what_the_coordinator_does_not_know_is_not_written(tmp_path: Path, says: list[Code], hears: Code) -> None:
    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            coordinator.says = says
            if hears is Code.NONE:  # it has to be asked again, which no slow machine is to be too late for
                cluster.brokers[0].config.values["add.partitions.to.txn.retry.backoff.max.ms"] = 60_000
            assert await produce(cluster, batch(), version=12) == [hears]
            assert cluster.brokers[0].replica().log.log_end_offset == (hears is Code.NONE)

    run(work)


def test_without_a_coordinator_transactions_are_refused_and_with_one_it_is_named(tmp_path: Path) -> None:
    initial = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)

    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            found = await cluster.ask(0, FindCoordinatorRequest(key="x", key_type=1), 3)
            assert (found.error_code, found.node_id, found.port) == (Code.NONE, COORDINATOR, coordinator.peer.port)
            assert (await cluster.ask(0, initial, 3)).error_code == Code.NOT_COORDINATOR
            cluster.commit(records.PartitionChangeRecord(topic_id=STATE_ID, partition_id=0, leader=0))
            assert await produce(cluster, batch()) == [Code.INVALID_TXN_STATE]
            found = await cluster.ask(0, FindCoordinatorRequest(key="x", key_type=1), 3)
            assert found.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            refused = await cluster.ask(0, initial, 3)
            assert refused.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "named by a broker of Kafka"
            cluster.commit(records.PartitionChangeRecord(topic_id=STATE_ID, partition_id=0, leader=-1))
            assert await produce(cluster, batch()) == [Code.NOT_ENOUGH_REPLICAS], "it may come back"
            assert coordinator.asked == []

    run(work)


def test_batches_of_a_producer_stay_in_order_while_its_coordinator_is_asked(tmp_path: Path) -> None:
    async def work() -> None:
        async with mixed(tmp_path) as (cluster, _):
            for epoch in range(5):
                codes = await asyncio.gather(*[produce(cluster, batch(n, epoch=epoch)) for n in range(30)])
                assert codes == [[Code.NONE]] * 30
                assert await mark(cluster, epoch=epoch) == [Code.NONE]

    run(work)


@asynccontextmanager
async def asking(cluster: GroupCluster) -> AsyncIterator[asyncio.Event]:
    """The coordinator's answers are kept back until the event is set."""
    transactions = cluster.brokers[0].replicas.transactions
    requests, going = transactions.add_or_verify, asyncio.Event()

    async def slowly(who: Any, partitions: Any, again: Any) -> Any:
        found = await requests(who, partitions, again)
        await going.wait()
        return found

    transactions.add_or_verify = slowly  # type: ignore[method-assign]
    yield going
    transactions.add_or_verify = requests  # type: ignore[method-assign]


def test_a_leader_epoch_that_begins_while_the_coordinator_is_asked_has_the_client_try_again(tmp_path: Path) -> None:
    """INVALID_TXN_STATE would end the producer's life, though nothing has ended its transaction."""

    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            async with asking(cluster) as going:
                producing = asyncio.ensure_future(produce(cluster, batch()))
                await until(lambda: coordinator.asked, "the coordinator is asked")
                cluster.elect(1, (0, 1))
                cluster.elect(0, (0, 1))
                going.set()
                assert await producing == [Code.NOT_LEADER_OR_FOLLOWER]
            assert await produce(cluster, batch()) == [Code.NONE]
            assert len(coordinator.asked) == 2

    run(work)


def test_a_transaction_that_ends_while_its_coordinator_is_asked_is_not_begun_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with mixed(tmp_path) as (cluster, _):
            transactions = cluster.brokers[0].replicas.transactions
            async with asking(cluster) as going:
                producing = asyncio.ensure_future(produce(cluster, batch()))
                another = await cluster.connect_another(0)
                await until(lambda: transactions.waiting_bytes, "the coordinator is asked")
                cluster.lines[0] = another
                assert await mark(cluster, commits=False) == [Code.NONE]
                going.set()
                assert await producing == [Code.INVALID_TXN_STATE]
            assert stable(cluster) == (1, 1), "nothing is open, though no marker will ever come"
            assert transactions.waiting_bytes == 0

    run(work)


def test_what_waits_for_coordinators_is_bounded_for_the_whole_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request that waits is copied: a client that sends without end would take all memory."""

    async def work() -> None:
        async with mixed(tmp_path) as (cluster, _):
            transactions = cluster.brokers[0].replicas.transactions
            requests, going = transactions.add_or_verify, asyncio.Event()

            async def slowly(who: Any, partitions: Any, again: Any) -> Any:
                await going.wait()
                return await requests(who, partitions, again)

            transactions.add_or_verify = slowly  # type: ignore[method-assign]
            monkeypatch.setattr(moldau.broker.replicas.transactions, "WAITING_BYTES_MAX", 10_000)
            lines = [await cluster.connect_another(0) for _ in range(4)]
            asked = []
            for number, line in enumerate(lines):
                cluster.lines[0] = line
                asked.append(asyncio.ensure_future(produce(cluster, batch(producer=number), id=f"x{number}")))
                await asyncio.sleep(0)
            await until(lambda: sum(one.done() for one in asked) == 2, "those beyond are refused")
            refused = [one for one in asked if one.done()]
            assert {code for one in refused for code in one.result()} == {Code.NOT_ENOUGH_REPLICAS}
            assert 0 < transactions.waiting_bytes <= 10_000
            going.set()
            codes = [code for one in asked for code in await one]
            assert sorted(codes) == [Code.NONE] * 2 + [Code.NOT_ENOUGH_REPLICAS] * 2
            assert transactions.waiting_bytes == 0

    run(work)


def test_all_who_wait_for_a_coordinator_share_one_connection(tmp_path: Path) -> None:
    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            wanted = [produce(cluster, batch(producer=number), id=f"x{number}") for number in range(8)]
            assert await asyncio.gather(*wanted) == [[Code.NONE]] * 8
            assert (len(coordinator.asked), coordinator.peer.connections) == (8, 1)
            coordinator.peer.close()
            await until(lambda: transactions_line_is_closed(cluster), "the connection has ended")
            assert await produce(cluster, batch(producer=9), id="y") == [Code.NOT_ENOUGH_REPLICAS]
            await coordinator.peer.listen()
            endpoint = records.RegisterBrokerRecord.BrokerEndpoint(
                name="PLAINTEXT", host="127.0.0.1", port=coordinator.peer.port
            )
            cluster.commit(
                records.RegisterBrokerRecord(
                    broker_id=COORDINATOR, broker_epoch=78, end_points=[endpoint], fenced=False
                )
            )
            assert await produce(cluster, batch(producer=9), id="y") == [Code.NONE]

    run(work)


def transactions_line_is_closed(cluster: GroupCluster) -> bool:
    return all(made.result().closed for made in cluster.brokers[0].replicas.transactions._lines.values())


def test_verification_can_be_left_out_but_not_the_telling(tmp_path: Path) -> None:
    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            cluster.brokers[0].config.adopt({"transaction.partition.verification.enable": "false"})
            assert await produce(cluster, batch(), version=11) == [Code.NONE]
            assert coordinator.asked == []
            assert await produce(cluster, batch(producer=8), version=12) == [Code.NONE]
            assert coordinator.asked == [(False, TOPIC, [0])]

    run(work)


def test_the_end_of_the_transaction_before_is_not_that_of_the_one_that_begins(tmp_path: Path) -> None:
    """The client begins the next one while the markers of the last are written (transaction.version 2)."""

    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            assert await produce(cluster, batch(), version=12) == [Code.NONE]
            # It has to be asked again, which no slow machine is to be too late for.
            cluster.brokers[0].config.values["add.partitions.to.txn.retry.backoff.max.ms"] = 60_000
            coordinator.says = [Code.CONCURRENT_TRANSACTIONS, Code.CONCURRENT_TRANSACTIONS]
            another = await cluster.connect_another(0)
            line = cluster.lines[0]
            producing = asyncio.ensure_future(produce(cluster, batch(epoch=1), version=12))
            await until(lambda: len(coordinator.asked) == 2, "the coordinator says that another has to end")
            cluster.lines[0] = another
            assert await mark(cluster, epoch=1, level=2) == [Code.NONE]
            cluster.lines[0] = line
            assert await producing == [Code.NONE]

    run(work)


def test_markers_of_deposed_coordinators_and_producers_are_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with mixed(tmp_path) as (cluster, _):
            assert await produce(cluster, batch(epoch=4)) == [Code.NONE]
            assert await mark(cluster, epoch=3) == [Code.INVALID_PRODUCER_EPOCH]
            assert await mark(cluster, epoch=4, producer=-1) == await mark(cluster, epoch=-1) == [Code.INVALID_REQUEST]
            assert await mark(cluster, epoch=4, level=2) == [Code.INVALID_PRODUCER_EPOCH], "KIP-1228"
            assert stable(cluster)[0] == 0
            assert await mark(cluster, epoch=5, level=2, coordinator=8) == [Code.NONE]
            assert stable(cluster)[0] == 2
            assert await mark(cluster, epoch=5, level=2, coordinator=8) == [Code.NONE], "asked for twice"
            assert await mark(cluster, epoch=5, coordinator=7) == [Code.TRANSACTION_COORDINATOR_FENCED]
            assert await produce(cluster, batch(epoch=4)) == [Code.INVALID_PRODUCER_EPOCH]
            assert await produce(cluster, batch(epoch=5)) == [Code.NONE]

    run(work)


def test_no_turn_looks_at_very_many_partitions_of_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a request's were looked up three times in one step each, and copied in one: 60,000 in 137 ms."""
    looked = most = 0
    find = k00_produce._replica

    def turned() -> None:
        nonlocal looked
        looked = 0

    def counted(*args: Any) -> Any:
        nonlocal looked, most
        if not looked:
            asyncio.get_running_loop().call_soon(turned)
        looked += 1
        most = max(most, looked)
        return find(*args)

    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            monkeypatch.setattr(k00_produce, "_replica", counted)
            assert set(await produce(cluster, *[batch()] * 1_000)) == {Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION}
            assert coordinator.asked == [(True, TOPIC, [0, 1])]
            assert 0 < most <= cluster.brokers[0].world.step

    run(work)


def test_a_partition_that_is_named_twice_is_asked_about_once_and_forgotten(tmp_path: Path) -> None:
    """It was counted twice and let go of once."""

    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):
            parts = [ProduceRequest.PartitionProduceData(index=0, records=batch(number)) for number in range(2)]
            topic = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=parts)
            request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic], transactional_id="x")
            answer = await cluster.ask(0, request, 11)
            assert [slot.error_code for slot in answer.responses[0].partition_responses] == [Code.NONE] * 2
            assert coordinator.asked == [(True, TOPIC, [0])]
            assert not cluster.brokers[0].replicas.transactions._asked

    run(work)


def test_offsets_count_when_the_marker_of_their_transaction_is_committed(tmp_path: Path) -> None:
    async def work() -> None:
        async with mixed(tmp_path) as (cluster, coordinator):

            async def commit(offset: int, version: int = 5) -> Code:
                part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                    partition_index=0, committed_offset=offset, committed_metadata=""
                )
                topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[part])
                request = TxnOffsetCommitRequest(
                    transactional_id="x", group_id="g", producer_id=7, producer_epoch=0, topics=[topic]
                )
                answer = await cluster.ask(0, request, version)
                return Code(answer.topics[0].partitions[0].error_code)

            def stored() -> int | None:
                group = cluster.coordinator(0).shards[0].shard.groups.get("g")
                found = None if group is None else group.offsets.get(TopicPartition(TOPIC, 0))
                return None if found is None else found.offset

            coordinator.says = [Code.NOT_COORDINATOR, Code.NONE]
            assert await commit(5) == Code.COORDINATOR_LOAD_IN_PROGRESS
            assert await commit(5) == Code.NONE
            assert coordinator.asked[-1] == (False, "__consumer_offsets", [0])
            assert await commit(6, version=3) == Code.NONE
            assert len(coordinator.asked) == 2
            assert stored() is None
            cluster.lead(1, (0, 1))
            await cluster.loaded(1)
            cluster.lead(0, (0, 1))  # whoever coordinates next has them from the log
            await cluster.loaded(0)
            assert await mark(cluster, topic="__consumer_offsets") == [Code.NONE]
            await until(lambda: stored() == 6, "the offset is the group's")
            assert await commit(9, version=4) == Code.NONE
            assert coordinator.asked[-1] == (True, "__consumer_offsets", [0])
            assert await mark(cluster, topic="__consumer_offsets", commits=False) == [Code.NONE]
            assert stored() == 6

    run(work)
