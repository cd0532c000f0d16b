"""What read_committed consumers are given of logs with transactions, which Apache Kafka's coordinator wrote."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moldau.model import Code
from moldau.wire.batch import build, control_key, headers
from moldau.wire.messages.k01_fetch import FetchResponse
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from tests.packages.broker.data_cluster import TOPIC, DataCluster, MiniBroker, run, until

COMMITTED = 1
ABORT, COMMIT = 0, 1


def data(broker: MiniBroker, producer: int, sequence: int = 0) -> None:
    """One record of an open transaction, at the log's end."""
    log = broker.replica().log
    fields = {"base_offset": log.log_end_offset, "producer_id": producer, "producer_epoch": 0, "leader_epoch": 0}
    log.append_follower(build([(1, b"k", b"v", [])], base_sequence=sequence, transactional=True, **fields))


def marker(broker: MiniBroker, producer: int, type: int) -> None:
    """The end of a transaction, as a leader has it from its coordinator, replicated at once."""
    replica = broker.replica()
    end = replica.log.log_end_offset
    record = (1, control_key(type), b"\0\0\0\0\0\0", [])
    replica.log.append_follower(
        build(
            [record], base_offset=end, producer_id=producer, producer_epoch=0, leader_epoch=0, base_sequence=-1,
            transactional=True, control=True,
        )
    )  # fmt: skip


async def replicated(cluster: DataCluster, offset: int) -> None:
    """A plain record makes the leader look at its log's end; everything is replicated then."""
    await cluster.produce(0, build([(1, b"k", b"v", [])]))
    await until(lambda: cluster.brokers[0].replica().machine.high_watermark >= offset, "the watermark")


def offsets(part: FetchResponse.PartitionData) -> list[int]:
    return [header.base_offset for _, header in headers(bytes(part.records or b""))]


def test_a_reader_of_what_is_decided_stops_at_an_open_transaction_and_is_told_of_aborted_ones(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            broker = cluster.live[0]
            data(broker, 7)
            marker(broker, 7, ABORT)
            data(broker, 8)
            marker(broker, 8, COMMIT)
            data(broker, 9)
            await replicated(cluster, 6)
            part = await cluster.fetch(0, 0, isolation_level=COMMITTED)
            assert (part.high_watermark, part.last_stable_offset, offsets(part)) == (6, 4, [0, 1, 2, 3])
            assert [(one.producer_id, one.first_offset) for one in part.aborted_transactions or []] == [(7, 0)]
            after = await cluster.fetch(0, 2, isolation_level=COMMITTED)
            assert (offsets(after), after.aborted_transactions) == ([2, 3], [])
            beyond = await cluster.fetch(0, 5, isolation_level=COMMITTED)
            assert (beyond.error_code, offsets(beyond)) == (Code.NONE, [])
            plain = await cluster.fetch(0, 0)
            assert (offsets(plain), plain.aborted_transactions) == ([0, 1, 2, 3, 4, 5], None)

    run(scenario)


def test_who_waits_for_what_is_decided_is_answered_when_the_transaction_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            broker = cluster.live[0]
            data(broker, 9)
            await replicated(cluster, 2)
            line = await cluster.connect_another(0)
            waiting = asyncio.ensure_future(
                cluster.fetch(0, 0, isolation_level=COMMITTED, max_wait_ms=60_000, over=line)
            )
            await until(lambda: len(broker.replicas.purgatory) == 1, "a fetch that waits")
            await replicated(cluster, 3)  # more, and nothing that is decided
            assert not waiting.done()
            marker(broker, 9, COMMIT)
            await replicated(cluster, 5)
            assert offsets(await waiting)[:1] == [0]

    run(scenario)


def test_offsets_of_what_is_decided_are_listed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            broker = cluster.live[0]
            await replicated(cluster, 1)
            data(broker, 9)
            await replicated(cluster, 3)
            found = {}
            for level in (0, COMMITTED):
                asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
                topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[asked])
                request = ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[topic])
                response = await cluster.ask(0, request, 8)
                found[level] = response.topics[0].partitions[0].offset
            assert found == {0: 3, COMMITTED: 1}

    run(scenario)
