"""What a group coordinator answers with NONE is in the log, whoever else asked in the same turn of the loop.

One shard over the real packing, batching and replay; requests are passed through the wire's own bytes first, as only
what the wire lets in reaches a shard.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.groups.offsets_log import OffsetsBatch, batches_of
from moldau.groups import GroupsConfig, Shard, laws
from moldau.groups.codec import pack
from moldau.groups.facts import (
    Append,
    AppendCommitted,
    AppendRefused,
    CommitItem,
    DeleteGroup,
    Expired,
    Join,
    Now,
    OffsetCommit,
    Protocol,
    Reply,
    SyncGroup,
)
from moldau.model import Code, TopicPartition
from moldau.wire.codec import Malformed
from moldau.wire.messages.k11_join_group import JoinGroupRequest
from tests.packages.broker import data_cluster
from tests.packages.broker.group_cluster import GroupBroker, GroupCluster
from tests.packages.broker.test_coordinator import play
from tests.packages.broker.test_group_log import OldLog, load

SETTINGS = GroupsConfig(initial_rebalance_delay_ms=0, offset_metadata_max_bytes=100_000)
NOW = Now(1_000, 1_700_000_000_000)
LENGTHS = st.sampled_from([0, 1, 249, 250, 8_000, 32_766, 32_767, 32_768, 40_000])
LETTERS = st.sampled_from(["x", "é", "😀"])
INT64 = st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)


class Coordinator:
    """A shard, and a log that takes what one turn has gathered."""

    def __init__(self) -> None:
        self.shard = Shard(SETTINGS)
        self.answers: dict[str, Any] = {}
        self.outbox: list[Append] = []
        self.written: list[bytes] = []
        self.carry_out(self.shard.loaded(NOW))

    def carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self.answers[str(effect.token)] = effect.value
            elif isinstance(effect, Append):
                self.outbox.append(effect)
        laws.check(self.shard)

    def submit(self, request: Any, token: str) -> None:
        self.carry_out(self.shard.step(request, NOW, token))

    def flush(self) -> None:
        while self.outbox:
            appends, self.outbox = self.outbox, []
            for one in batches_of(appends, 0, 50_000):
                if isinstance(one, OffsetsBatch):
                    self.written.append(one.data)
                    self.carry_out(self.shard.step(AppendCommitted(one.seqs), NOW))
                else:
                    self.carry_out(self.shard.step(AppendRefused(one.seq, Code.INVALID_REQUEST), NOW))

    def reloaded(self) -> Shard:
        shard = Shard(SETTINGS)
        load(shard, OldLog(*self.written))
        return shard


def commit(group_id: str, offset: int, metadata: str = "", retention_ms: int | None = None) -> OffsetCommit:
    """Without a leader epoch: records of offsets with an expiry of their own have no room for one."""
    return OffsetCommit(group_id, "", None, -1, (CommitItem("t", 0, offset, -1, metadata),), retention_ms)


TEXTS = st.builds(lambda letter, length: letter * (length // len(letter.encode())), LETTERS, LENGTHS)
COMMITS = st.builds(commit, TEXTS | st.just("h"), INT64, TEXTS, st.none() | st.integers(0, 2**63 - 1))
ORDINARY = st.builds(lambda offset: commit("g", offset), st.integers(0, 1000))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(ORDINARY | COMMITS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_every_offset_that_was_answered_none_is_read_after_a_reload(turns: list[list[OffsetCommit]]) -> None:
    coordinator = Coordinator()
    expected: dict[str, int] = {}
    for number, turn in enumerate(turns):
        for place, request in enumerate(turn):
            coordinator.submit(request, f"{number}.{place}")
        coordinator.flush()
        for place, request in enumerate(turn):
            codes = coordinator.answers[f"{number}.{place}"].codes
            if codes == (Code.NONE,):
                expected[request.group_id] = request.items[0].offset
            else:
                assert request.group_id != "g", codes
    found = coordinator.reloaded().groups
    where = TopicPartition("t", 0)
    assert {id: group.offsets[where].offset for id, group in found.items()} == expected
    held = coordinator.shard.groups
    assert {id: group.offsets[where] for id, group in held.items() if group.offsets} == {
        id: group.offsets[where] for id, group in found.items()
    }


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, st.none() | TEXTS, st.integers(-(2**31), 2**31 - 1), st.lists(COMMITS, max_size=2))
def test_an_assignment_that_was_handed_out_is_there_after_a_reload(
    client_id: str, protocol: str, instance_id: str | None, timeout_ms: int, others: list[OffsetCommit]
) -> None:
    wire = JoinGroupRequest(
        group_id="g",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=protocol, metadata=b"")],
    )
    try:
        JoinGroupRequest.decode(wire.encode(9), 9)
    except Malformed:
        return
    coordinator = Coordinator()
    known_as = client_id.encode()[:32_767].decode(errors="ignore")
    coordinator.submit(
        Join(
            "g", "", instance_id, "consumer", (Protocol(protocol, b""),), 10_000, timeout_ms,
            known_as, "/h", "f" * 36, known_member_id_required=False,
        ),
        "join",
    )  # fmt: skip
    for key in list(coordinator.shard.deadlines):
        coordinator.carry_out(coordinator.shard.step(Expired(key), NOW))
    joined = coordinator.answers["join"]
    assert joined.code is Code.NONE
    for number, request in enumerate(others[:1]):
        coordinator.submit(request, f"before {number}")
    coordinator.submit(
        SyncGroup("g", joined.member_id, instance_id, 1, None, None, ((joined.member_id, b"mine"),)), "sync"
    )
    for number, request in enumerate(others[1:]):
        coordinator.submit(request, f"after {number}")
    coordinator.flush()
    assert coordinator.answers["sync"].code is Code.NONE
    again = coordinator.reloaded().groups["g"]
    assert again.generation == 1
    assert again.members[joined.member_id].assignment == b"mine"


def test_an_expiry_beyond_all_time_is_the_end_of_time() -> None:
    coordinator = Coordinator()
    coordinator.submit(commit("g", 7, retention_ms=2**63 - 1), "t")
    coordinator.flush()
    assert coordinator.answers["t"].codes == (Code.NONE,)
    assert coordinator.reloaded().groups["g"].offsets[TopicPartition("t", 0)].expire_ms == 2**63 - 1


def test_generations_begin_anew_after_the_last_number() -> None:
    coordinator = Coordinator()
    coordinator.submit(commit("g", 1), "t")
    group = coordinator.shard.groups["g"]
    group.generation = 2**31 - 1
    group.move(type(group.state).PREPARING_REBALANCE, 0)
    group.next_generation(0)
    assert group.generation == 1


@pytest.fixture
def _brokers_coordinate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_cluster, "MiniBroker", GroupBroker)


@pytest.mark.usefixtures("_brokers_coordinate")
def test_a_commit_beside_one_that_cannot_be_written_is_there_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that no batch can hold is made up here: nothing that the wire lets in makes one."""

    def cramped(record: Any) -> Any:
        if record.group_id == "bad":
            raise Malformed("no room")
        return pack(record)

    monkeypatch.setattr("moldau.broker.groups.offsets_log.pack", cramped)

    async def scene(cluster: GroupCluster) -> None:
        requests = [commit("g", 41), commit("bad", 1), commit("h", 43)]
        coordinator = cluster.coordinator(0)
        answers = [coordinator.submit([request], lambda replies: replies[0]) for request in requests]
        codes = [(await answer).codes for answer in answers]  # type: ignore[misc]
        assert codes == [(Code.NONE,), (Code.INVALID_REQUEST,), (Code.NONE,)]
        assert "bad" not in cluster.shard(0).groups
        cluster.brokers[0].replicas.logs.close(1)
        cluster.kill(0)
        await cluster.boot(0)
        await cluster.loaded(0)
        held = cluster.shard(0).groups
        assert {id: group.offsets[TopicPartition("t", 0)].offset for id, group in held.items()} == {"g": 41, "h": 43}

    play(tmp_path, scene)


@pytest.mark.usefixtures("_brokers_coordinate")
def test_commits_of_one_turn_go_into_as_many_batches_as_the_topic_asks_for(tmp_path: Path) -> None:
    """Its max.message.bytes was less than half the broker's: many groups that committed at once were all told
    INVALID_COMMIT_OFFSET_SIZE, which ends a Java consumer."""

    async def scene(cluster: GroupCluster) -> None:
        cluster.configure("__consumer_offsets", max_message_bytes="1000")
        coordinator = cluster.coordinator(0)
        requests = [commit(f"group {number}", number) for number in range(100)]
        answers = [coordinator.submit([request], lambda replies: replies[0]) for request in requests]
        assert {(await answer).codes for answer in answers} == {(Code.NONE,)}  # type: ignore[misc]
        large = coordinator.submit([commit("large", 1, "x" * 4_000)], lambda replies: replies[0])
        assert (await large).codes == (Code.INVALID_COMMIT_OFFSET_SIZE,)  # type: ignore[misc]
        items = [CommitItem("t", number, 1, -1, "") for number in range(100)]
        for item in items:
            await coordinator.submit([OffsetCommit("g", "", None, -1, (item,))], lambda replies: replies[0])  # type: ignore[misc]
        deleted = coordinator.submit([DeleteGroup("g")], lambda replies: replies[0])
        assert (await deleted).code is Code.NONE  # type: ignore[misc]
        assert "g" not in cluster.shard(0).groups

    play(tmp_path, scene)
