"""Scenarios about links: a leader without followers, without controllers, links that carry one way only, or are slow.

What is cut is dropped without a reset, so nothing is refused and each deadline has to pass. Read next: ``net.py``.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.cluster.chaos.proxy.sources import CLIENTS
from moldau.cluster.chaos.scenario_context import ONE_ACK, ScenarioContext
from moldau.cluster.chaos.scenarios.processes import ACKS, LEADERS_MOVED
from moldau.cluster.chaos.system import ZOOKEEPER_PLACE

IN_SYNC, AGAIN = "all is in sync again", "they connect again"


def isr_collapse(context: ScenarioContext) -> None:
    """The leader loses its followers and then dies: once while they still count as in sync, once long after.

    After Jepsen's first look at Kafka (2013): an ISR that shrinks to its leader acknowledges alone, and when it dies
    any replica may be elected. Without a second acknowledgement, or with unclean elections, records must be lost here.
    """
    for long_after in (False, True):
        leader = _reaches_the_controller(context)
        context.move_leaders_to(leader)
        followers = context.others(leader)
        cut = context.cut(both_ways(leader, followers), broker_ports(context))
        if long_after:
            context.do(f"cut node {leader} from its followers", cut, "they leave the ISR", context.without(followers))
            context.sleep(2.0, 3.0)
            context.kill(leader)
        else:
            moved = context.moved(leader)
            context.do(f"cut node {leader} from its followers", cut)
            context.sleep(1.0, 2.5)
            context.kill(leader, LEADERS_MOVED, moved)
        context.heal_net()
        context.sleep(2.0, 4.0)
        context.restart(leader)
        context.do("wait", lambda: None, ACKS, context.acks())
        context.wait(lambda: context.run.poller.in_sync(context.nodes), "all is in sync after the collapse")


def cut_from_controllers(context: ScenarioContext) -> None:
    """The leader of everything loses controllers only, followers still reach it; then the controller does.

    After Vanlightly's tests of 2018: a leader that does not know that it is deposed goes on, and what it acknowledges
    alone is lost when it learns of it.
    """
    for is_controller in (False, True):
        active_controller = context.controller()
        leader = active_controller if is_controller else context.rng.choice(context.others(active_controller))
        context.move_leaders_to(leader)
        if context.rig.ensemble is not None:
            cut, from_what = context.cut(both_ways(leader, [ZOOKEEPER_PLACE]), ()), "ZooKeeper"
        else:
            cut, from_what = (
                context.cut(both_ways(leader, context.others(leader)), controller_ports(context)),
                "controllers",
            )
        moved = context.moved(leader, context.others(leader))
        context.do(f"cut node {leader} from {from_what}", cut, LEADERS_MOVED, moved)
        context.sleep(1.0, 4.0)
        context.heal_net()
        context.do("wait", lambda: None, ACKS, context.acks())
        context.wait(lambda: context.run.poller.in_sync(context.nodes), "all is in sync after the cut")


def cut_from_followers(context: ScenarioContext) -> None:
    """The leader of everything loses its followers only; clients and controllers still reach it.

    After Jepsen 2013 as well: with two replicas required it must refuse what it alone has, and take none of it back.
    """
    for _ in range(2):
        leader = _reaches_the_controller(context)
        context.move_leaders_to(leader)
        followers = context.others(leader)
        cut = context.cut(both_ways(leader, followers), broker_ports(context))
        context.do(f"cut node {leader} from its followers", cut, "they leave the ISR", context.without(followers))
        context.sleep(1.0, 4.0)
        context.heal_net()
        context.do("wait", lambda: None, IN_SYNC, lambda: context.run.poller.in_sync(context.nodes))


def one_way_cuts(context: ScenarioContext) -> None:
    """Links carry one way only: a follower that receives from its leader and does not reach it, or the other way round.

    After etcd's and Redpanda's one-way cuts: a node that trusts what it receives takes a half dead peer for a live one.
    """
    for turn in range(4):
        ruled = context.nodes if context.rig.ensemble is None else context.others(context.controller())
        # With ZooKeeper, who leads must reach the controller to be heard.
        leader, follower = context.rng.sample(ruled, 2)
        context.move_leaders_to(leader)
        source, target = (leader, follower) if turn % 2 else (follower, leader)
        cut = context.cut([(source, target)], ())
        what = f"nothing from node {source} reaches node {target}; node {leader} leads"
        context.do(what, cut, "leaders or ISRs change", context.changed())
        context.sleep(2.0, 8.0)
        context.heal_net()
        context.do("wait", lambda: None, IN_SYNC, lambda: context.run.poller.in_sync(context.nodes))


def slow_and_reset(context: ScenarioContext) -> None:
    """Links are slow, then reset amid what they carry: between nodes, and to clients, whose answers are lost, twice.

    After KIP-98: a producer that did not hear the answer sends again, and each record must be there once. Without
    idempotence records must be there twice here.
    """
    for _ in range(2):
        leader = context.rng.choice(context.nodes)
        _slow(context, leader)
        for _ in range(3):
            _unheard(context, leader)
        context.wait(lambda: context.run.poller.in_sync(context.nodes), "all is in sync after the resets")


def _slow(context: ScenarioContext, leader: int) -> None:
    """Let all that passes between a leader and its followers come late, and reset their connections meanwhile."""
    proxy, seconds = context.proxy, context.rng.uniform(0.2, 0.8)
    context.move_leaders_to(leader)

    def slow() -> None:
        for source, target in both_ways(leader, context.others(leader)):
            proxy.delay(source, target, seconds)

    what = f"what passes between node {leader} and the others takes {seconds:.2f} s longer"
    if context.options.profile == ONE_ACK:  # which waits for no follower
        context.do(what, slow)
        context.sleep(1.0, 3.0)
    else:
        context.do(what, slow, "so do acknowledgements", context.slow_acks(seconds))
    for _ in range(2):
        met = context.met(both_ways(leader, context.others(leader)))

        def reset() -> None:
            for follower in context.others(leader):
                proxy.reset(leader, follower)

        context.do(f"reset all connections between node {leader} and the others", reset, AGAIN, met)
        context.sleep(0.0, 1.0)
    context.heal_net()


def _unheard(context: ScenarioContext, leader: int) -> None:
    """Let a leader carry out clients' requests without its answers reaching them; then reset their connections."""
    proxy = context.proxy
    context.move_leaders_to(leader)
    context.do(f"nothing from node {leader} reaches its clients", context.cut([(leader, CLIENTS)], ()))
    context.sleep(0.1, 1.0)
    met = context.met([(CLIENTS, leader)])

    def reset() -> None:
        proxy.reset(leader, CLIENTS)
        proxy.heal()

    context.do("reset its connections to clients; all links are whole", reset, AGAIN, met)
    context.do("wait", lambda: None, ACKS, context.acks())


def _reaches_the_controller(context: ScenarioContext) -> int:
    """A node that can have an ISR changed though it is cut from all brokers: with ZooKeeper, the controller."""
    active_controller = context.controller()
    return (
        active_controller if context.rig.ensemble is not None else context.rng.choice(context.others(active_controller))
    )


def both_ways(node: int, others: Collection[int]) -> list[tuple[int, int]]:
    """Directed pairs: from a node to others, and back."""
    return [pair for other in others for pair in ((node, other), (other, node))]


def broker_ports(context: ScenarioContext) -> set[int]:
    """What followers fetch through, and clients."""
    return {port for _, port in context.rig.brokers.values()}


def controller_ports(context: ScenarioContext) -> set[int]:
    """What brokers register through, and controllers vote."""
    return {port for _, port in context.rig.controllers.values()}
