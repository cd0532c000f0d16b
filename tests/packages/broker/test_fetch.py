"""Fetch: what is answered at once, what waits, what a session leaves out, who is refused how."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.replicas.fetch.partition import FetchPartition
from moldau.broker.replicas.fetch.reader import FETCH_BYTES, PARTITION_BYTES
from moldau.client.connection import connect
from moldau.model import Code, TopicPartition
from moldau.storage.log import Log
from moldau.wire.batch import headers
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import TOPIC_ID, DataCluster, batch, records_of, run, until


def offsets(data: FetchResponse.PartitionData) -> list[int]:
    assert data.records is not None, "no records are b'', never null"
    return [header.base_offset for _, header in headers(data.records)]


def test_an_empty_partition_is_answered_at_once_only_when_the_client_will_not_wait(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            data = await cluster.fetch(0, 0, max_wait_ms=0)
            assert (records_of(data), data.high_watermark, data.aborted_transactions) == (b"", 0, None)
            loop = asyncio.get_running_loop()
            began = loop.time()
            await cluster.fetch(0, 0, max_wait_ms=60)
            assert loop.time() - began >= 0.055
            assert not len(cluster.brokers[0].replicas.purgatory)

    run(work)


def test_a_parked_fetch_is_answered_by_what_arrives(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            parked = asyncio.ensure_future(cluster.fetch(0, 0, max_wait_ms=30_000))
            await until(lambda: len(cluster.brokers[0].replicas.purgatory) == 2, "the consumer and the follower wait")
            line = cluster.lines.pop(0)  # the parked fetch keeps its place in line: others need a line of their own
            await cluster.produce(0, batch(3))
            assert offsets(await parked) == [0]
            line.close()

    run(work)


def test_a_parked_fetch_counts_what_it_holds_and_one_of_a_session_holds_nothing_more(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=20)
            held = cluster.brokers[0].socket_listener.memory.parked
            every = [(number, 0) for number in range(20)]
            in_session = cluster.fetch_request(*every, session_id=0, session_epoch=0)
            opened: FetchResponse = await cluster.ask(0, in_session, 12)
            again = cluster.fetch_request(session_id=opened.session_id, session_epoch=1, max_wait_ms=30_000)
            one, other = await cluster.connect_another(0), await cluster.connect_another(0)
            kept = asyncio.ensure_future(cluster.ask(0, again, 12, one))
            waits = cluster.brokers[0].replicas.purgatory
            await until(lambda: len(waits) == 1, "a fetch of a session waits")
            assert held.bytes == 0
            whole = cluster.fetch_request(*every, max_wait_ms=30_000, session_epoch=-1)
            alone = asyncio.ensure_future(cluster.ask(0, whole, 12, other))
            await until(lambda: len(waits) == 2, "and one that names its partitions")
            assert held.bytes == FETCH_BYTES + 20 * PARTITION_BYTES
            await cluster.produce(0, batch(), number=3)
            await asyncio.gather(kept, alone)
            await until(lambda: not held.bytes, "it was answered")

    run(work)


@pytest.mark.parametrize("max_wait_ms", [0, 30])
def test_an_answered_fetch_without_a_session_is_freed_without_the_collector(tmp_path: Path, max_wait_ms: int) -> None:
    """Partitions and their reader know each other; a node collects garbage once in fifty million objects, and six idle
    consumers of 300 partitions took 1.5 MB a second of it."""

    def held() -> int:
        return sum(type(one) is FetchPartition for one in gc.get_objects())

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            gc.collect()
            before = held()
            gc.disable()
            try:
                await cluster.fetch(0, 0, max_wait_ms=max_wait_ms)
                await until(lambda: held() == before, "nobody holds what was asked")
            finally:
                gc.enable()

    run(work)


def test_a_consumer_sees_nothing_above_the_watermark(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path) as cluster:
            cluster.create(0, 1, 2)
            await cluster.produce(0, batch())
            cluster.kill(1)
            await cluster.produce(0, batch(), acks=1)
            data = await cluster.fetch(0, 0)
            assert (offsets(data), data.high_watermark) == ([0], 1)
            data = await cluster.fetch(0, 1)
            assert (data.error_code, records_of(data)) == (0, b""), "there, but not to be seen yet"
            data = await cluster.fetch(0, 3)
            assert data.error_code == Code.OFFSET_OUT_OF_RANGE
            assert (data.high_watermark, records_of(data)) == (-1, b"")

    run(work)


def test_min_bytes_are_waited_for(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            one = batch(1, 100)
            parked = asyncio.ensure_future(cluster.fetch(0, 0, max_wait_ms=30_000, min_bytes=3 * len(one)))
            await until(lambda: len(cluster.brokers[0].replicas.purgatory) == 1)
            cluster.lines.pop(0)
            await cluster.produce(0, one)
            await cluster.produce(0, one)
            assert not parked.done()
            await cluster.produce(0, one)
            assert offsets(await parked) == [0, 1, 2]

    run(work)


def test_limits_are_kept_in_whole_batches_save_for_the_first(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            one = batch(1, 1000)
            for number in (0, 1):
                for _ in range(4):
                    await cluster.produce(0, one, number=number)
            assert offsets(await cluster.fetch(0, 0, each_bytes=1)) == [0]
            assert offsets(await cluster.fetch(0, 0, each_bytes=2 * len(one) + 10)) == [0, 1]
            request = cluster.fetch_request((0, 0), (1, 0), max_bytes=3 * len(one))
            response = await cluster.ask(0, request, 12)
            first, second = response.responses[0].partitions
            assert (offsets(first), offsets(second)) == ([0, 1, 2], [])

    run(work)


def test_behind_a_batch_that_has_no_room_nothing_is_looked_for_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two thousand partitions was looked up in its index twice, in each of the forty fetches that a consumer's
    megabyte at a time took: 140 ms each."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=9)
            one = batch(1, 1000)
            for number in range(9):
                await cluster.produce(0, one, number=number)
            looked: list[TopicPartition] = []
            whole = Log.slice

            def looks(log: Log, offset: int, *args: int, **terms: Any) -> Any:
                looked.append(log.partition)
                return whole(log, offset, *args, **terms)

            monkeypatch.setattr(Log, "slice", looks)
            request = cluster.fetch_request(
                *((number, 0) for number in range(9)), max_bytes=3 * len(one) - 1, min_bytes=3 * len(one) - 1,
                max_wait_ms=600_000,
            )  # fmt: skip
            response = await cluster.ask(0, request, 12)
            found = [offsets(part) for topic in response.responses for part in topic.partitions]
            assert sorted(found, reverse=True) == [[0], [0], *[[]] * 7]
            assert len(looked) == 3

    run(work)


@pytest.mark.parametrize("version", [4, 7, 12, 13, 17])
def test_unknown_topics_and_partitions_are_named_in_every_version(tmp_path: Path, version: int) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0)
            parts = [FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)]
            request = cluster.fetch_request((9, 0))
            request.topics.append(FetchRequest.FetchTopic(topic="none", topic_id=bytes([9] * 16), partitions=parts))
            response = await cluster.ask(0, request, version)
            codes = [topic.partitions[0].error_code for topic in response.responses]
            unknown = Code.UNKNOWN_TOPIC_ID if version >= 13 else Code.UNKNOWN_TOPIC_OR_PARTITION
            assert codes == [Code.UNKNOWN_TOPIC_OR_PARTITION, unknown]
            response = await cluster.ask(1, cluster.fetch_request((0, 0)), version)
            part = response.responses[0].partitions[0]
            assert part.error_code == Code.NOT_LEADER_OR_FOLLOWER
            if version >= 12:
                assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (0, 0)
            if version >= 16:
                assert [(n.node_id, n.port) for n in response.node_endpoints] == [(0, cluster.brokers[0].port)]

    run(work)


def test_epochs_that_do_not_match_are_told_apart_and_wake_who_waits(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            parked = asyncio.ensure_future(cluster.fetch(0, 0, max_wait_ms=30_000, version=4))
            await until(lambda: len(cluster.brokers[0].replicas.purgatory) >= 2)
            cluster.elect(1, (0, 1))
            assert (await parked).error_code == Code.NOT_LEADER_OR_FOLLOWER
            for epoch, code in ((0, Code.FENCED_LEADER_EPOCH), (1, Code.NONE), (2, Code.UNKNOWN_LEADER_EPOCH)):
                request = cluster.fetch_request((0, 0))
                request.topics[0].partitions[0].current_leader_epoch = epoch
                response = await cluster.ask(1, request, 12)
                assert response.responses[0].partitions[0].error_code == code

    run(work)


def test_a_consumer_of_another_history_is_told_where_it_parts(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            cluster.elect(1, (0, 1))
            await cluster.produce(1, batch(5))
            request = cluster.fetch_request((0, 8), max_wait_ms=30_000)
            request.topics[0].partitions[0].last_fetched_epoch = 0
            response = await cluster.ask(1, request, 12)
            parted = response.responses[0].partitions[0].diverging_epoch
            assert (parted.epoch, parted.end_offset) == (0, 5)

    run(work)


def test_who_was_told_where_histories_part_is_told_the_watermark_after_that(tmp_path: Path) -> None:
    """Nothing may be new afterwards: a follower that was cut would stay below the watermark until the next produce."""

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            cluster.elect(1, (0, 1))
            await cluster.produce(1, batch(5))
            leader = next(iter(cluster.brokers[1].replicas.by_key.values()))
            await until(lambda: leader.machine.high_watermark == 10)

            async def ask(offset: int, epoch: int, session: tuple[int, int]) -> FetchResponse:
                request = cluster.fetch_request((0, offset), session_id=session[0], session_epoch=session[1])
                request.topics[0].partitions[0].last_fetched_epoch = epoch
                response: FetchResponse = await cluster.ask(1, request, 13)
                return response

            first = await ask(8, 0, (0, 0))
            assert first.responses[0].partitions[0].diverging_epoch.end_offset == 5
            then = await ask(10, 1, (first.session_id, 1))
            assert [part.high_watermark for topic in then.responses for part in topic.partitions] == [10]
            assert (await ask(10, 1, (first.session_id, 2))).responses == []

    run(work)


def test_a_follower_that_names_a_partition_again_is_told_the_watermark_again(tmp_path: Path) -> None:
    """It drops what an answer says of an epoch that is over for it, and nothing may be new afterwards."""

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            leader = next(iter(cluster.brokers[0].replicas.by_key.values()))
            await until(lambda: leader.machine.high_watermark == 5)

            epoch = cluster.brokers[1].epoch
            follower = {"replica_state": FetchRequest.ReplicaState(replica_id=1, replica_epoch=epoch)}

            async def ask(*parts: tuple[int, int], session: tuple[int, int]) -> list[int]:
                request = cluster.fetch_request(*parts, session_id=session[0], session_epoch=session[1], **follower)
                response: FetchResponse = await cluster.ask(0, request, 17)
                sessions.append(response.session_id)
                return [part.high_watermark for topic in response.responses for part in topic.partitions]

            sessions: list[int] = []
            assert await ask((0, 5), session=(0, 0)) == [5]
            assert await ask((0, 5), session=(sessions[0], 1)) == [5]
            assert await ask((0, 5), session=(sessions[0], 2)) == [5]
            assert await ask(session=(sessions[0], 3)) == []

    run(work)


def test_a_session_names_everything_once_and_then_what_is_new(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=3)

            async def ask(*parts: tuple[int, int], session: tuple[int, int], **fields: object) -> FetchResponse:
                request = cluster.fetch_request(*parts, session_id=session[0], session_epoch=session[1], **fields)
                response: FetchResponse = await cluster.ask(0, request, 13)
                return response

            def shown(response: FetchResponse) -> list[int]:
                return [part.partition_index for topic in response.responses for part in topic.partitions]

            first = await ask((0, 0), (1, 0), (2, 0), session=(0, 0))
            id = first.session_id
            assert id > 0
            assert shown(first) == [0, 1, 2]
            assert shown(await ask(session=(id, 1))) == []
            await cluster.produce(0, batch(2), number=1)
            second = await ask(session=(id, 2))
            assert shown(second) == [1]
            assert offsets(second.responses[0].partitions[0]) == [0]
            assert shown(await ask((1, 2), session=(id, 3))) == []
            gone = [FetchRequest.ForgottenTopic(topic_id=TOPIC_ID, partitions=[1])]
            await ask(session=(id, 4), forgotten_topics_data=gone)
            await cluster.produce(0, batch(2), number=1)
            await cluster.produce(0, batch(2), number=2)
            assert shown(await ask(session=(id, 5))) == [2]
            assert (await ask(session=(id, 5))).error_code == Code.INVALID_FETCH_SESSION_EPOCH
            assert (await ask(session=(id + 1, 6))).error_code == Code.FETCH_SESSION_ID_NOT_FOUND
            closed = await ask((0, 0), session=(id, -1))
            assert (closed.session_id, shown(closed)) == (0, [0])
            assert (await ask(session=(id, 6))).error_code == Code.FETCH_SESSION_ID_NOT_FOUND
            assert not len(cluster.brokers[0].replicas.sessions)
            assert not any(replica.consumers for replica in cluster.brokers[0].replicas.by_key.values())

    run(work)


@pytest.mark.parametrize("room", [0, 10, 1100], ids=["full", "a little left", "a batch of the third still fits"])
def test_what_did_not_fit_is_next_though_nobody_names_it_again(tmp_path: Path, room: int) -> None:
    """A session forgets no partition that an answer had no room for, and those that were served go behind it."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=3)
            large, small = batch(1, 2000), batch(1, 1000)
            for number, one in enumerate((large, large, small)):
                await cluster.produce(0, one, number=number)
                await cluster.produce(0, one, number=number)

            async def ask(*parts: tuple[int, int], session: tuple[int, int]) -> dict[int, list[int]]:
                request = cluster.fetch_request(
                    *parts, session_id=session[0], session_epoch=session[1], max_bytes=len(large) + room,
                    max_wait_ms=120_000,
                )  # fmt: skip
                response: FetchResponse = await asyncio.wait_for(cluster.ask(0, request, 13), 60)
                sessions.append(response.session_id)
                found = [part for topic in response.responses for part in topic.partitions]
                return {part.partition_index: offsets(part) for part in found if part.records}

            sessions: list[int] = []
            got: dict[int, list[int]] = {0: [], 1: [], 2: []}
            answer = await ask((0, 0), (1, 0), (2, 0), session=(0, 0))
            for turn in range(1, 7):
                for number, found in answer.items():
                    got[number] += found
                if all(len(found) == 2 for found in got.values()):
                    return
                if turn == 2:
                    assert got[1], "the first partition does not come first for ever"
                answer = await ask(
                    *((number, found[-1] + 1) for number, found in answer.items()), session=(sessions[0], turn)
                )
            raise AssertionError(f"six answers brought only {got}")

    run(work)


def test_a_session_survives_its_topics_second_life(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            await cluster.produce(0, batch(2))
            request = cluster.fetch_request((0, 0), session_id=0, session_epoch=0)
            id = (await cluster.ask(0, request, 12)).session_id
            cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
            request = cluster.fetch_request(session_id=id, session_epoch=1)
            (topic,) = (await cluster.ask(0, request, 12)).responses
            assert topic.partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
            cluster.create(0, id=bytes([8] * 16))
            request = cluster.fetch_request((0, 0), session_id=id, session_epoch=2)
            (topic,) = (await cluster.ask(0, request, 12)).responses
            assert (topic.partitions[0].error_code, topic.partitions[0].high_watermark) == (0, 0)

    run(work)


def test_a_reader_is_sent_to_a_replica_in_its_rack(tmp_path: Path) -> None:
    async def work() -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        async with DataCluster(tmp_path, 2, replica_selector_class=selector) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            await until(lambda: cluster.brokers[1].replica().machine.high_watermark == 5)
            data = await cluster.fetch(0, 0, rack_id="rack-1", max_wait_ms=30_000)
            assert (data.preferred_read_replica, records_of(data)) == (1, b"")
            data = await cluster.fetch(1, 0, rack_id="rack-1")
            assert offsets(data) == [0]
            data = await cluster.fetch(0, 0, rack_id="rack-0")
            assert (data.preferred_read_replica, offsets(data)) == (-1, [0])

    run(work)


def test_a_reader_is_sent_to_no_replica_that_is_out_of_sync(tmp_path: Path) -> None:
    """It may lag behind for good, and its readers with it (KAFKA-14372)."""

    async def work() -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        async with DataCluster(tmp_path, 2, replica_selector_class=selector) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            await until(lambda: cluster.brokers[1].replica().machine.high_watermark == 5)
            cluster.kill(1)
            cluster.commit(records.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[0]))
            assert cluster.brokers[0].replica().machine.followers[1].leo == 5
            data = await cluster.fetch(0, 0, rack_id="rack-1", max_wait_ms=30_000)
            assert (data.preferred_read_replica, offsets(data)) == (-1, [0])

    run(work)


def test_a_partition_that_joins_a_waiting_follower_does_not_wait_with_it(tmp_path: Path) -> None:
    """The leader of partition 0 answers a parked fetch when the same follower has more to ask."""

    async def work() -> None:
        async with DataCluster(tmp_path, 3, replica_fetch_wait_max_ms="100000") as cluster:
            cluster.create(0, 2)
            await until(lambda: len(cluster.brokers[0].replicas.purgatory) == 1, "the follower's fetch waits")
            cluster.create(1, 0, 2, topic="second", id=bytes([3] * 16))
            await until(lambda: len(cluster.brokers[1].replicas.purgatory) == 2)
            cluster.commit(
                records.PartitionChangeRecord(topic_id=bytes([3] * 16), partition_id=0, leader=0, isr=[0, 2])
            )
            second = cluster.brokers[0].replicas.by_key[(bytes([3] * 16), 0)]
            await until(
                lambda: second.machine.followers[2].fetched,
                "before the wait is over, which is longer than this test waits",
            )
            appended = cluster.brokers[0].replicas.append(second, batch(), -1)
            assert (appended.code, appended.first_offset) == (Code.NONE, 0)
            await until(lambda: second.machine.acknowledged(1) is Code.NONE, "followers have the record")
            assert all(2 in part.new_isr for part in cluster.altered), "nor by being dropped"

    run(work)


def test_what_joins_while_two_requests_are_under_way_does_not_wait_for_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover of many partitions takes turns: some come when the follower has asked twice already."""

    async def work() -> None:
        async with DataCluster(tmp_path, 3, replica_fetch_wait_max_ms="100000") as cluster:
            cluster.create(0, 2)
            await until(lambda: len(cluster.brokers[0].replicas.purgatory) == 1, "the follower's fetch waits")
            fetcher = cluster.brokers[2].replicas.fetchers._fetchers[0, 0]
            send, line, third_id = fetcher._send, fetcher._line, bytes([4] * 16)

            def sent(line: Any) -> None:
                send(line)
                if len(fetcher._in_flight) == 2 and cluster.image.topics.get(third_id) is None:
                    cluster.create(0, 2, topic="third", id=third_id)

            monkeypatch.setattr(fetcher, "_send", sent)
            cluster.create(0, 2, topic="second", id=bytes([3] * 16))
            await until(lambda: third_id in cluster.image.topics, "the second one is asked for beside the first")
            third = cluster.brokers[0].replicas.by_key[third_id, 0]
            await until(lambda: third.machine.followers[2].fetched, "before the wait is over")
            assert fetcher._line is line, "nor did the request's time run out"

    run(work)


def test_a_consumers_wait_ends_when_it_asks_for_something_else_on_the_same_connection(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            room = cluster.brokers[0].replicas.purgatory
            parked = asyncio.ensure_future(cluster.fetch(0, 0, max_wait_ms=300_000))
            await until(lambda: len(room) == 1)
            await asyncio.wait_for(cluster.ask(0, ListOffsetsRequest()), 60)
            assert not offsets(await parked)
            assert not len(room)

    run(work)


def test_two_fetches_on_a_connection_do_not_end_each_others_wait(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            await cluster.line(0)  # one for all
            room = cluster.brokers[0].replicas.purgatory
            parked = [asyncio.ensure_future(cluster.fetch(0, 0, max_wait_ms=300_000)) for _ in range(2)]
            await until(lambda: len(room) == 2)
            await asyncio.wait_for(cluster.ask(0, ListOffsetsRequest()), 60)
            assert [offsets(await wait) for wait in parked] == [[], []]

    run(work)


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_fetch_of_twenty_thousand_partitions_has_the_loop_turn_and_names_them_all(
    tmp_path: Path, session_epoch: int
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=3)
            for number in range(3):
                await cluster.produce(0, batch(2), number=number)
            asked = cluster.fetch_request(*((number, 0) for number in range(20_000)), max_wait_ms=60_000)
            asked.session_epoch = session_epoch
            other = await connect(cluster.world, "127.0.0.1", cluster.brokers[0].port)
            long = asyncio.ensure_future(cluster.ask(0, asked, 17))
            await until(lambda: cluster.brokers[0].socket_listener.memory.requests == 1, "it is worked on")
            for _ in range(3):
                await other.ask(cluster.fetch_request((0, 0)), version=17)
            assert not long.done(), "others have their turns"
            answer = await long
            (topic,) = answer.responses
            assert [part.partition_index for part in topic.partitions] == list(range(20_000))
            assert [offsets(part) for part in topic.partitions[:3]] == [[0]] * 3
            assert {part.error_code for part in topic.partitions[3:]} == {Code.UNKNOWN_TOPIC_OR_PARTITION}
            assert bool(answer.session_id) == (session_epoch == 0)
            other.close()

    run(work)


def test_offsets_of_twenty_thousand_partitions_are_looked_up_in_turns(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            await cluster.produce(0, batch(2))
            parts = [ListOffsetsRequest.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(20_000)]
            topic = ListOffsetsRequest.ListOffsetsTopic(name="flights", partitions=parts)
            other = await connect(cluster.world, "127.0.0.1", cluster.brokers[0].port)
            long = asyncio.ensure_future(cluster.ask(0, ListOffsetsRequest(topics=[topic]), 7))
            await until(lambda: cluster.brokers[0].socket_listener.memory.requests == 1, "it is worked on")
            for _ in range(3):
                await other.ask(cluster.fetch_request((0, 0)), version=17)
            assert not long.done(), "others have their turns"
            found = (await long).topics[0].partitions
            assert [part.offset for part in found[:2]] == [2, -1]
            assert len(found) == 20_000
            other.close()

    run(work)
