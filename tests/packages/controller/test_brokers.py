"""Registration, heartbeats, fencing, controlled shutdown: who is in and who is out, and what becomes of partitions."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.controller.requests import (
    BrokerHeartbeat,
    BrokerRefused,
    CreateTopics,
    ElectLeaders,
    Idle,
    NewTopic,
    RegisterController,
    Tick,
    UnregisterBroker,
)
from moldau.image import NO_LEADER, FeatureRange, Recovery
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.wire.records import metadata as records


def test_a_new_broker_is_fenced_until_it_has_read_its_own_registration() -> None:
    harness = ControllerHarness()
    reply = harness.register(1)
    offset = harness.next_offset - 1
    assert reply.broker_epoch == offset, "the epoch is the offset of the record"
    assert harness.broker(1).fenced
    early = harness.heartbeat(1, metadata_offset=offset - 1)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    late = harness.heartbeat(1, metadata_offset=offset)
    assert (late.is_caught_up, late.is_fenced) == (True, False)
    assert harness.broker(1).active


def test_the_same_incarnation_keeps_epoch_and_standing() -> None:
    """KAFKA-16952: a retried or amended registration must not fence a broker that is at work."""
    harness = ControllerHarness(2)
    epoch = harness.broker(1).epoch
    reply = harness.register(1, rack="moved")
    assert reply.broker_epoch == epoch
    assert harness.broker(1).rack == "moved"
    assert not harness.broker(1).fenced
    harness.register(0)
    assert harness.broker(0).epoch != epoch


def test_another_live_process_with_the_same_id_is_refused() -> None:
    harness = ControllerHarness(2)
    harness.create("t", (1, 0))
    assert harness.register(1, 1).code == Code.DUPLICATE_BROKER_REGISTRATION
    assert harness.records == []
    harness.now_ms += 8_999
    assert harness.register(1, 1).code == Code.DUPLICATE_BROKER_REGISTRATION
    harness.now_ms += 2
    assert harness.register(1, 1).code == Code.NONE, "its session ran out"
    assert harness.broker(1).fenced
    assert harness.partition("t").isr == (0,), "the new process has to catch up like any other"


@pytest.mark.parametrize("proof", [{"previous_is_gone": True}, {"previous_broker_epoch": None}])
def test_a_process_known_to_succeed_a_dead_one_need_not_wait(proof: dict[str, object]) -> None:
    harness = ControllerHarness(2)
    harness.create("t", (1, 0))
    if "previous_broker_epoch" in proof:
        proof = {"previous_broker_epoch": harness.broker(1).epoch}
    old = harness.broker(1).epoch
    assert harness.register(1, 1, **proof).code == Code.NONE
    assert harness.broker(1).epoch > old
    assert (harness.partition("t").leader, harness.partition("t").isr) == (0, (0,))


def test_a_broker_that_refuses_connections_is_fenced_at_once_and_may_come_back_at_once() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (1, 0, 2))
    epoch = harness.broker(1).epoch
    assert harness.submit(BrokerRefused(broker_id=1, broker_epoch=epoch - 1)).count == 0, "news of an earlier life"
    assert harness.submit(BrokerRefused(broker_id=1, broker_epoch=epoch)).count == 1
    assert harness.broker(1).fenced
    assert (harness.partition("t").leader, harness.partition("t").isr) == (0, (0, 2))
    assert harness.submit(BrokerRefused(broker_id=1, broker_epoch=epoch)).count == 0
    assert harness.register(1, 1).code == Code.NONE


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, Code.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, Code.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": (b"a" * 16, b"a" * 16)}, Code.INVALID_REGISTRATION),
        ({"log_dirs": (bytes(15) + b"\1",)}, Code.INVALID_REGISTRATION),
        ({"log_dirs": (bytes([100]) * 16,)}, Code.INVALID_REGISTRATION),
        ({"features": (FeatureRange("metadata.version", 1, 7),)}, Code.UNSUPPORTED_VERSION),
        ({"features": (FeatureRange("metadata.version", 1, 25),)}, Code.UNSUPPORTED_VERSION),
    ],
)
def test_a_registration_that_cannot_be_is_refused(fields: dict[str, Any], code: Code) -> None:
    harness = ControllerHarness(1)
    incarnation = fields.pop("cluster_id", None)
    if incarnation is not None:
        from moldau.controller.requests import RegisterBroker

        reply = harness.submit(RegisterBroker(broker_id=9, cluster_id="another", incarnation_id=b"i" * 16))
    else:
        reply = harness.register(9, **fields)
    assert reply.code == code
    assert harness.records == []
    assert 9 not in harness.image.brokers


def test_a_broker_whose_features_fit_is_taken() -> None:
    harness = ControllerHarness(1)
    features = (FeatureRange("metadata.version", 20, 27), FeatureRange("eligible.leader.replicas.version", 0, 1))
    assert harness.register(9, features=features).code == Code.NONE
    assert harness.broker(9).features == features


def test_silence_past_the_session_fences_and_a_heartbeat_prevents_it() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (0, 1, 2), (1, 2, 0))
    for _ in range(9):
        harness.now_ms += 1000
        harness.submit(Tick())
        harness.heartbeat(1)
        harness.heartbeat(2)
    assert not harness.broker(0).fenced
    harness.now_ms += 1
    assert harness.submit(Tick()).count == 1
    assert harness.broker(0).fenced
    assert [harness.partition("t", n).leader for n in (0, 1)] == [1, 1]
    assert [harness.partition("t", n).isr for n in (0, 1)] == [(1, 2), (1, 2)]


def test_brokers_that_fall_silent_together_are_fenced_in_one_decision() -> None:
    harness = ControllerHarness(4)
    harness.create("t", (0, 1, 2, 3))
    for _ in range(10):
        harness.now_ms += 1000
        harness.heartbeat(2)
        harness.heartbeat(3)
        before = harness.partition("t")
        if harness.submit(Tick()).count:
            break
    assert harness.partition("t").leader == 2
    assert harness.partition("t").leader_epoch == before.leader_epoch + 1, "no stop-over at broker 1"
    assert [record.broker_id for record in harness.records if hasattr(record, "broker_id")] == [0, 1]


def test_time_in_which_the_controller_itself_slept_counts_against_nobody() -> None:
    """KAFKA-15019: heartbeats lay unread while it was away, so that fencing all would be wrong."""
    harness = ControllerHarness(3)
    harness.submit(Tick())
    harness.now_ms += 60_000
    assert harness.submit(Tick()).count == 0
    for _ in range(10):
        harness.now_ms += 1000
        count = harness.submit(Tick()).count
        if count:
            break
    assert count == 3, "silence after it woke counts as ever"


def test_a_stale_epoch_is_told_so_and_changes_nothing() -> None:
    harness = ControllerHarness(1)
    for id, epoch in ((0, harness.broker(0).epoch - 1), (7, 0)):
        reply = harness.submit(BrokerHeartbeat(broker_id=id, broker_epoch=epoch, metadata_offset=99))
        assert reply.code == Code.STALE_BROKER_EPOCH
        assert harness.records == []


def test_controlled_shutdown_moves_leads_then_lets_go_when_the_others_have_read_of_it() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (0, 1, 2), (1, 2, 0), (2, 0, 1))
    going = harness.heartbeat(0, want_shut_down=True)
    assert not going.should_shut_down
    assert going.in_controlled_shutdown
    assert harness.broker(0).in_controlled_shutdown
    assert [harness.partition("t", n).leader for n in range(3)] == [1, 1, 2]
    assert all(0 not in harness.partition("t", n).isr for n in range(3))
    assert not harness.heartbeat(0, want_shut_down=True).should_shut_down, "1 and 2 have not said that they read it"
    harness.heartbeat(1)
    assert not harness.heartbeat(0, want_shut_down=True).should_shut_down
    harness.heartbeat(2)
    assert harness.heartbeat(0, want_shut_down=True).should_shut_down
    assert harness.broker(0).fenced
    assert harness.heartbeat(0, want_shut_down=True).should_shut_down, "asked again, told again"


def test_what_the_quorum_saw_others_fetch_spares_the_wait_for_their_heartbeats() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (0, 1, 2))
    harness.heartbeat(0, want_shut_down=True)
    end = harness.next_offset - 1
    request = BrokerHeartbeat(
        broker_id=0, broker_epoch=harness.broker(0).epoch, metadata_offset=end, want_shut_down=True
    )
    assert not harness.submit(request, observed={1: end - 1, 2: end}).should_shut_down
    assert harness.submit(request, observed={1: end, 2: end}).should_shut_down


def test_a_broker_that_leads_nothing_goes_at_once_and_one_alone_leaves_its_partitions_without_leader() -> None:
    harness = ControllerHarness(2)
    harness.create("alone", (1,))
    assert harness.heartbeat(0, want_shut_down=True).should_shut_down
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
    assert harness.partition("alone").leader == NO_LEADER
    assert harness.heartbeat(1, want_shut_down=True).should_shut_down


def test_in_zookeeper_mode_a_sole_in_sync_leader_leads_on_until_another_can_or_its_broker_goes() -> None:
    """CS-1, as KafkaController.doControlledShutdown: what nobody else can lead keeps its leader, and is named."""
    harness = ControllerHarness(3, elr=False, zookeeper_mode=True)
    harness.create("t", (0, 1), (1, 0), (0, 2))
    harness.create("single", (0,))
    assert harness.set_isr("t", 0, 0) == Code.NONE, "1 lags"
    assert not harness.heartbeat(0, want_shut_down=True).should_shut_down
    assert [harness.partition("t", n).leader for n in range(3)] == [0, 1, 2]
    assert [harness.partition("t", n).isr for n in range(3)] == [(0,), (1,), (2,)]
    assert harness.partition("single").leader == 0, "nobody else ever could"
    harness.heartbeat(1)
    harness.heartbeat(2)
    assert not harness.heartbeat(0, want_shut_down=True).should_shut_down
    assert harness.records == [], "asked again, it changes nothing"
    assert harness.set_isr("t", 0, 0, 1) == Code.NONE, "1 has caught up, and the leader that is to go may say so"
    assert (harness.partition("t").leader, harness.partition("t").isr) == (0, (0, 1))
    harness.heartbeat(0, want_shut_down=True)
    assert (harness.partition("t").leader, harness.partition("t").isr) == (1, (1,))
    harness.heartbeat(1)
    harness.heartbeat(2)
    assert harness.heartbeat(0, want_shut_down=True).should_shut_down
    assert harness.partition("single").leader == NO_LEADER


def test_in_zookeeper_mode_a_leader_that_wants_to_shut_down_leaves_the_isr_with_its_lead() -> None:
    """Seed 4014: a preferred election took the lead from it, and left it in the ISR."""
    harness = ControllerHarness(2, elr=False, zookeeper_mode=True)
    harness.create("t", (1, 0))
    harness.set_isr("t", 0, 1)
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    harness.heartbeat(1)
    harness.set_isr("t", 0, 1, 0)
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    harness.heartbeat(1)
    assert (harness.partition("t").leader, harness.partition("t").isr) == (0, (0,))
    harness.heartbeat(0, want_shut_down=True)
    harness.set_isr("t", 0, 0, 1)
    assert (harness.partition("t").leader, harness.partition("t").isr) == (0, (0, 1))
    harness.submit(ElectLeaders(election_type=0, partitions=(("t", 0),)))
    assert (harness.partition("t").leader, harness.partition("t").isr) == (1, (1,))


def test_in_zookeeper_mode_a_broker_that_goes_without_leave_leaves_its_partitions_without_leader() -> None:
    harness = ControllerHarness(2, elr=False, zookeeper_mode=True)
    harness.create("t", (0, 1))
    harness.set_isr("t", 0, 0)
    harness.heartbeat(0, want_shut_down=True)
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))
    assert (harness.partition("t").leader, harness.partition("t").isr) == (NO_LEADER, (0,))


@pytest.mark.parametrize("lagging", [0, 20])
def test_in_zookeeper_mode_a_shutdown_of_many_partitions_keeps_those_that_nobody_else_can_lead(lagging: int) -> None:
    harness = ControllerHarness(2, elr=False, zookeeper_mode=True, partitions_at_once=7)
    harness.create("t", *((0, 1) for _ in range(40)))
    for number in range(lagging):
        harness.set_isr("t", number, 0)
    for _ in range(3):
        harness.heartbeat(0, want_shut_down=True)
    assert [harness.partition("t", n).leader for n in range(40)] == [0] * lagging + [1] * (40 - lagging)


def test_a_fenced_broker_may_always_go() -> None:
    harness = ControllerHarness()
    harness.register(1)
    assert harness.heartbeat(1, want_shut_down=True).should_shut_down
    assert harness.records == []


def test_a_broker_on_its_way_out_gets_no_new_lead() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (0, 1))
    harness.heartbeat(0, want_shut_down=True)
    result = harness.submit(CreateTopics(topics=(NewTopic(name="new", partitions=6, replication_factor=2),))).topics[0]
    assert result.problem.code == Code.NONE
    assert all(0 not in p.replicas for p in harness.image.topics[result.topic_id].partitions.values())


def test_a_broker_that_wants_to_be_fenced_is() -> None:
    harness = ControllerHarness(2)
    harness.create("t", (0, 1))
    assert harness.heartbeat(0, want_fence=True).is_fenced
    assert harness.partition("t").leader == 1
    assert harness.heartbeat(0, want_fence=True).is_fenced
    assert not harness.heartbeat(0).is_fenced


def test_unfencing_gives_leaderless_partitions_a_leader() -> None:
    harness = ControllerHarness(2, elr=False)
    harness.create("t", (0,), (1,))
    harness.create("two", (0, 1))
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))
    assert harness.partition("t", 0).leader == NO_LEADER
    assert harness.partition("t", 0).isr == (0,), "the last ISR is remembered"
    harness.heartbeat(0)
    assert harness.partition("t", 0).leader == 0
    assert harness.partition("two").isr == (1,), "who was out of the ISR must first catch up"


def test_without_an_elr_the_dead_leave_the_isr_when_one_of_them_comes_back_to_lead() -> None:
    harness = ControllerHarness(3, elr=False)
    harness.create("t", (0, 1))
    epochs = [harness.broker(n).epoch for n in (0, 1)]
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=epochs[0]))
    assert harness.partition("t").isr == (1,)
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=epochs[1]))
    assert (harness.partition("t").leader, harness.partition("t").isr) == (NO_LEADER, (1,))
    harness.heartbeat(0)
    assert harness.partition("t").leader == NO_LEADER, "0 may lack what 1 took alone"
    harness.heartbeat(1)
    assert (harness.partition("t").leader, harness.partition("t").isr) == (1, (1,))


class TestEligibleLeaderReplicas:
    """KIP-966: below min ISR nothing is committed, so those who leave stay eligible."""

    @staticmethod
    def harness() -> ControllerHarness:
        harness = ControllerHarness(3)
        harness.create("t", (0, 1, 2), configs={"min.insync.replicas": "2"})
        return harness

    def refuse(self, harness: ControllerHarness, id: int) -> None:
        harness.submit(BrokerRefused(broker_id=id, broker_epoch=harness.broker(id).epoch))

    def test_they_grow_below_min_isr_and_lead_cleanly_when_the_isr_is_gone(self) -> None:
        harness = self.harness()
        self.refuse(harness, 2)
        assert (harness.partition("t").isr, harness.partition("t").elr) == ((0, 1), ())
        self.refuse(harness, 1)
        assert (harness.partition("t").isr, harness.partition("t").elr) == ((0,), (1,))
        self.refuse(harness, 0)
        gone = harness.partition("t")
        assert (gone.isr, set(gone.elr), gone.last_known_elr, gone.leader) == ((), {0, 1}, (0,), NO_LEADER)
        harness.heartbeat(2)
        assert harness.partition("t").leader == NO_LEADER, "2 left above min ISR: it may lack committed records"
        harness.heartbeat(1)
        back = harness.partition("t")
        assert (back.leader, back.isr, back.elr, back.recovery) == (1, (1,), (0,), Recovery.RECOVERED)
        assert back.last_known_elr == ()
        assert harness.set_isr("t", 0, 1, 2) == Code.NONE
        assert harness.partition("t").elr == (), "at min ISR nobody outside is needed"

    def test_a_process_that_died_uncleanly_is_no_longer_eligible_but_the_last_leader_may_recover(self) -> None:
        harness = self.harness()
        for id in (2, 1, 0):
            self.refuse(harness, id)
        harness.register(1, 1)
        assert harness.partition("t").elr == (0,)
        harness.heartbeat(1)
        assert harness.partition("t").leader == NO_LEADER
        harness.register(0, 1)
        assert harness.partition("t").elr == ()
        harness.heartbeat(0)
        back = harness.partition("t")
        assert (back.leader, back.isr, back.recovery) == (0, (0,), Recovery.RECOVERING)
        assert harness.set_isr("t", 0, 0, 1, recovery=1) == Code.INVALID_REQUEST, "recovering goes alone"
        assert harness.set_isr("t", 0, 0, recovery=0) == Code.NONE
        assert harness.partition("t").recovery == Recovery.RECOVERED

    def test_one_of_several_that_died_together_commits_alone_and_leaves_nobody_eligible(self) -> None:
        harness = ControllerHarness(2)
        harness.create("t", (0, 1))
        harness.submit(Tick())
        for _ in range(10):
            harness.now_ms += 1000
            harness.submit(Tick())
        assert (harness.partition("t").isr, harness.partition("t").elr) == ((), (0, 1))
        harness.heartbeat(1)
        assert (harness.partition("t").leader, harness.partition("t").elr) == (1, ()), "min ISR is 1"

    def test_a_process_that_stopped_cleanly_stays_eligible(self) -> None:
        harness = self.harness()
        for id in (2, 1, 0):
            self.refuse(harness, id)
        harness.register(1, 1, previous_broker_epoch=harness.broker(1).epoch)
        assert 1 in harness.partition("t").elr
        harness.heartbeat(1)
        assert harness.partition("t").leader == 1


def test_unregistering_forgets_a_broker_everywhere() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (0, 1, 2))
    assert harness.submit(UnregisterBroker(broker_id=0)).code == Code.NONE
    assert 0 not in harness.image.brokers
    assert (harness.partition("t").leader, harness.partition("t").isr) == (1, (1, 2))
    assert harness.submit(UnregisterBroker(broker_id=0)).code == Code.BROKER_ID_NOT_REGISTERED


def test_a_failed_directory_takes_only_its_own_replicas() -> None:
    harness = ControllerHarness(1)
    a, b = b"a" * 16, b"b" * 16
    harness.add_broker(1, log_dirs=(a, b))
    harness.create("t", (1, 0), (1, 0))
    from moldau.controller.requests import AssignReplicasToDirs

    keys = [harness.partition("t", n).key for n in range(2)]
    request = AssignReplicasToDirs(
        broker_id=1, broker_epoch=harness.broker(1).epoch, directories={a: (keys[0],), b: (keys[1], (b"?" * 16, 0))}
    )
    codes = [code for _, _, code in harness.submit(request).partitions]
    assert codes == [Code.NONE, Code.NONE, Code.UNKNOWN_TOPIC_ID]
    assert harness.partition("t", 0).directories[0] == a
    harness.heartbeat(1, offline_log_dirs=(a,))
    assert harness.broker(1).log_dirs == (b,)
    assert (harness.partition("t", 0).leader, harness.partition("t", 0).isr) == (0, (0,))
    assert (harness.partition("t", 1).leader, harness.partition("t", 1).isr) == (1, (1, 0))
    harness.heartbeat(1, offline_log_dirs=(a,))
    assert harness.records == [], "told again, nothing new"


def test_controllers_register_and_an_idle_log_gets_a_no_op() -> None:
    harness = ControllerHarness()
    request = RegisterController(controller_id=3, incarnation_id=b"c" * 16)
    assert harness.submit(request).code == Code.NONE
    assert harness.image.controllers[3].incarnation_id == b"c" * 16
    harness.submit(request)
    assert harness.records == []
    harness.submit(Idle())
    assert harness.records == [records.NoOpRecord()]


def test_a_broker_that_starts_and_is_heard_is_not_replaced_either() -> None:
    harness = ControllerHarness(1)
    assert harness.register(1).code == Code.NONE
    assert harness.broker(1).fenced, "it has not caught up yet"
    assert harness.register(1, 1).code == Code.DUPLICATE_BROKER_REGISTRATION
    harness.now_ms += harness.controller.settings.session_timeout_ms + 1
    assert harness.register(1, 1).code == Code.NONE
