"""Elections on request and in the background."""

from __future__ import annotations

from typing import Any

from moldau.controller.requests import (
    BrokerRefused,
    ConfigChange,
    ElectLeaders,
    ElectUncleanLeaders,
    IncrementalAlterConfigs,
    RaiseLeaderEpochs,
    RebalanceLeaders,
)
from moldau.image import NO_LEADER, Recovery
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness


def refuse(harness: ControllerHarness, id: int) -> None:
    harness.submit(BrokerRefused(broker_id=id, broker_epoch=harness.broker(id).epoch))


def codes(harness: ControllerHarness, kind: int, *partitions: tuple[str, int]) -> list[Code]:
    reply = harness.submit(ElectLeaders(election_type=kind, partitions=partitions or None))
    return [problem.code for _, _, problem in reply.partitions]


def test_the_preferred_leader_is_restored_when_it_is_live_and_in_sync() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (0, 1, 2), (1, 2, 0))
    refuse(harness, 0)
    assert codes(harness, 0, ("t", 0), ("t", 1), ("t", 7), ("x", 0)) == [
        Code.PREFERRED_LEADER_NOT_AVAILABLE,
        Code.ELECTION_NOT_NEEDED,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    harness.heartbeat(0)
    assert codes(harness, 0, ("t", 0)) == [Code.PREFERRED_LEADER_NOT_AVAILABLE], "live, but not in sync"
    harness.set_isr("t", 0, 1, 2, 0)
    assert codes(harness, 0, ("t", 0), ("t", 0)) == [Code.NONE], "named twice, elected once"
    assert (harness.partition("t").leader, harness.partition("t").leader_epoch) == (0, 2)


def test_asked_for_all_it_speaks_only_of_those_that_needed_it() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (0, 1), (1, 0), (2, 0))
    refuse(harness, 0)
    harness.heartbeat(0)
    harness.set_isr("t", 0, 1, 0)
    reply = harness.submit(ElectLeaders(election_type=0))
    assert [(topic, number, problem.code) for topic, number, problem in reply.partitions] == [("t", 0, Code.NONE)]
    assert harness.submit(ElectLeaders(election_type=0)).partitions == ()


def test_an_unclean_election_is_for_the_leaderless_only_and_says_so() -> None:
    harness = ControllerHarness(2)
    harness.create("t", (0, 1))
    refuse(harness, 1)
    assert codes(harness, 1, ("t", 0)) == [Code.ELECTION_NOT_NEEDED]
    refuse(harness, 0)
    assert codes(harness, 1, ("t", 0)) == [Code.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    harness.heartbeat(1)
    assert codes(harness, 1) == [Code.NONE]
    after = harness.partition("t")
    assert (after.leader, after.isr, after.recovery) == (1, (1,), Recovery.RECOVERING)


def test_an_unknown_type_of_election_is_refused_as_a_whole() -> None:
    assert ControllerHarness(1).submit(ElectLeaders(election_type=5)).code == Code.INVALID_REQUEST


def imbalanced_harness(**settings: Any) -> ControllerHarness:
    """15 partitions, 3 brokers; broker 2 leads one of its five."""
    harness = ControllerHarness(3, **settings)
    orders = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    harness.create("t", *(orders[n % 3] for n in range(15)))
    refuse(harness, 2)
    harness.heartbeat(2)
    for n in range(15):
        isr = harness.partition("t", n).isr
        assert harness.set_isr("t", n, *isr, 2) == Code.NONE
    harness.submit(ElectLeaders(election_type=0, partitions=(("t", 2),)))
    assert [p.id for p in harness.image.partitions_led_by(2)] == [2]
    return harness


def test_a_broker_that_leads_one_of_its_five_gets_the_other_four_back() -> None:
    harness = imbalanced_harness()
    assert harness.submit(RebalanceLeaders()).count == 4
    assert sorted(p.id for p in harness.image.partitions_led_by(2)) == [2, 5, 8, 11, 14]
    assert harness.submit(RebalanceLeaders()).count == 0


def test_imbalance_up_to_the_limit_is_left_alone() -> None:
    assert imbalanced_harness(imbalance_percentage=80).submit(RebalanceLeaders()).count == 0
    assert imbalanced_harness(imbalance_percentage=79).submit(RebalanceLeaders()).count == 4
    assert imbalanced_harness(rebalance_enable=False).submit(RebalanceLeaders()).count == 0


def test_a_pass_moves_only_so_many_and_says_that_there_are_more() -> None:
    harness = imbalanced_harness(max_elections=3)
    reply = harness.submit(RebalanceLeaders())
    assert (reply.count, reply.more) == (3, True)
    reply = harness.submit(RebalanceLeaders())
    assert (reply.count, reply.more) == (1, False)


def test_the_rebalance_never_elects_who_is_not_in_sync() -> None:
    harness = ControllerHarness(2)
    harness.create("t", (0, 1))
    refuse(harness, 0)
    harness.heartbeat(0)
    assert harness.submit(RebalanceLeaders()).count == 0
    assert harness.partition("t").leader == 1


def test_allowing_unclean_elections_elects_at_once_and_the_periodic_look_finds_later_ones() -> None:
    harness = ControllerHarness(2)
    harness.create("t", (0, 1))
    refuse(harness, 1)
    refuse(harness, 0)
    harness.heartbeat(1)
    assert harness.partition("t").leader == NO_LEADER
    assert harness.submit(ElectUncleanLeaders()).count == 0
    change = ConfigChange(resource_type=2, resource_name="t", changes=(("unclean.leader.election.enable", 0, "true"),))
    harness.submit(IncrementalAlterConfigs(resources=(change,)))
    assert (harness.partition("t").leader, harness.partition("t").recovery) == (1, Recovery.RECOVERING)
    assert harness.submit(ElectUncleanLeaders()).count == 0


def test_a_leader_epoch_that_logs_are_ahead_of_is_raised_under_the_same_leader() -> None:
    """Brokers name the epoch that they were told: what is said of an older one raises nothing again."""
    harness = ControllerHarness(3)
    harness.create("t", (0,), (1,), (2,))
    refuse(harness, 2)
    keys = [(harness.partition("t", number).topic_id, number) for number in range(3)]
    unknown = (bytes(16), 0)
    before = [harness.partition("t", number) for number in range(3)]
    assert before[2].leader == NO_LEADER
    told = {key: partition.leader_epoch for key, partition in zip(keys, before, strict=True)}
    stale = told | {keys[1]: told[keys[1]] - 1, unknown: 0}
    assert harness.submit(RaiseLeaderEpochs(told=stale)).count == 1
    after = [harness.partition("t", number) for number in range(3)]
    assert after[1:] == before[1:]
    assert (after[0].leader, after[0].isr) == (before[0].leader, before[0].isr)
    assert after[0].leader_epoch == before[0].leader_epoch + 1
    assert harness.submit(RaiseLeaderEpochs(told=stale)).count == 0
    harness.submit(RaiseLeaderEpochs(told={keys[0]: after[0].leader_epoch}))
    assert harness.partition("t").leader_epoch == before[0].leader_epoch + 2
