"""Elections on request and in the background."""

from __future__ import annotations

from moldau.controller.asks import (
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
from moldau.simulator.machines.controller_desk import Desk


def refuse(desk: Desk, id: int) -> None:
    desk.ask(BrokerRefused(broker_id=id, broker_epoch=desk.broker(id).epoch))


def codes(desk: Desk, kind: int, *partitions: tuple[str, int]) -> list[Code]:
    reply = desk.ask(ElectLeaders(election_type=kind, partitions=partitions or None))
    return [problem.code for _, _, problem in reply.partitions]


def test_the_preferred_leader_is_restored_when_it_is_live_and_in_sync() -> None:
    desk = Desk(3)
    desk.create("t", (0, 1, 2), (1, 2, 0))
    refuse(desk, 0)
    assert codes(desk, 0, ("t", 0), ("t", 1), ("t", 7), ("x", 0)) == [
        Code.PREFERRED_LEADER_NOT_AVAILABLE,
        Code.ELECTION_NOT_NEEDED,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    desk.beat(0)
    assert codes(desk, 0, ("t", 0)) == [Code.PREFERRED_LEADER_NOT_AVAILABLE], "live, but not in sync"
    desk.set_isr("t", 0, 1, 2, 0)
    assert codes(desk, 0, ("t", 0), ("t", 0)) == [Code.NONE], "named twice, elected once"
    assert (desk.partition("t").leader, desk.partition("t").leader_epoch) == (0, 2)


def test_asked_for_all_it_speaks_only_of_those_that_needed_it() -> None:
    desk = Desk(3)
    desk.create("t", (0, 1), (1, 0), (2, 0))
    refuse(desk, 0)
    desk.beat(0)
    desk.set_isr("t", 0, 1, 0)
    reply = desk.ask(ElectLeaders(election_type=0))
    assert [(topic, number, problem.code) for topic, number, problem in reply.partitions] == [("t", 0, Code.NONE)]
    assert desk.ask(ElectLeaders(election_type=0)).partitions == ()


def test_an_unclean_election_is_for_the_leaderless_only_and_says_so() -> None:
    desk = Desk(2)
    desk.create("t", (0, 1))
    refuse(desk, 1)
    assert codes(desk, 1, ("t", 0)) == [Code.ELECTION_NOT_NEEDED]
    refuse(desk, 0)
    assert codes(desk, 1, ("t", 0)) == [Code.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    desk.beat(1)
    assert codes(desk, 1) == [Code.NONE]
    after = desk.partition("t")
    assert (after.leader, after.isr, after.recovery) == (1, (1,), Recovery.RECOVERING)


def test_an_unknown_type_of_election_is_refused_as_a_whole() -> None:
    assert Desk(1).ask(ElectLeaders(election_type=5)).code == Code.INVALID_REQUEST


def imbalanced_desk(**settings: object) -> Desk:
    """15 partitions, 3 brokers; broker 2 leads one of its five."""
    desk = Desk(3, **settings)
    orders = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    desk.create("t", *(orders[n % 3] for n in range(15)))
    refuse(desk, 2)
    desk.beat(2)
    for n in range(15):
        isr = desk.partition("t", n).isr
        assert desk.set_isr("t", n, *isr, 2) == Code.NONE
    desk.ask(ElectLeaders(election_type=0, partitions=(("t", 2),)))
    assert [p.id for p in desk.image.partitions_led_by(2)] == [2]
    return desk


def test_a_broker_that_leads_one_of_its_five_gets_the_other_four_back() -> None:
    desk = imbalanced_desk()
    assert desk.ask(RebalanceLeaders()).count == 4
    assert sorted(p.id for p in desk.image.partitions_led_by(2)) == [2, 5, 8, 11, 14]
    assert desk.ask(RebalanceLeaders()).count == 0


def test_imbalance_up_to_the_limit_is_left_alone() -> None:
    assert imbalanced_desk(imbalance_percentage=80).ask(RebalanceLeaders()).count == 0
    assert imbalanced_desk(imbalance_percentage=79).ask(RebalanceLeaders()).count == 4
    assert imbalanced_desk(rebalance_enable=False).ask(RebalanceLeaders()).count == 0


def test_a_pass_moves_only_so_many_and_says_that_there_are_more() -> None:
    desk = imbalanced_desk(max_elections=3)
    reply = desk.ask(RebalanceLeaders())
    assert (reply.count, reply.more) == (3, True)
    reply = desk.ask(RebalanceLeaders())
    assert (reply.count, reply.more) == (1, False)


def test_the_rebalance_never_elects_who_is_not_in_sync() -> None:
    desk = Desk(2)
    desk.create("t", (0, 1))
    refuse(desk, 0)
    desk.beat(0)
    assert desk.ask(RebalanceLeaders()).count == 0
    assert desk.partition("t").leader == 1


def test_allowing_unclean_elections_elects_at_once_and_the_periodic_look_finds_later_ones() -> None:
    desk = Desk(2)
    desk.create("t", (0, 1))
    refuse(desk, 1)
    refuse(desk, 0)
    desk.beat(1)
    assert desk.partition("t").leader == NO_LEADER
    assert desk.ask(ElectUncleanLeaders()).count == 0
    change = ConfigChange(resource_type=2, resource_name="t", changes=(("unclean.leader.election.enable", 0, "true"),))
    desk.ask(IncrementalAlterConfigs(resources=(change,)))
    assert (desk.partition("t").leader, desk.partition("t").recovery) == (1, Recovery.RECOVERING)
    assert desk.ask(ElectUncleanLeaders()).count == 0


def test_a_leader_epoch_that_logs_are_ahead_of_is_raised_under_the_same_leader() -> None:
    """Brokers name the epoch that they were told: what is said of an older one raises nothing again."""
    desk = Desk(3)
    desk.create("t", (0,), (1,), (2,))
    refuse(desk, 2)
    keys = [(desk.partition("t", number).topic_id, number) for number in range(3)]
    unknown = (bytes(16), 0)
    before = [desk.partition("t", number) for number in range(3)]
    assert before[2].leader == NO_LEADER
    told = {key: partition.leader_epoch for key, partition in zip(keys, before, strict=True)}
    stale = told | {keys[1]: told[keys[1]] - 1, unknown: 0}
    assert desk.ask(RaiseLeaderEpochs(told=stale)).count == 1
    after = [desk.partition("t", number) for number in range(3)]
    assert after[1:] == before[1:]
    assert (after[0].leader, after[0].isr) == (before[0].leader, before[0].isr)
    assert after[0].leader_epoch == before[0].leader_epoch + 1
    assert desk.ask(RaiseLeaderEpochs(told=stale)).count == 0
    desk.ask(RaiseLeaderEpochs(told={keys[0]: after[0].leader_epoch}))
    assert desk.partition("t").leader_epoch == before[0].leader_epoch + 2
