"""Scenarios about links: a leader without followers, without controllers, links that carry one way only, or are slow.

What is cut is dropped in silence, so that nothing is refused and every deadline has to pass. Read next: ``net.py``.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.cluster.chaos.proxy.sources import CLIENTS
from moldau.cluster.chaos.scenarios.processes import ACKS, LEADERS_MOVED
from moldau.cluster.chaos.stage import ONE_ACK, Stage
from moldau.cluster.chaos.system import ZOOKEEPER_PLACE

IN_SYNC, AGAIN = "all is in sync again", "they connect again"


def isr_collapse(stage: Stage) -> None:
    """The leader loses its followers and then dies: once while they still count as in sync, once long after.

    After Jepsen's first look at Kafka (2013): an ISR that shrinks to its leader acknowledges alone, and when it dies
    anybody may be elected. Without a second acknowledgement, or with unclean elections, records must be lost here.
    """
    for long_after in (False, True):
        leader = _reaches_the_controller(stage)
        stage.gather(leader)
        followers = stage.others(leader)
        cut = stage.cut(both_ways(leader, followers), broker_ports(stage))
        if long_after:
            stage.do(f"cut node {leader} from its followers", cut, "they leave the ISR", stage.without(followers))
            stage.sleep(2.0, 3.0)
            stage.kill(leader)
        else:
            moved = stage.moved(leader)
            stage.do(f"cut node {leader} from its followers", cut)
            stage.sleep(1.0, 2.5)
            stage.kill(leader, LEADERS_MOVED, moved)
        stage.heal_net()
        stage.sleep(2.0, 4.0)
        stage.restart(leader)
        stage.do("wait", lambda: None, ACKS, stage.acks())
        stage.wait(lambda: stage.run.eyes.in_sync(stage.nodes), "all is in sync after the collapse")


def cut_from_controllers(stage: Stage) -> None:
    """The leader of everything loses controllers only, followers still reach it; then the controller does.

    After Vanlightly's tests of 2018: a leader that does not know that it is deposed goes on, and what it acknowledges
    alone is lost when it hears of it.
    """
    for is_controller in (False, True):
        ruler = stage.controller()
        leader = ruler if is_controller else stage.rng.choice(stage.others(ruler))
        stage.gather(leader)
        if stage.rig.ensemble is not None:
            cut, from_what = stage.cut(both_ways(leader, [ZOOKEEPER_PLACE]), ()), "ZooKeeper"
        else:
            cut, from_what = stage.cut(both_ways(leader, stage.others(leader)), controller_ports(stage)), "controllers"
        moved = stage.moved(leader, stage.others(leader))
        stage.do(f"cut node {leader} from {from_what}", cut, LEADERS_MOVED, moved)
        stage.sleep(1.0, 4.0)
        stage.heal_net()
        stage.do("wait", lambda: None, ACKS, stage.acks())
        stage.wait(lambda: stage.run.eyes.in_sync(stage.nodes), "all is in sync after the cut")


def cut_from_followers(stage: Stage) -> None:
    """The leader of everything loses its followers only; clients and controllers still reach it.

    After Jepsen 2013 as well: with two replicas required it must refuse what it alone has, and take none of it back.
    """
    for _ in range(2):
        leader = _reaches_the_controller(stage)
        stage.gather(leader)
        followers = stage.others(leader)
        cut = stage.cut(both_ways(leader, followers), broker_ports(stage))
        stage.do(f"cut node {leader} from its followers", cut, "they leave the ISR", stage.without(followers))
        stage.sleep(1.0, 4.0)
        stage.heal_net()
        stage.do("wait", lambda: None, IN_SYNC, lambda: stage.run.eyes.in_sync(stage.nodes))


def one_way_cuts(stage: Stage) -> None:
    """Links carry one way only: a follower that hears its leader and is not heard, or the other way round, four times.

    After etcd's and Redpanda's one-way cuts: whoever believes what it hears takes a half dead peer for a live one.
    """
    for turn in range(4):
        ruled = stage.nodes if stage.rig.ensemble is None else stage.others(stage.controller())
        leader, follower = stage.rng.sample(ruled, 2)  # with ZooKeeper, who leads must reach the controller to be heard
        stage.gather(leader)
        source, target = (leader, follower) if turn % 2 else (follower, leader)
        cut = stage.cut([(source, target)], ())
        what = f"nothing from node {source} reaches node {target}; node {leader} leads"
        stage.do(what, cut, "leaders or ISRs change", stage.changed())
        stage.sleep(2.0, 8.0)
        stage.heal_net()
        stage.do("wait", lambda: None, IN_SYNC, lambda: stage.run.eyes.in_sync(stage.nodes))


def slow_and_reset(stage: Stage) -> None:
    """Links are slow, then reset amid what they carry: between nodes, and to clients, whose answers are lost, twice.

    After KIP-98: a producer that did not hear the answer sends again, and each record must be there once. Without
    idempotence records must be there twice here.
    """
    for _ in range(2):
        leader = stage.rng.choice(stage.nodes)
        _slow(stage, leader)
        for _ in range(3):
            _unheard(stage, leader)
        stage.wait(lambda: stage.run.eyes.in_sync(stage.nodes), "all is in sync after the resets")


def _slow(stage: Stage, leader: int) -> None:
    """Let all that passes between a leader and its followers come late, and reset their connections meanwhile."""
    proxy, seconds = stage.proxy, stage.rng.uniform(0.2, 0.8)
    stage.gather(leader)

    def slow() -> None:
        for source, target in both_ways(leader, stage.others(leader)):
            proxy.delay(source, target, seconds)

    what = f"what passes between node {leader} and the others takes {seconds:.2f} s longer"
    if stage.options.profile == ONE_ACK:  # which waits for no follower
        stage.do(what, slow)
        stage.sleep(1.0, 3.0)
    else:
        stage.do(what, slow, "so do acknowledgements", stage.slow_acks(seconds))
    for _ in range(2):
        met = stage.met(both_ways(leader, stage.others(leader)))

        def reset() -> None:
            for follower in stage.others(leader):
                proxy.reset(leader, follower)

        stage.do(f"reset all connections between node {leader} and the others", reset, AGAIN, met)
        stage.sleep(0.0, 1.0)
    stage.heal_net()


def _unheard(stage: Stage, leader: int) -> None:
    """Let a leader do what clients ask and not be heard by them; then reset their connections."""
    proxy = stage.proxy
    stage.gather(leader)
    stage.do(f"nothing from node {leader} reaches its clients", stage.cut([(leader, CLIENTS)], ()))
    stage.sleep(0.1, 1.0)
    met = stage.met([(CLIENTS, leader)])

    def reset() -> None:
        proxy.reset(leader, CLIENTS)
        proxy.heal()

    stage.do("reset its connections to clients; all links are whole", reset, AGAIN, met)
    stage.do("wait", lambda: None, ACKS, stage.acks())


def _reaches_the_controller(stage: Stage) -> int:
    """A node that can have an ISR changed though it is cut from all brokers: with ZooKeeper, the controller."""
    ruler = stage.controller()
    return ruler if stage.rig.ensemble is not None else stage.rng.choice(stage.others(ruler))


def both_ways(node: int, others: Collection[int]) -> list[tuple[int, int]]:
    """Directed pairs: from a node to others, and back."""
    return [pair for other in others for pair in ((node, other), (other, node))]


def broker_ports(stage: Stage) -> set[int]:
    """What followers fetch through, and clients."""
    return {port for _, port in stage.rig.brokers.values()}


def controller_ports(stage: Stage) -> set[int]:
    """What brokers register through, and controllers vote."""
    return {port for _, port in stage.rig.controllers.values()}
