"""The consumer against scripted brokers: positions, resets, moved leaders, near replicas, and what a group tells it."""

from __future__ import annotations

import asyncio
import re

import pytest

from moldau.client import groups
from moldau.client.client import Client, ClientOptions, Refused, Unreachable
from moldau.client.consumer import NO_RESET, Consumer, ConsumerOptions, NoOffset
from moldau.client.membership import GroupOptions, _read_subscription, read_assignment
from moldau.client.reading import EARLIEST, LATEST
from moldau.client.world_lines import WorldLines
from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.wire import batch
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from moldau.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from moldau.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from tests.packages.client.fake_broker import HANG_UP, run
from tests.packages.client.mini_cluster import MiniCluster

QUICK = ClientOptions(api_timeout_ms=60_000, retry_backoff_ms=5, retry_backoff_max_ms=20, unknown_topic_grace_ms=60)
T0, T1, T2 = (TopicPartition("t", i) for i in range(3))


def scene_with(nodes, topics, play, **options):
    async def scene(world):
        cluster = await MiniCluster(nodes, topics).start()
        client = Client(WorldLines(world), cluster.bootstrap, QUICK)
        consumer = Consumer(client, ConsumerOptions(**{"max_wait_ms": 10} | options))
        await play(cluster, consumer)
        client.close()
        await cluster.stop()

    run(scene)


def fill(cluster, partition, count, size=1):
    for i in range(count):
        cluster.logs[partition].append(batch.build([(1, None, b"%d" % i * size, [])]))


async def read(consumer, count):
    """Polls until ``count`` values have come, as (partition number, value)."""
    found = []
    while len(found) < count:
        for chunk in await consumer.poll(200):
            assert chunk.fetched.code is Code.NONE
            found += [(chunk.partition.partition, r.value) for r in chunk.records()]
    return found


def test_all_leaders_are_read_at_once_and_each_partition_in_order():
    async def play(cluster, consumer):
        for partition in (T0, T1, T2):
            fill(cluster, partition, 5)
        consumer.assign({T0: EARLIEST, T1: 2, T2: LATEST})
        found = await read(consumer, 8)
        fill(cluster, T2, 1)
        found += await read(consumer, 1)
        assert sorted(found) == [(0, b"%d" % i) for i in range(5)] + [(1, b"2"), (1, b"3"), (1, b"4"), (2, b"0")]
        assert [consumer.position(p) for p in (T0, T1, T2)] == [5, 5, 6]

    scene_with(3, {"t": 3}, play)


def test_moved_leaders_and_lost_connections_are_followed():
    async def play(cluster, consumer):
        fill(cluster, T0, 3)
        consumer.assign({T0: 0})
        assert len(await read(consumer, 3)) == 3
        cluster.move(T0, 1)
        fill(cluster, T0, 1)
        assert await read(consumer, 1) == [(0, b"0")]
        turns = iter([True])
        cluster.mischief = lambda n, m, s: HANG_UP if isinstance(m, FetchRequest) and next(turns, False) else None
        fill(cluster, T0, 2)
        assert await read(consumer, 2) == [(0, b"0"), (0, b"1")]
        await cluster.nodes[1].stop()
        cluster.move(T0, 0)
        fill(cluster, T0, 1)
        assert await read(consumer, 1) == [(0, b"0")]

    scene_with(2, {"t": 1}, play)


def test_a_fetch_says_its_leader_epoch_so_that_nobody_answers_in_the_leaders_place():
    async def play(cluster, consumer):
        told = []

        def hear(node, message, serve):
            if isinstance(message, FetchRequest):
                told.append(message.topics[0].partitions[0].current_leader_epoch)

        cluster.mischief = hear
        cluster.move(T0, 1)
        fill(cluster, T0, 1)
        consumer.assign({T0: 0})
        await read(consumer, 1)
        assert set(told) == {cluster.logs[T0].epoch}

    scene_with(2, {"t": 1}, play)


def test_who_leads_no_more_once_a_connection_stands_is_not_asked_under_the_next_leaders_epoch():
    async def play(cluster, consumer):
        told = []

        def hear(node, message, serve):
            if isinstance(message, FetchRequest):
                told.append((node, message.topics[0].partitions[0].current_leader_epoch))

        cluster.mischief = hear
        line, turns = consumer.client.line, iter([True])

        async def slow_line(broker, use):
            found = await line(broker, use)
            if use == "fetch" and next(turns, False):
                cluster.move(T0, 1)
                await consumer.client.refresh(["t"])
            return found

        consumer.client.line = slow_line
        fill(cluster, T0, 1)
        consumer.assign({T0: 0})
        await read(consumer, 1)
        assert set(told) == {(1, 1)}

    scene_with(2, {"t": 1}, play)


@pytest.mark.parametrize(("reset", "first"), [(EARLIEST, b"4"), (LATEST, b"new")])
def test_a_position_that_is_gone_is_reset_as_asked(reset, first):
    async def play(cluster, consumer):
        fill(cluster, T0, 6)
        log = cluster.logs[T0]
        log.start, log.batches = 4, log.batches[4:]
        consumer.assign({T0: 1})
        while consumer.position(T0) in (1, EARLIEST, LATEST):
            await consumer.poll(0)
        log.append(batch.build([(1, None, b"new", [])]))
        assert (await read(consumer, 1))[0] == (0, first)

    scene_with(1, {"t": 1}, play, reset=reset)


def test_without_a_reset_the_caller_is_told():
    async def play(cluster, consumer):
        consumer.assign({T0: 9})
        (chunk,) = await consumer.poll(60_000)
        assert (chunk.partition, chunk.offset, chunk.fetched.code) == (T0, 9, Code.OFFSET_OUT_OF_RANGE)
        consumer.seek(T0, 0)
        fill(cluster, T0, 1)
        assert await read(consumer, 1) == [(0, b"0")]
        with pytest.raises(KeyError):
            consumer.seek(T1, 0)

    scene_with(1, {"t": 1}, play, reset=NO_RESET)


def test_paused_partitions_give_nothing_until_they_are_resumed():
    async def play(cluster, consumer):
        fill(cluster, T0, 2)
        fill(cluster, T1, 2)
        consumer.assign({T0: 0, T1: 0})
        consumer.paused.add(T0)
        assert await read(consumer, 2) == [(1, b"0"), (1, b"1")]
        assert await consumer.poll(30) == []
        consumer.paused.clear()
        assert await read(consumer, 2) == [(0, b"0"), (0, b"1")]

    scene_with(1, {"t": 2}, play)


def test_what_was_asked_for_before_a_seek_is_not_given_out():
    async def play(cluster, consumer):
        fill(cluster, T0, 4)
        consumer.assign({T0: 0})
        await consumer._ask_leaders()
        consumer.seek(T0, 3)
        assert await read(consumer, 1) == [(0, b"3")]

    scene_with(1, {"t": 1}, play)


def test_a_batch_that_does_not_fit_is_asked_for_again_with_room():
    async def play(cluster, consumer):
        fill(cluster, T0, 2, size=5_000)
        real = cluster._Fetch

        def cut(node, message, serve):
            if not isinstance(message, FetchRequest):
                return None
            response = real(node, message)
            part = response.responses[0].partitions[0]
            part.records = part.records[: message.topics[0].partitions[0].partition_max_bytes]
            return response

        cluster.mischief = cut
        consumer.assign({T0: 0})
        assert await read(consumer, 2) == [(0, b"0" * 5_000), (0, b"1" * 5_000)]

    scene_with(1, {"t": 1}, play, partition_max_bytes=500)


def test_a_near_replica_that_is_none_any_more_is_left():
    async def play(cluster, consumer):
        fill(cluster, T0, 1)
        readers = []

        def serve(node, message, serve):
            if isinstance(message, FetchRequest):
                readers.append(node)
                if len(readers) == 1:
                    response = serve()
                    part = response.responses[0].partitions[0]
                    part.preferred_read_replica, part.records = 1, b""
                    return response
            return None  # node 1 refuses: it neither leads nor follows

        cluster.mischief = serve
        consumer.assign({T0: 0})
        assert await read(consumer, 1) == [(0, b"0")]
        assert readers[:3] == [0, 1, 0]

    scene_with(2, {"t": 1}, play, rack="r1")


def test_a_near_replica_is_read_and_left_when_it_goes():
    async def play(cluster, consumer):
        fill(cluster, T0, 1)
        real = cluster._Fetch
        readers = []

        def serve(node, message, serve):
            if not isinstance(message, FetchRequest):
                return None
            readers.append(node)
            assert message.rack_id == "r1"
            if node == 1:  # not the leader, and asked all the same
                return real(0, message)
            response = real(node, message)
            if len(readers) == 1:
                part = response.responses[0].partitions[0]
                part.preferred_read_replica, part.records = 1, b""
            return response

        cluster.mischief = serve
        consumer.assign({T0: 0})
        assert await read(consumer, 1) == [(0, b"0")]
        assert readers[:2] == [0, 1]
        await cluster.nodes[1].stop()
        fill(cluster, T0, 1)
        assert await read(consumer, 1) == [(0, b"0")]
        assert readers[-1] == 0

    scene_with(2, {"t": 1}, play, rack="r1")


def test_an_offset_that_a_near_replica_lacks_is_asked_of_the_leader():
    """A follower may lack what its leader has: it ended uncleanly. No position is reset for that (KIP-392)."""

    async def play(cluster, consumer):
        fill(cluster, T0, 3)
        readers = []

        def serve(node, message, serve):
            if not isinstance(message, FetchRequest):
                return None
            readers.append(node)
            response = cluster._Fetch(0, message)
            part = response.responses[0].partitions[0]
            if node == 1:
                part.error_code, part.records = Code.OFFSET_OUT_OF_RANGE, b""
            elif len(readers) == 1:
                part.preferred_read_replica, part.records = 1, b""
            return response

        cluster.mischief = serve
        consumer.assign({T0: 2})
        assert await read(consumer, 1) == [(0, b"2")]
        assert readers[:3] == [0, 1, 0]

    for reset in (NO_RESET, EARLIEST, LATEST):
        scene_with(2, {"t": 1}, play, rack="r1", reset=reset)


def test_the_leader_is_asked_again_now_and_then_who_is_near():
    """A follower that its leader has put out of the ISR meanwhile would hold the reader back for good."""

    async def play(cluster, consumer):
        fill(cluster, T0, 1)
        readers = []

        def serve(node, message, serve):
            if not isinstance(message, FetchRequest):
                return None
            readers.append(node)
            response = cluster._Fetch(0, message)
            part = response.responses[0].partitions[0]
            if node == 1:  # out of sync: it hears of no records any more
                part.records = b""
                consumer.client.options = replace(QUICK, metadata_max_age_ms=0)
            elif len(readers) == 1:
                part.preferred_read_replica, part.records = 1, b""
            return response

        cluster.mischief = serve
        consumer.assign({T0: 0})
        assert await read(consumer, 1) == [(0, b"0")]
        assert readers[:2] == [0, 1]
        assert readers[-1] == 0

    scene_with(2, {"t": 1}, play, rack="r1")


class Group:
    """A coordinator with one member, whose next words a test can have it say."""

    def __init__(self, cluster):
        self.generation = 0
        self.says = {}
        self.heard = []
        self.assigned = b""
        cluster.mischief = self.serve

    def serve(self, node, message, serve):
        name = type(message).__name__.removesuffix("Request")
        code = self.says[name].pop(0) if self.says.get(name) else Code.NONE
        if isinstance(message, (JoinGroupRequest, HeartbeatRequest, SyncGroupRequest, LeaveGroupRequest)):
            self.heard.append(message)
        if isinstance(message, JoinGroupRequest):
            return self.join(message, code)
        if isinstance(message, SyncGroupRequest):
            self.assigned = bytes(message.assignments[0].assignment) if message.assignments else b""
            return SyncGroupResponse(error_code=code, assignment=self.assigned)
        if isinstance(message, HeartbeatRequest):
            return HeartbeatResponse(error_code=code)
        return LeaveGroupResponse() if isinstance(message, LeaveGroupRequest) else None

    def join(self, message, code):
        if code is Code.NONE and not message.member_id:
            code = Code.MEMBER_ID_REQUIRED
        if code is not Code.NONE:
            return JoinGroupResponse(error_code=code, member_id="m1")
        self.generation += 1
        protocol = message.protocols[0]
        member = JoinGroupResponse.JoinGroupResponseMember(member_id="m1", metadata=bytes(protocol.metadata))
        return JoinGroupResponse(
            generation_id=self.generation, protocol_name=protocol.name, leader="m1", member_id="m1", members=[member]
        )

    @property
    def names(self):
        return [type(message).__name__.removesuffix("Request") for message in self.heard]


def grouped(**more):
    options = GroupOptions(group_id="g", heartbeat_interval_ms=10)
    return {"group": replace(options, **more), "reset": EARLIEST, "auto_commit_interval_ms": 0}


def test_a_member_joins_reads_commits_and_leaves():
    async def play(cluster, consumer):
        group = Group(cluster)
        fill(cluster, T0, 2)
        fill(cluster, T1, 2)
        cluster.committed["g", T1] = 1
        await consumer.subscribe(["t"])
        assert sorted(await read(consumer, 3)) == [(0, b"0"), (0, b"1"), (1, b"1")]
        await consumer.close()
        assert group.names[:3] == ["JoinGroup", "JoinGroup", "SyncGroup"]
        assert [m.member_id for m in group.heard if isinstance(m, JoinGroupRequest)] == ["", "m1"]
        assert group.names[-1] == "LeaveGroup"
        assert cluster.committed == {("g", T0): 2, ("g", T1): 2}
        assert consumer.assignment == frozenset()

    scene_with(1, {"t": 2}, play, **grouped())


def test_a_member_that_could_not_take_its_partitions_joins_again(monkeypatch):
    """It went on with heartbeats and without partitions, so that nobody read them as long as it lived."""
    real, asked = groups.committed, []

    async def committed(client, group_id, partitions):
        asked.append(partitions)
        if len(asked) == 1:
            raise Unreachable("no coordinator")
        return await real(client, group_id, partitions)

    monkeypatch.setattr(groups, "committed", committed)

    async def play(cluster, consumer):
        group = Group(cluster)
        fill(cluster, T0, 1)
        await consumer.subscribe(["t"])
        with pytest.raises(Unreachable):
            await consumer.poll(100)
        assert await read(consumer, 1) == [(0, b"0")]
        assert group.names.count("SyncGroup") == 2
        await consumer.close()

    scene_with(1, {"t": 1}, play, **grouped())


def test_a_join_takes_no_longer_than_it_may(monkeypatch):
    """`--timeout-ms` of the console consumer did not bound a join, which waits for all other members."""
    real, asked = Client.ask, []

    async def ask(self, message, *to, **named):
        asked.append((type(message).__name__.removesuffix("Request"), named.get("timeout_ms")))
        return await real(self, message, *to, **named)

    monkeypatch.setattr(Client, "ask", ask)

    async def play(cluster, consumer):
        Group(cluster)
        await consumer.subscribe(["t"])
        await consumer.poll(10, join_ms=2_000)
        waited = {name: timeout_ms for name, timeout_ms in asked if name in ("JoinGroup", "SyncGroup")}
        assert waited == {"JoinGroup": 2_000, "SyncGroup": 2_000}
        await consumer.close()

    scene_with(1, {"t": 1}, play, **grouped())


def test_a_member_without_a_reset_is_told_of_partitions_that_have_no_committed_position():
    """Until it says where to begin: it does not begin somewhere, and commits nothing for them."""

    async def play(cluster, consumer):
        Group(cluster)
        fill(cluster, T0, 3)
        fill(cluster, T1, 3)
        cluster.committed["g", T0] = 2
        await consumer.subscribe(["t"])
        for _ in range(2):
            with pytest.raises(NoOffset, match=re.escape("for [t-1]")) as told:
                await consumer.poll(60_000)
            assert told.value.partitions == [T1]
        await consumer.commit()
        assert cluster.committed == {("g", T0): 2}
        consumer.seek(T1, 1)
        assert sorted(await read(consumer, 3)) == [(0, b"2"), (1, b"1"), (1, b"2")]

    scene_with(1, {"t": 2}, play, **grouped() | {"reset": NO_RESET})


def test_a_member_that_is_not_told_its_position_does_not_begin_at_the_end():
    """The refusal has no offset, -1, which was taken for LATEST: what came before that was never read."""
    kind = OffsetFetchResponse

    async def play(cluster, consumer):
        group = Group(cluster)
        fill(cluster, T0, 2)
        cluster.committed["g", T0] = 1
        told = kind.OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=-1, error_code=Code.TOPIC_AUTHORIZATION_FAILED
        )
        topic = kind.OffsetFetchResponseTopics(name="t", partitions=[told])
        refusal = kind(groups=[kind.OffsetFetchResponseGroup(group_id="g", topics=[topic])])
        turns = iter([True])
        cluster.mischief = lambda n, m, serve: (
            refusal if isinstance(m, OffsetFetchRequest) and next(turns, False) else group.serve(n, m, serve)
        )
        await consumer.subscribe(["t"])
        with pytest.raises(Refused) as raised:
            await consumer.poll(60_000)
        assert raised.value.code is Code.TOPIC_AUTHORIZATION_FAILED
        assert await read(consumer, 1) == [(0, b"1")]

    scene_with(1, {"t": 1}, play, **grouped())


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize(
    ("code", "first_member_id"),
    [(Code.REBALANCE_IN_PROGRESS, "m1"), (Code.ILLEGAL_GENERATION, "m1"), (Code.UNKNOWN_MEMBER_ID, "")],
)
def test_a_member_that_is_told_to_joins_again(code, first_member_id, assignor):
    async def play(cluster, consumer):
        group = Group(cluster)
        revoked = []
        consumer.on_revoked = revoked.append
        fill(cluster, T0, 1)
        await consumer.subscribe(["t"])
        await read(consumer, 1)
        assert await consumer.commit() == {T0: Code.NONE}, "else it may read again what it did not commit in time"
        joins = len([name for name in group.names if name == "JoinGroup"])
        group.says["Heartbeat"] = [code]
        while group.generation < 2:
            await consumer.poll(30)
        again = [m for m in group.heard if isinstance(m, JoinGroupRequest)][joins]
        assert again.member_id == first_member_id
        keeps = assignor == "cooperative-sticky" and code is Code.REBALANCE_IN_PROGRESS
        assert revoked == ([] if keeps else [frozenset({T0})])
        owned = _read_subscription(again.protocols[0].metadata, None).owned
        assert owned == (frozenset({T0}) if keeps else frozenset())
        fill(cluster, T0, 1)
        assert await read(consumer, 1) == [(0, b"0")]

    scene_with(1, {"t": 1}, play, **grouped(assignors=(assignor,)))


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_a_member_that_was_put_out_commits_nothing_as_an_outsider(code):
    async def play(cluster, consumer):
        group = Group(cluster)
        fill(cluster, T0, 2)
        await consumer.subscribe(["t"])
        await read(consumer, 2)
        before = dict(cluster.committed)
        group.says["Heartbeat"] = [code]
        while not consumer.member.lost:
            await asyncio.sleep(0.01)
            await consumer.member.tend()
        assert await consumer.commit({T0: 1}) == {T0: Code.UNKNOWN_MEMBER_ID}
        assert cluster.committed == before

    scene_with(1, {"t": 1}, play, **grouped())


def test_a_member_that_cannot_poll_heartbeats_on_while_the_group_waits_for_it():
    """Its session ended while its output was full, long before the time that members have for joining again."""

    async def play(cluster, consumer):
        group = Group(cluster)
        fill(cluster, T0, 1)
        await consumer.subscribe(["t"])
        await read(consumer, 1)
        before = group.names.count("Heartbeat")
        group.says["Heartbeat"] = [Code.REBALANCE_IN_PROGRESS, Code.REBALANCE_IN_PROGRESS, Code.UNKNOWN_MEMBER_ID]
        for _ in range(5):
            await consumer.stay()
        assert group.names.count("Heartbeat") == before + 3, "and none once the group has gone on without it"
        assert (consumer.member.must_join, consumer.member.lost) == (True, True)

    scene_with(1, {"t": 1}, play, **grouped(heartbeat_interval_ms=0))


async def without_coordinator(cluster, consumer):
    """A member has read a record, and its first heartbeat since was cut off; its group is returned."""
    group = Group(cluster)
    fill(cluster, T0, 1)
    await consumer.subscribe(["t"])
    await read(consumer, 1)
    cluster.mischief = lambda n, m, s: HANG_UP if isinstance(m, HeartbeatRequest) else group.serve(n, m, s)
    await consumer.stay()
    return group


def test_a_member_that_cannot_poll_is_not_held_up_by_a_coordinator_that_is_away(monkeypatch):
    """Each 32 KB of its output waited for a whole session timeout."""
    monkeypatch.setattr("moldau.client.consumer.STAY_MS", 30)

    async def play(cluster, consumer):
        await without_coordinator(cluster, consumer)
        asked = cluster.asked.count((0, "Heartbeat"))
        for _ in range(5):
            await consumer.stay()
        assert cluster.asked.count((0, "Heartbeat")) == asked

    scene_with(1, {"t": 1}, play, **grouped(heartbeat_interval_ms=0, session_timeout_ms=9_000))


def test_a_member_that_cannot_poll_is_heard_again_once_its_coordinator_is_back(monkeypatch):
    monkeypatch.setattr("moldau.client.consumer.STAY_MS", 30)

    async def play(cluster, consumer):
        group = await without_coordinator(cluster, consumer)
        cluster.mischief = group.serve
        before = group.names.count("Heartbeat")
        while group.names.count("Heartbeat") == before:
            await consumer.stay()
            await asyncio.sleep(0)

    scene_with(1, {"t": 1}, play, **grouped(heartbeat_interval_ms=0, session_timeout_ms=30))


def test_a_sync_that_came_too_late_leads_to_another_join():
    async def play(cluster, consumer):
        group = Group(cluster)
        group.says["SyncGroup"] = [Code.REBALANCE_IN_PROGRESS, Code.ILLEGAL_GENERATION]
        fill(cluster, T0, 1)
        await consumer.subscribe(["t"])
        assert await read(consumer, 1) == [(0, b"0")]
        assert group.generation == 3

    scene_with(1, {"t": 1}, play, **grouped())


def test_a_fenced_member_stops():
    async def play(cluster, consumer):
        group = Group(cluster)
        group.says["JoinGroup"] = [Code.FENCED_INSTANCE_ID]
        await consumer.subscribe(["t"])
        with pytest.raises(Refused, match="FENCED_INSTANCE_ID"):
            await consumer.poll(60_000)

    scene_with(1, {"t": 1}, play, **grouped(instance_id="i"))


def test_a_static_member_does_not_say_goodbye():
    async def play(cluster, consumer):
        group = Group(cluster)
        fill(cluster, T0, 1)
        await consumer.subscribe(["t"])
        await read(consumer, 1)
        await consumer.close()
        assert "LeaveGroup" not in group.names

    scene_with(1, {"t": 1}, play, **grouped(instance_id="i"))


def test_new_partitions_make_the_leader_share_out_again():
    async def play(cluster, consumer):
        group = Group(cluster)
        fill(cluster, T0, 1)
        await consumer.subscribe(["t"])
        await read(consumer, 1)
        cluster.logs[T1] = type(cluster.logs[T0])(0)
        fill(cluster, T1, 1)
        await consumer.client.know(["t"])
        assert await read(consumer, 1) == [(1, b"0")]
        assert read_assignment(group.assigned) == {T0, T1}

    scene_with(1, {"t": 1}, play, **grouped())


def test_an_empty_assignment_is_no_assignment():
    assert read_assignment(b"") == frozenset()
