"""The client against scripted brokers: routing, retries, elections, lost brokers, old versions."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client import groups, reading, writing
from moldau.client.addresses import addresses
from moldau.client.admin import NewTopic, add_voter, create_topics
from moldau.client.client import (
    CONTROLLER,
    Client,
    ClientOptions,
    CoordinatorKind,
    ForCoordinator,
    ForNode,
    Refused,
    Unreachable,
)
from moldau.client.feeding import FeedOptions, NotWritten, TopicFeed
from moldau.client.groups import Committed
from moldau.client.lines import ConnectionOptions
from moldau.client.reading import FetchOptions
from moldau.client.view import Broker
from moldau.client.world_lines import WorldLines
from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.wire import batch
from moldau.wire.compression import BatchError
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorResponse
from moldau.wire.messages.k19_create_topics import CreateTopicsResponse
from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterResponse
from tests.packages.client.fake_broker import ALL_VERSIONS, HANG_UP, run
from tests.packages.client.mini_cluster import MiniCluster

QUICK = ClientOptions(api_timeout_ms=60_000, retry_backoff_ms=5, retry_backoff_max_ms=20, unknown_topic_grace_ms=60)

T0, T1, T2 = (TopicPartition("t", i) for i in range(3))

OLD = {  # what Apache Kafka 2.1 serves
    0: (0, 7), 1: (0, 10), 2: (0, 4), 3: (0, 7), 8: (0, 6), 9: (0, 5), 10: (0, 2), 11: (0, 3), 12: (0, 2), 13: (0, 2),
    14: (0, 2), 15: (0, 2), 16: (0, 2), 18: (0, 2), 19: (0, 3), 20: (0, 3), 21: (0, 1), 22: (0, 1), 23: (0, 2),
    32: (0, 2), 37: (0, 1), 42: (0, 1), 43: (0, 0),
}  # fmt: skip


def one(value=b"v", timestamp=1_000, **kind):
    return batch.build([(timestamp, None, value, [])], **kind)


def scene_with(nodes, topics, play, *, options=QUICK, ranges=None):
    async def scene(world):
        cluster = await MiniCluster(nodes, topics, ranges).start()
        client = Client(WorldLines(world), cluster.bootstrap, options)
        await play(cluster, client)
        client.close()
        await cluster.stop()

    run(scene)


def with_patience(nodes, topics, play):
    """For what must fail in time while something else succeeds: plays with more time, and again, until it does."""
    done = []
    for api_timeout_ms in (120, 1_200, 12_000):

        async def attempt(cluster, client):
            try:
                done.append(await play(cluster, client))
            except Unreachable:
                done.append(False)

        scene_with(nodes, topics, attempt, options=replace(QUICK, api_timeout_ms=api_timeout_ms))
        if done[-1]:
            return
    raise AssertionError("12 s were not enough for what should succeed at once")


@pytest.mark.parametrize("ranges", [ALL_VERSIONS, OLD], ids=["today", "2.1"])
def test_records_offsets_and_commits_come_back_from_new_and_old_clusters(ranges):
    async def play(cluster, client):
        for i in range(5):
            written = await writing.produce(client, T1, one(b"v%d" % i, 1_000 + i))
            assert (written.code, written.base_offset) == (Code.NONE, i)
        got = await reading.fetch(client, T1, 2)
        assert [r.value for r in reading.visible(got, 2)] == [b"v2", b"v3", b"v4"]
        assert (got.next_offset, got.high_watermark) == (5, 5)
        found = await reading.list_offsets(client, {T0: reading.LATEST, T1: 1_003, T2: reading.EARLIEST})
        assert {p: o.offset for p, o in found.items()} == {T0: 0, T1: 3, T2: 0}
        assert await groups.commit(client, "g", {T1: Committed(4)}) == {T1: Code.NONE}
        assert await groups.committed(client, "g", [T0, T1]) == (Code.NONE, {T1: Committed(4)})
        assert await groups.committed(client, "g") == (Code.NONE, {T1: Committed(4)})
        assert client.view.cluster_id == "mini"

    scene_with(3, {"t": 3}, play, ranges=ranges)


def test_each_leader_is_asked_once_for_all_its_partitions():
    async def play(cluster, client):
        await client.know(["t"])
        cluster.asked.clear()
        await reading.list_offsets(client, {TopicPartition("t", i): -1 for i in range(12)})
        assert sorted(cluster.asked) == [(0, "ListOffsets"), (1, "ListOffsets"), (2, "ListOffsets")]

    scene_with(3, {"t": 12}, play)


def test_a_moved_leader_is_found_again():
    async def play(cluster, client):
        assert (await writing.produce(client, T0, one(b"before"))).code is Code.NONE
        cluster.move(T0, 2)
        assert (await writing.produce(client, T0, one(b"after"))).base_offset == 1
        cluster.move(T0, 1)
        assert (await reading.list_offsets(client, {T0: -1}))[T0].offset == 2
        cluster.move(T0, 0)
        got = await reading.fetch(client, T0, 0)
        assert [r.value for r in reading.visible(got, 0)] == [b"before", b"after"]

    scene_with(3, {"t": 3}, play)


def test_a_dead_broker_is_walked_around_and_found_again_elsewhere():
    async def play(cluster, client):
        await client.know(None)
        await writing.produce(client, T0, one())
        await cluster.nodes[0].stop()
        cluster.move(T0, 1)
        assert (await reading.list_offsets(client, {T0: -1}))[T0].offset == 1
        assert (await client.ask(MetadataRequest(topics=[]))).cluster_id == "mini"

    scene_with(2, {"t": 1}, play)


def test_a_broker_that_never_comes_back_leaves_a_code_not_an_exception():
    async def play(cluster, client):
        await client.know(None)
        await cluster.nodes[1].stop()
        assert (await reading.fetch(client, T1, 0)).code is Code.NETWORK_EXCEPTION
        found = await reading.list_offsets(client, {T0: -1, T1: -1})
        assert found[T1].code is Code.NETWORK_EXCEPTION
        return found[T0].code is Code.NONE

    with_patience(2, {"t": 2}, play)


def test_nobody_to_talk_to_is_unreachable_and_names_whom_it_tried():
    async def play(cluster, client):
        await cluster.stop()
        with pytest.raises(Unreachable, match=rf"127.0.0.1:{cluster.nodes[0].port}.*"):
            await client.ask(MetadataRequest(topics=[]))
        for node in cluster.nodes:
            await node.start()
        return (await client.ask(MetadataRequest(topics=[]))).cluster_id == "mini"

    with_patience(2, {}, play)


def test_a_topic_that_is_missing_is_not_waited_for_for_long():
    async def play(cluster, client):
        found = await reading.list_offsets(client, {TopicPartition("nope", 0): -1})
        assert found[TopicPartition("nope", 0)].code is Code.UNKNOWN_TOPIC_OR_PARTITION
        assert (await writing.produce(client, TopicPartition("nope", 0), one())).code is Code.UNKNOWN_TOPIC_OR_PARTITION
        assert (await reading.fetch(client, TopicPartition("nope", 0), 0)).code is Code.UNKNOWN_TOPIC_OR_PARTITION

    scene_with(1, {"t": 1}, play)


def test_a_topic_that_appears_within_the_grace_is_written_to():
    async def play(cluster, client):
        hidden = cluster.ids.pop("t")
        tries = iter(range(3))

        def appear(node, message, serve):
            if isinstance(message, MetadataRequest) and next(tries, None) is None:
                cluster.ids["t"] = hidden

        cluster.mischief = appear
        assert (await writing.produce(client, T0, one())).code is Code.NONE

    scene_with(1, {"t": 1}, play, options=replace(QUICK, unknown_topic_grace_ms=60_000))


def test_a_named_topic_that_is_being_made_is_waited_for_and_among_all_it_is_not():
    async def play(cluster, client):
        def still_being_made(node, message, serve):
            if not isinstance(message, MetadataRequest):
                return None
            answer = serve()
            for topic in answer.topics:
                topic.error_code, topic.partitions = Code.LEADER_NOT_AVAILABLE, []
            return answer

        def the_first_two(node, message, serve):
            return still_being_made(node, message, serve) if len(cluster.asked) <= 2 else None

        cluster.mischief = the_first_two
        assert await client.know(["t"]) == {}
        assert len(cluster.asked) == 3
        assert len(client.view.topics["t"].partitions) == 3
        cluster.mischief, before = still_being_made, len(cluster.asked)
        await client.know(None)
        assert len(cluster.asked) == before + 1

    scene_with(1, {"t": 3}, play)


def test_a_controller_that_catches_up_for_longer_than_a_request_may_take_is_asked_to_vote_once():
    async def scene(world):
        asked = []

        def script(message, header):
            if isinstance(message, MetadataRequest):
                return cluster._Metadata(0, message)
            asked.append(message)
            answer = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.2, answer.set_result, AddRaftVoterResponse())
            return answer

        cluster = await MiniCluster(1, {}).start()
        cluster.nodes[0].script = script
        client = Client(WorldLines(world, ConnectionOptions(request_timeout_ms=50)), cluster.bootstrap, QUICK)
        outcome = await add_voter(client, 4, b"d" * 16, [("CONTROLLER", "127.0.0.1", 9)], timeout_ms=10_000)
        assert outcome.ok
        assert [message.timeout_ms for message in asked] == [10_000]
        client.close()
        await cluster.stop()

    run(scene)


def test_a_group_is_followed_to_its_new_coordinator():
    async def play(cluster, client):
        assert await groups.commit(client, "g", {T0: Committed(1)}) == {T0: Code.NONE}
        cluster.coordinator = 1
        assert await groups.commit(client, "g", {T0: Committed(2)}) == {T0: Code.NONE}
        assert [node for node, name in cluster.asked if name == "OffsetCommit"] == [0, 0, 1]

    scene_with(2, {"t": 1}, play)


@pytest.mark.parametrize(("ranges", "requests"), [(ALL_VERSIONS, 1), (OLD, 3)], ids=["today", "2.1"])
def test_the_coordinators_of_all_groups_are_asked_for_together_where_a_broker_can_tell_them(ranges, requests):
    async def play(cluster, client):
        cluster.coordinator = 1
        assert await groups.coordinators(client, ["a", "b", "c"]) == ({"a": 1, "b": 1, "c": 1}, {})
        assert [name for _, name in cluster.asked].count("FindCoordinator") == requests
        assert await groups.coordinators(client, []) == ({}, {})

    scene_with(2, {"t": 1}, play, ranges=ranges)


def test_a_group_without_a_coordinator_and_one_that_an_answer_leaves_out_cost_the_others_nothing():
    async def play(cluster, client):
        code = Code.GROUP_AUTHORIZATION_FAILED
        told = [
            FindCoordinatorResponse.Coordinator(key="b", error_code=code),
            FindCoordinatorResponse.Coordinator(key="c", node_id=1),
        ]
        answer = FindCoordinatorResponse(coordinators=told)
        cluster.mischief = lambda node, m, serve: answer if type(m).__name__ == "FindCoordinatorRequest" else None
        found = await groups.coordinators(client, ["a", "b", "c"])
        assert found == ({"c": 1}, {"a": Code.UNKNOWN_SERVER_ERROR, "b": code})

    scene_with(2, {"t": 1}, play)


def test_a_refused_coordinator_is_an_exception_at_once():
    async def play(cluster, client):
        code = Code.GROUP_AUTHORIZATION_FAILED
        answer = FindCoordinatorResponse(
            error_code=code, coordinators=[FindCoordinatorResponse.Coordinator(key="g", error_code=code)]
        )
        cluster.mischief = lambda node, m, serve: answer if type(m).__name__ == "FindCoordinatorRequest" else None
        with pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
            await groups.commit(client, "g", {T0: Committed(1)})
        assert len([name for _, name in cluster.asked if name == "FindCoordinator"]) == 1

    scene_with(1, {"t": 1}, play)


@pytest.mark.parametrize("code", [Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_a_careful_batch_is_not_sent_twice_when_its_leader_has_it(code):
    """Told NOT_ENOUGH_REPLICAS_AFTER_APPEND it was written as often as it was tried."""
    kind = ProduceResponse

    async def play(cluster, client):
        def say(node, message, serve):
            if not isinstance(message, ProduceRequest):
                return None
            serve()
            topic = message.topic_data[0]
            told = kind.PartitionProduceResponse(index=0, error_code=code)
            return kind(
                responses=[
                    kind.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[told])
                ]
            )

        turns = iter([True])
        cluster.mischief = lambda n, m, s: (
            say(n, m, s) if isinstance(m, ProduceRequest) and next(turns, False) else None
        )
        written = await writing.produce(client, T0, one(b"careful"))
        assert (written.code, written.doubtful) == (code, True)
        assert cluster.logs[T0].values == [b"careful"]

    scene_with(1, {"t": 1}, play)


def test_a_request_about_many_things_is_not_repeated_because_one_of_them_is_retriable():
    async def play(cluster, client):
        result = CreateTopicsResponse.CreatableTopicResult
        answer = CreateTopicsResponse(topics=[result(name="a"), result(name="b", error_code=3)])
        cluster.mischief = lambda node, m, serve: answer if type(m).__name__ == "CreateTopicsRequest" else None
        made = await create_topics(client, [NewTopic(name="a"), NewTopic(name="b")])
        assert {name: outcome.code for name, outcome in made.items()} == {
            "a": Code.NONE, "b": Code.UNKNOWN_TOPIC_OR_PARTITION,
        }  # fmt: skip
        assert len([name for _, name in cluster.asked if name == "CreateTopics"]) == 1

    scene_with(1, {}, play)


def test_a_careful_batch_is_not_sent_twice_when_its_answer_is_lost():
    async def play(cluster, client):
        def lose_the_answer(node, message, serve):
            if isinstance(message, ProduceRequest):
                serve()
                return HANG_UP
            return None

        cluster.mischief = lose_the_answer
        assert (await writing.produce(client, T0, one(b"careful"))).code is Code.NETWORK_EXCEPTION
        assert cluster.logs[T0].values == [b"careful"]
        turns = iter([True])
        cluster.mischief = lambda n, m, s: lose_the_answer(n, m, s) if next(turns, False) else None
        await client.know(["t"])
        turns = iter([True])
        numbered = one(b"numbered", producer_id=7, producer_epoch=0, base_sequence=0)
        assert (await writing.produce(client, T0, numbered)).base_offset == 1
        assert cluster.logs[T0].values == [b"careful", b"numbered"]

    scene_with(1, {"t": 1}, play)


def lost_answers(message, serve):
    serve()
    return HANG_UP


def timed_out(message, serve):
    serve()
    return refusing(Code.REQUEST_TIMED_OUT)(message, serve)


def refusing(code):
    """An answer to a Produce request of one batch, with this code."""

    def answer(message, serve):
        part = ProduceResponse.PartitionProduceResponse(index=0, error_code=code, base_offset=-1)
        asked = message.topic_data[0]
        topic = ProduceResponse.TopicProduceResponse(
            name=asked.name, topic_id=asked.topic_id, partition_responses=[part]
        )
        return ProduceResponse(responses=[topic])

    return answer


@pytest.mark.parametrize(
    ("tries", "code", "doubtful"),
    [
        ([lost_answers], Code.NETWORK_EXCEPTION, True),
        ([timed_out], Code.REQUEST_TIMED_OUT, True),
        ([lost_answers, refusing(Code.NOT_ENOUGH_REPLICAS)], Code.NOT_ENOUGH_REPLICAS, True),
        ([timed_out, refusing(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)], Code.OUT_OF_ORDER_SEQUENCE_NUMBER, True),
        ([refusing(Code.NOT_ENOUGH_REPLICAS)], Code.NOT_ENOUGH_REPLICAS, False),
        ([refusing(Code.MESSAGE_TOO_LARGE)], Code.MESSAGE_TOO_LARGE, False),
    ],
    ids=["answers are lost", "time is over", "an answer is lost, then refused", "time is over, then refused",
         "it is never taken", "it is refused at once"],
)  # fmt: skip
def test_records_that_were_not_acknowledged_are_doubtful_where_any_try_may_have_left_them_in_the_log(
    tries, code, doubtful
):
    async def play(cluster, client):
        await client.know(["t"])
        left = iter(tries)

        def mischief(node, message, serve):
            return next(left, tries[-1])(message, serve) if isinstance(message, ProduceRequest) else None

        cluster.mischief = mischief
        feed = TopicFeed(client, "t", FeedOptions())
        feed.add(None, b"v")
        with pytest.raises(NotWritten) as caught:
            await feed.flush()
        return (caught.value.code, caught.value.doubtful) == (code, doubtful)

    with_patience(1, {"t": 1}, play)


def test_a_fetch_is_made_under_the_epoch_of_whom_it_goes_to_whoever_leads_once_the_connection_stands():
    async def play(cluster, client):
        told = []

        def hear(node, message, serve):
            if isinstance(message, FetchRequest):
                told.append((node, message.topics[0].partitions[0].current_leader_epoch))

        cluster.mischief = hear
        cluster.logs[T0].append(one())
        line, turns = client.line, iter([True])

        async def slow_line(*asked):
            found = await line(*asked)
            if next(turns, False):
                cluster.move(T0, 1)
                await client.refresh(["t"])
            return found

        await client.know_leaders([T0])
        client.line = slow_line
        assert (await reading.fetch(client, T0, 0)).code is Code.NONE
        assert told == [(0, 0), (1, 1)]

    scene_with(2, {"t": 1}, play)


def test_a_batch_larger_than_the_fetch_comes_whole():
    async def play(cluster, client):
        await writing.produce(client, T0, one(bytes(50_000)))
        real = cluster._Fetch

        def cut(node, message, serve):
            if not isinstance(message, FetchRequest):
                return None
            response = real(node, message)
            part = response.responses[0].partitions[0]
            part.records = part.records[: message.topics[0].partitions[0].partition_max_bytes]
            return response

        cluster.mischief = cut
        got = await reading.fetch(client, T0, 0, FetchOptions(max_bytes=1_000))
        assert [len(r.value or b"") for r in reading.visible(got, 0)] == [50_000]

    scene_with(1, {"t": 1}, play)


def test_a_range_is_read_to_its_end_and_no_offset_twice():
    async def play(cluster, client):
        for i in range(100):
            cluster.logs[T0].append(batch.build([(1, None, b"%d" % (i * 3 + j), []) for j in range(3)]))
        for start, end, size in [(0, 300, 500), (7, 250, 10_000), (299, 300, 1), (5, 5, 1), (290, 900, 100)]:
            values = []
            position = start
            async for got in reading.fetch_range(client, T0, start, end, FetchOptions(max_bytes=size, max_wait_ms=10)):
                assert got.code is Code.NONE
                values += [int(r.value or b"") for r in reading.visible(got, position, end)]
                position = got.next_offset
            assert values == list(range(start, min(end, 300)))
        codes = [got.code async for got in reading.fetch_range(client, T0, 400, 900)]
        assert codes == [Code.OFFSET_OUT_OF_RANGE]

    scene_with(1, {"t": 1}, play)


def test_a_topic_made_anew_is_refused_to_who_insists_on_the_old_id():
    async def play(cluster, client):
        await writing.produce(client, T0, one())
        old = cluster.ids["t"]
        cluster.ids["t"] = b"another id here."
        got = await reading.fetch(client, T0, 0, FetchOptions(topic_id=old))
        assert got.code is Code.UNKNOWN_TOPIC_ID
        assert cluster.asked.count((0, "Fetch")) == 1
        assert (await reading.fetch(client, T0, 0)).code is Code.NONE

    scene_with(1, {"t": 1}, play)


def test_an_older_answer_does_not_overwrite_a_newer_leader():
    async def play(cluster, client):
        await client.know(None)
        stale = cluster._Metadata(0, MetadataRequest(topics=None))
        cluster.move(T0, 1)
        await client.know(None)
        client.view.learn(stale, True)
        assert client.view.leader(T0) == 1

    scene_with(2, {"t": 1}, play)


def test_an_answer_without_a_leader_epoch_is_taken_as_it_is():
    """A broker on ZooKeeper knows of a partition, and not who leads it: as Kafka's clients, ours takes its word."""

    async def play(cluster, client):
        await client.know(None)
        answer = cluster._Metadata(0, MetadataRequest(topics=None))
        answer.topics[0].partitions[0].leader_epoch = answer.topics[0].partitions[0].leader_id = -1
        client.view.learn(answer, True)
        assert client.view.topics["t"].partitions[0].leader == -1

    scene_with(2, {"t": 1}, play)


def test_a_deleted_topic_is_forgotten():
    async def play(cluster, client):
        await client.know(None)
        assert client.view.names[cluster.ids["t"]] == "t"
        del cluster.ids["t"]
        await client.know(None)
        assert (client.view.topics, client.view.names) == ({}, {})

    scene_with(1, {"t": 1}, play)


def test_aborted_and_control_records_are_not_visible_to_read_committed():
    async def play(cluster, client):
        log = cluster.logs[T0]

        def data(value, pid):
            return one(value, producer_id=pid, producer_epoch=0, base_sequence=-1, transactional=True)

        def marker(pid, how):
            record = (1, batch.control_key(how), bytes(6), [])
            return batch.build([record], producer_id=pid, producer_epoch=0, control=True, transactional=True)

        appended = [
            data(b"a1", 1), data(b"b1", 2), one(b"plain"), marker(1, 0), data(b"a2", 1), marker(2, 1), marker(1, 1),
        ]  # fmt: skip
        for one_batch in appended:
            whole = bytearray(one_batch)
            batch.patch(whole, 0, log.end, 0)
            log.batches.append(bytes(whole))
            log.end += 1
        got = (await reading.fetch(client, T0, 0))._replace(aborted=((1, 0),))
        assert [r.value for r in reading.visible(got, 0)] == [b"a1", b"b1", b"plain", b"a2"]
        committed = reading.visible(got, 0, isolation=reading.READ_COMMITTED)
        assert [r.value for r in committed] == [b"b1", b"plain", b"a2"]
        later = reading.visible(got, 2, isolation=reading.READ_COMMITTED)
        assert [r.value for r in later] == [b"plain", b"a2"]

    scene_with(1, {"t": 1}, play)


def test_a_batch_that_was_damaged_on_its_way_is_not_given_out():
    async def play(cluster, client):
        await writing.produce(client, T0, one(b"value"))
        broken = bytearray(cluster.logs[T0].batches[0])
        broken[-2] ^= 1
        cluster.logs[T0].batches[0] = bytes(broken)
        got = await reading.fetch(client, T0, 0)
        with pytest.raises(BatchError, match="checksum"):
            list(reading.visible(got, 0))

    scene_with(1, {"t": 1}, play)


def test_joins_and_long_polls_do_not_share_a_connection_with_the_rest():
    async def play(cluster, client):
        await client.know(None)
        plain = await client.line(0)
        assert await client.line(0) is plain
        assert await client.line(0, "fetch") is not plain
        group = await client._line_for(ForCoordinator(CoordinatorKind.GROUP, "g"))
        assert group is not plain

    scene_with(1, {"t": 1}, play)


def test_two_who_connect_at_once_end_up_with_one_connection():
    async def play(cluster, client):
        await client.know(None)
        client.close()
        lines = await asyncio.gather(*(client.line(0) for _ in range(4)))
        assert len(set(map(id, lines))) == 1
        assert not lines[0].closed

    scene_with(1, {"t": 1}, play)


def test_bootstrap_addresses_are_read_or_named():
    assert addresses("a:1, [::1]:9092,b:65535") == [("a", 1), ("::1", 9092), ("b", 65535)]
    for bad in ("", "a", "a:", ":1", "a:b", "a:65536", "http://a:9092", "a:" + "9" * 5000):
        with pytest.raises(ValueError, match="host:port|no bootstrap"):
            addresses(bad)


def test_the_controller_is_asked_and_followed():
    async def play(cluster, client):
        answer = CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name="a")])
        moved = CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name="a", error_code=41)])
        real = cluster._Metadata
        controller = 0

        def serve(node, message, serve):
            nonlocal controller
            if isinstance(message, MetadataRequest):
                response = real(node, message)
                response.controller_id = controller
                return response
            if type(message).__name__ == "CreateTopicsRequest":
                controller = 1
                return answer if node == controller else moved
            return None

        cluster.mischief = serve
        made = await create_topics(client, [NewTopic(name="a")])
        assert made["a"].ok
        assert [node for node, name in cluster.asked if name == "CreateTopics"] == [0, 1]

    scene_with(2, {}, play)


def test_offset_commits_carry_no_topic_ids_because_they_are_sent_by_name():
    async def play(cluster, client):
        await groups.commit(client, "g", {T0: Committed(1)})
        sent = [header for header, message in cluster.nodes[0].heard if isinstance(message, OffsetCommitRequest)]
        assert [header.api_version for header in sent] == [9]

    scene_with(1, {"t": 1}, play)


class _Refusing(WorldLines):
    """Nobody listens; it notes how long each would have been given to connect and shake hands."""

    def __init__(self, world):
        super().__init__(world, ConnectionOptions(connect_timeout_ms=10_000))
        self.limits = []

    async def connect(self, host, port, limit_ms=None):
        self.limits.append(limit_ms)
        raise ConnectionRefusedError(f"{host}:{port}")


def test_connecting_takes_no_longer_than_the_try_that_it_is_for():
    async def scene(world):
        lines = _Refusing(world)
        client = Client(lines, "127.0.0.1:1", replace(QUICK, api_timeout_ms=10))
        client.view.brokers = {1: Broker(1, "127.0.0.1", 1, None)}
        client.view.controller_id = 1
        for to in (ForNode(1), CONTROLLER):
            lines.limits.clear()
            with pytest.raises(Unreachable):
                await client.ask(MetadataRequest(), to, request_timeout_ms=5_000)
            assert lines.limits[0] == 5_000

    run(scene)
