"""Registration, heartbeats, fencing, controlled shutdown: who is in and who is out, and what becomes of partitions."""

from __future__ import annotations

import pytest

from moldau.controller.asks import (
    BrokerRefused,
    CreateTopics,
    ElectLeaders,
    Heartbeat,
    Idle,
    NewTopic,
    RegisterController,
    Tick,
    UnregisterBroker,
)
from moldau.image import NO_LEADER, FeatureRange, Recovery
from moldau.model import Code
from moldau.simulator.machines.controller_desk import Desk
from moldau.wire.records import metadata as records


def test_a_new_broker_is_fenced_until_it_has_read_its_own_registration() -> None:
    desk = Desk()
    reply = desk.register(1)
    offset = desk.next_offset - 1
    assert reply.broker_epoch == offset, "the epoch is the offset of the record"
    assert desk.broker(1).fenced
    early = desk.beat(1, metadata_offset=offset - 1)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    late = desk.beat(1, metadata_offset=offset)
    assert (late.is_caught_up, late.is_fenced) == (True, False)
    assert desk.broker(1).active


def test_the_same_incarnation_keeps_epoch_and_standing() -> None:
    """KAFKA-16952: a retried or amended registration must not fence a broker that is at work."""
    desk = Desk(2)
    epoch = desk.broker(1).epoch
    reply = desk.register(1, rack="moved")
    assert reply.broker_epoch == epoch
    assert desk.broker(1).rack == "moved"
    assert not desk.broker(1).fenced
    desk.register(0)
    assert desk.broker(0).epoch != epoch


def test_another_live_process_with_the_same_id_is_refused() -> None:
    desk = Desk(2)
    desk.create("t", (1, 0))
    assert desk.register(1, 1).code == Code.DUPLICATE_BROKER_REGISTRATION
    assert desk.records == []
    desk.now_ms += 8_999
    assert desk.register(1, 1).code == Code.DUPLICATE_BROKER_REGISTRATION
    desk.now_ms += 2
    assert desk.register(1, 1).code == Code.NONE, "its session ran out"
    assert desk.broker(1).fenced
    assert desk.partition("t").isr == (0,), "the new process has to catch up like any other"


@pytest.mark.parametrize("proof", [{"previous_is_gone": True}, {"previous_broker_epoch": None}])
def test_a_process_known_to_succeed_a_dead_one_need_not_wait(proof: dict[str, object]) -> None:
    desk = Desk(2)
    desk.create("t", (1, 0))
    if "previous_broker_epoch" in proof:
        proof = {"previous_broker_epoch": desk.broker(1).epoch}
    old = desk.broker(1).epoch
    assert desk.register(1, 1, **proof).code == Code.NONE
    assert desk.broker(1).epoch > old
    assert (desk.partition("t").leader, desk.partition("t").isr) == (0, (0,))


def test_a_broker_that_refuses_connections_is_fenced_at_once_and_may_come_back_at_once() -> None:
    desk = Desk(3)
    desk.create("t", (1, 0, 2))
    epoch = desk.broker(1).epoch
    assert desk.ask(BrokerRefused(broker_id=1, broker_epoch=epoch - 1)).count == 0, "news of an earlier life"
    assert desk.ask(BrokerRefused(broker_id=1, broker_epoch=epoch)).count == 1
    assert desk.broker(1).fenced
    assert (desk.partition("t").leader, desk.partition("t").isr) == (0, (0, 2))
    assert desk.ask(BrokerRefused(broker_id=1, broker_epoch=epoch)).count == 0
    assert desk.register(1, 1).code == Code.NONE


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
def test_a_registration_that_cannot_be_is_refused(fields: dict[str, object], code: Code) -> None:
    desk = Desk(1)
    incarnation = fields.pop("cluster_id", None)
    if incarnation is not None:
        from moldau.controller.asks import RegisterBroker

        reply = desk.ask(RegisterBroker(broker_id=9, cluster_id="another", incarnation_id=b"i" * 16))
    else:
        reply = desk.register(9, **fields)
    assert reply.code == code
    assert desk.records == []
    assert 9 not in desk.image.brokers


def test_a_broker_whose_features_fit_is_taken() -> None:
    desk = Desk(1)
    features = (FeatureRange("metadata.version", 20, 27), FeatureRange("eligible.leader.replicas.version", 0, 1))
    assert desk.register(9, features=features).code == Code.NONE
    assert desk.broker(9).features == features


def test_silence_past_the_session_fences_and_a_heartbeat_prevents_it() -> None:
    desk = Desk(3)
    desk.create("t", (0, 1, 2), (1, 2, 0))
    for _ in range(9):
        desk.now_ms += 1000
        desk.ask(Tick())
        desk.beat(1)
        desk.beat(2)
    assert not desk.broker(0).fenced
    desk.now_ms += 1
    assert desk.ask(Tick()).count == 1
    assert desk.broker(0).fenced
    assert [desk.partition("t", n).leader for n in (0, 1)] == [1, 1]
    assert [desk.partition("t", n).isr for n in (0, 1)] == [(1, 2), (1, 2)]


def test_brokers_that_fall_silent_together_are_fenced_in_one_decision() -> None:
    desk = Desk(4)
    desk.create("t", (0, 1, 2, 3))
    for _ in range(10):
        desk.now_ms += 1000
        desk.beat(2)
        desk.beat(3)
        before = desk.partition("t")
        if desk.ask(Tick()).count:
            break
    assert desk.partition("t").leader == 2
    assert desk.partition("t").leader_epoch == before.leader_epoch + 1, "no stop-over at broker 1"
    assert [record.broker_id for record in desk.records if hasattr(record, "broker_id")] == [0, 1]


def test_time_in_which_the_controller_itself_slept_counts_against_nobody() -> None:
    """KAFKA-15019: heartbeats lay unread while it was away, so that fencing all would be wrong."""
    desk = Desk(3)
    desk.ask(Tick())
    desk.now_ms += 60_000
    assert desk.ask(Tick()).count == 0
    for _ in range(10):
        desk.now_ms += 1000
        count = desk.ask(Tick()).count
        if count:
            break
    assert count == 3, "silence after it woke counts as ever"


def test_a_stale_epoch_is_told_so_and_changes_nothing() -> None:
    desk = Desk(1)
    for id, epoch in ((0, desk.broker(0).epoch - 1), (7, 0)):
        reply = desk.ask(Heartbeat(broker_id=id, broker_epoch=epoch, metadata_offset=99))
        assert reply.code == Code.STALE_BROKER_EPOCH
        assert desk.records == []


def test_controlled_shutdown_moves_leads_then_lets_go_when_the_others_have_read_of_it() -> None:
    desk = Desk(3)
    desk.create("t", (0, 1, 2), (1, 2, 0), (2, 0, 1))
    going = desk.beat(0, want_shut_down=True)
    assert not going.should_shut_down
    assert going.in_controlled_shutdown
    assert desk.broker(0).in_controlled_shutdown
    assert [desk.partition("t", n).leader for n in range(3)] == [1, 1, 2]
    assert all(0 not in desk.partition("t", n).isr for n in range(3))
    assert not desk.beat(0, want_shut_down=True).should_shut_down, "1 and 2 have not said that they read it"
    desk.beat(1)
    assert not desk.beat(0, want_shut_down=True).should_shut_down
    desk.beat(2)
    assert desk.beat(0, want_shut_down=True).should_shut_down
    assert desk.broker(0).fenced
    assert desk.beat(0, want_shut_down=True).should_shut_down, "asked again, told again"


def test_what_the_quorum_saw_others_fetch_spares_the_wait_for_their_heartbeats() -> None:
    desk = Desk(3)
    desk.create("t", (0, 1, 2))
    desk.beat(0, want_shut_down=True)
    end = desk.next_offset - 1
    ask = Heartbeat(broker_id=0, broker_epoch=desk.broker(0).epoch, metadata_offset=end, want_shut_down=True)
    assert not desk.ask(ask, observed={1: end - 1, 2: end}).should_shut_down
    assert desk.ask(ask, observed={1: end, 2: end}).should_shut_down


def test_a_broker_that_leads_nothing_goes_at_once_and_one_alone_leaves_its_partitions_without_leader() -> None:
    desk = Desk(2)
    desk.create("alone", (1,))
    assert desk.beat(0, want_shut_down=True).should_shut_down
    assert not desk.beat(1, want_shut_down=True).should_shut_down
    assert desk.partition("alone").leader == NO_LEADER
    assert desk.beat(1, want_shut_down=True).should_shut_down


def test_in_zookeeper_mode_a_sole_in_sync_leader_leads_on_until_another_can_or_its_broker_goes() -> None:
    """CS-1, as KafkaController.doControlledShutdown: what nobody else can lead keeps its leader, and is named."""
    desk = Desk(3, elr=False, classic=True)
    desk.create("t", (0, 1), (1, 0), (0, 2))
    desk.create("single", (0,))
    assert desk.set_isr("t", 0, 0) == Code.NONE, "1 lags"
    assert not desk.beat(0, want_shut_down=True).should_shut_down
    assert [desk.partition("t", n).leader for n in range(3)] == [0, 1, 2]
    assert [desk.partition("t", n).isr for n in range(3)] == [(0,), (1,), (2,)]
    assert desk.partition("single").leader == 0, "nobody else ever could"
    desk.beat(1)
    desk.beat(2)
    assert not desk.beat(0, want_shut_down=True).should_shut_down
    assert desk.records == [], "asked again, it changes nothing"
    assert desk.set_isr("t", 0, 0, 1) == Code.NONE, "1 has caught up, and the leader that is to go may say so"
    assert (desk.partition("t").leader, desk.partition("t").isr) == (0, (0, 1))
    desk.beat(0, want_shut_down=True)
    assert (desk.partition("t").leader, desk.partition("t").isr) == (1, (1,))
    desk.beat(1)
    desk.beat(2)
    assert desk.beat(0, want_shut_down=True).should_shut_down
    assert desk.partition("single").leader == NO_LEADER


def test_in_zookeeper_mode_a_leader_that_wants_to_shut_down_leaves_the_isr_with_its_lead() -> None:
    """Seed 4014: a preferred election took the lead from it, and left it in the ISR."""
    desk = Desk(2, elr=False, classic=True)
    desk.create("t", (1, 0))
    desk.set_isr("t", 0, 1)
    desk.ask(BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    desk.beat(1)
    desk.set_isr("t", 0, 1, 0)
    desk.ask(BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    desk.beat(1)
    assert (desk.partition("t").leader, desk.partition("t").isr) == (0, (0,))
    desk.beat(0, want_shut_down=True)
    desk.set_isr("t", 0, 0, 1)
    assert (desk.partition("t").leader, desk.partition("t").isr) == (0, (0, 1))
    desk.ask(ElectLeaders(election_type=0, partitions=(("t", 0),)))
    assert (desk.partition("t").leader, desk.partition("t").isr) == (1, (1,))


def test_in_zookeeper_mode_a_broker_that_goes_without_leave_leaves_its_partitions_without_leader() -> None:
    desk = Desk(2, elr=False, classic=True)
    desk.create("t", (0, 1))
    desk.set_isr("t", 0, 0)
    desk.beat(0, want_shut_down=True)
    desk.ask(BrokerRefused(broker_id=0, broker_epoch=desk.broker(0).epoch))
    assert (desk.partition("t").leader, desk.partition("t").isr) == (NO_LEADER, (0,))


@pytest.mark.parametrize("lagging", [0, 20])
def test_in_zookeeper_mode_a_shutdown_of_many_partitions_keeps_those_that_nobody_else_can_lead(lagging: int) -> None:
    desk = Desk(2, elr=False, classic=True, partitions_at_once=7)
    desk.create("t", *((0, 1) for _ in range(40)))
    for number in range(lagging):
        desk.set_isr("t", number, 0)
    for _ in range(3):
        desk.beat(0, want_shut_down=True)
    assert [desk.partition("t", n).leader for n in range(40)] == [0] * lagging + [1] * (40 - lagging)


def test_a_fenced_broker_may_always_go() -> None:
    desk = Desk()
    desk.register(1)
    assert desk.beat(1, want_shut_down=True).should_shut_down
    assert desk.records == []


def test_a_broker_on_its_way_out_gets_no_new_lead() -> None:
    desk = Desk(3)
    desk.create("t", (0, 1))
    desk.beat(0, want_shut_down=True)
    result = desk.ask(CreateTopics(topics=(NewTopic(name="new", partitions=6, replication_factor=2),))).topics[0]
    assert result.problem.code == Code.NONE
    assert all(0 not in p.replicas for p in desk.image.topics[result.topic_id].partitions.values())


def test_a_broker_that_wants_to_be_fenced_is() -> None:
    desk = Desk(2)
    desk.create("t", (0, 1))
    assert desk.beat(0, want_fence=True).is_fenced
    assert desk.partition("t").leader == 1
    assert desk.beat(0, want_fence=True).is_fenced
    assert not desk.beat(0).is_fenced


def test_unfencing_gives_leaderless_partitions_a_leader() -> None:
    desk = Desk(2, elr=False)
    desk.create("t", (0,), (1,))
    desk.create("two", (0, 1))
    desk.ask(BrokerRefused(broker_id=0, broker_epoch=desk.broker(0).epoch))
    assert desk.partition("t", 0).leader == NO_LEADER
    assert desk.partition("t", 0).isr == (0,), "the last ISR is remembered"
    desk.beat(0)
    assert desk.partition("t", 0).leader == 0
    assert desk.partition("two").isr == (1,), "who was out of the ISR must first catch up"


def test_without_an_elr_the_dead_leave_the_isr_when_one_of_them_comes_back_to_lead() -> None:
    desk = Desk(3, elr=False)
    desk.create("t", (0, 1))
    epochs = [desk.broker(n).epoch for n in (0, 1)]
    desk.ask(BrokerRefused(broker_id=0, broker_epoch=epochs[0]))
    assert desk.partition("t").isr == (1,)
    desk.ask(BrokerRefused(broker_id=1, broker_epoch=epochs[1]))
    assert (desk.partition("t").leader, desk.partition("t").isr) == (NO_LEADER, (1,))
    desk.beat(0)
    assert desk.partition("t").leader == NO_LEADER, "0 may lack what 1 took alone"
    desk.beat(1)
    assert (desk.partition("t").leader, desk.partition("t").isr) == (1, (1,))


class TestEligibleLeaderReplicas:
    """KIP-966: below min ISR nothing is committed, so those who leave stay eligible."""

    @staticmethod
    def desk() -> Desk:
        desk = Desk(3)
        desk.create("t", (0, 1, 2), configs={"min.insync.replicas": "2"})
        return desk

    def refuse(self, desk: Desk, id: int) -> None:
        desk.ask(BrokerRefused(broker_id=id, broker_epoch=desk.broker(id).epoch))

    def test_they_grow_below_min_isr_and_lead_cleanly_when_the_isr_is_gone(self) -> None:
        desk = self.desk()
        self.refuse(desk, 2)
        assert (desk.partition("t").isr, desk.partition("t").elr) == ((0, 1), ())
        self.refuse(desk, 1)
        assert (desk.partition("t").isr, desk.partition("t").elr) == ((0,), (1,))
        self.refuse(desk, 0)
        gone = desk.partition("t")
        assert (gone.isr, set(gone.elr), gone.last_known_elr, gone.leader) == ((), {0, 1}, (0,), NO_LEADER)
        desk.beat(2)
        assert desk.partition("t").leader == NO_LEADER, "2 left above min ISR: it may lack committed records"
        desk.beat(1)
        back = desk.partition("t")
        assert (back.leader, back.isr, back.elr, back.recovery) == (1, (1,), (0,), Recovery.RECOVERED)
        assert back.last_known_elr == ()
        assert desk.set_isr("t", 0, 1, 2) == Code.NONE
        assert desk.partition("t").elr == (), "at min ISR nobody outside is needed"

    def test_a_process_that_died_uncleanly_is_no_longer_eligible_but_the_last_leader_may_recover(self) -> None:
        desk = self.desk()
        for id in (2, 1, 0):
            self.refuse(desk, id)
        desk.register(1, 1)
        assert desk.partition("t").elr == (0,)
        desk.beat(1)
        assert desk.partition("t").leader == NO_LEADER
        desk.register(0, 1)
        assert desk.partition("t").elr == ()
        desk.beat(0)
        back = desk.partition("t")
        assert (back.leader, back.isr, back.recovery) == (0, (0,), Recovery.RECOVERING)
        assert desk.set_isr("t", 0, 0, 1, recovery=1) == Code.INVALID_REQUEST, "recovering goes alone"
        assert desk.set_isr("t", 0, 0, recovery=0) == Code.NONE
        assert desk.partition("t").recovery == Recovery.RECOVERED

    def test_one_of_several_that_died_together_commits_alone_and_leaves_nobody_eligible(self) -> None:
        desk = Desk(2)
        desk.create("t", (0, 1))
        desk.ask(Tick())
        for _ in range(10):
            desk.now_ms += 1000
            desk.ask(Tick())
        assert (desk.partition("t").isr, desk.partition("t").elr) == ((), (0, 1))
        desk.beat(1)
        assert (desk.partition("t").leader, desk.partition("t").elr) == (1, ()), "min ISR is 1"

    def test_a_process_that_stopped_cleanly_stays_eligible(self) -> None:
        desk = self.desk()
        for id in (2, 1, 0):
            self.refuse(desk, id)
        desk.register(1, 1, previous_broker_epoch=desk.broker(1).epoch)
        assert 1 in desk.partition("t").elr
        desk.beat(1)
        assert desk.partition("t").leader == 1


def test_unregistering_forgets_a_broker_everywhere() -> None:
    desk = Desk(3)
    desk.create("t", (0, 1, 2))
    assert desk.ask(UnregisterBroker(broker_id=0)).code == Code.NONE
    assert 0 not in desk.image.brokers
    assert (desk.partition("t").leader, desk.partition("t").isr) == (1, (1, 2))
    assert desk.ask(UnregisterBroker(broker_id=0)).code == Code.BROKER_ID_NOT_REGISTERED


def test_a_failed_directory_takes_only_its_own_replicas() -> None:
    desk = Desk(1)
    a, b = b"a" * 16, b"b" * 16
    desk.add_broker(1, log_dirs=(a, b))
    desk.create("t", (1, 0), (1, 0))
    from moldau.controller.asks import AssignReplicasToDirs

    keys = [desk.partition("t", n).key for n in range(2)]
    ask = AssignReplicasToDirs(
        broker_id=1, broker_epoch=desk.broker(1).epoch, directories={a: (keys[0],), b: (keys[1], (b"?" * 16, 0))}
    )
    codes = [code for _, _, code in desk.ask(ask).partitions]
    assert codes == [Code.NONE, Code.NONE, Code.UNKNOWN_TOPIC_ID]
    assert desk.partition("t", 0).directories[0] == a
    desk.beat(1, offline_log_dirs=(a,))
    assert desk.broker(1).log_dirs == (b,)
    assert (desk.partition("t", 0).leader, desk.partition("t", 0).isr) == (0, (0,))
    assert (desk.partition("t", 1).leader, desk.partition("t", 1).isr) == (1, (1, 0))
    desk.beat(1, offline_log_dirs=(a,))
    assert desk.records == [], "told again, nothing new"


def test_controllers_register_and_an_idle_log_gets_a_no_op() -> None:
    desk = Desk()
    ask = RegisterController(controller_id=3, incarnation_id=b"c" * 16)
    assert desk.ask(ask).code == Code.NONE
    assert desk.image.controllers[3].incarnation_id == b"c" * 16
    desk.ask(ask)
    assert desk.records == []
    desk.ask(Idle())
    assert desk.records == [records.NoOpRecord()]


def test_a_broker_that_starts_and_is_heard_is_not_replaced_either() -> None:
    desk = Desk(1)
    assert desk.register(1).code == Code.NONE
    assert desk.broker(1).fenced, "it has not caught up yet"
    assert desk.register(1, 1).code == Code.DUPLICATE_BROKER_REGISTRATION
    desk.now_ms += desk.controller.settings.session_timeout_ms + 1
    assert desk.register(1, 1).code == Code.NONE
