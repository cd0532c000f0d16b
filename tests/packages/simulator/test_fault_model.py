"""What the simulator takes for survivable: who may crash, and who may lose something, given who already has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from moldau.simulator.cluster import SimCluster
from moldau.simulator.cluster_zookeeper import CHROOT, ZooKeeperCluster
from moldau.simulator.fault_injector import FaultInjector
from moldau.simulator.faults import QuorumFaultInjector
from moldau.simulator.faults_zookeeper import ZooKeeperFaultInjector
from moldau.simulator.loop import Owner
from moldau.simulator.plan import draw
from moldau.simulator.plan_zookeeper import draw_zookeeper
from moldau.zookeeper import paths
from tests.packages.simulator.doubles import Observer, ObserverOfZnodes, partition


@dataclass(frozen=True)
class OfOwner:
    """A znode, or a session, as far as a fault looks at whose it is."""

    owner: Owner | int | None


@dataclass(frozen=True)
class Tree:
    """Znodes by path."""

    znodes: Mapping[str, OfOwner]


class Ensemble:
    """ZooKeeper as the faults see it: sessions, those that ``ended``, and znodes."""

    def __init__(self, sessions: dict[int, OfOwner], znodes: dict[str, OfOwner]) -> None:
        self.sessions = self.opened = sessions
        self.tree = Tree(znodes)
        self.ended: list[int] = []

    def expire(self, session: int, linger_s: float) -> None:
        self.ended.append(session)


def one_partition() -> Observer:
    """Eyes that see a partition of three replicas, all in sync, and no ISR on its way."""
    return Observer(state=partition(1, 2, 3))


@pytest.fixture
def injector(flush: bool) -> Iterator[FaultInjector]:
    plan = next(plan for plan in map(draw, range(50)) if len(plan.hosts) == 3)
    cluster = SimCluster(replace(plan, flush=flush))  # nobody was started: nobody catches up by itself
    with closing(cluster.loop):
        yield QuorumFaultInjector(cluster, one_partition())


@pytest.mark.parametrize("flush", [False, True], ids=["not synced", "synced"])
def test_no_bit_turns_where_all_others_have_crashed(injector: FaultInjector) -> None:
    injector.crashed = {1}
    assert injector.may_lose(2)
    injector.crashed = {1, 3}
    assert not injector.may_lose(2)


@pytest.mark.parametrize("flush", [False, True], ids=["not synced", "synced"])
def test_while_a_bit_has_turned_the_last_who_is_whole_does_not_crash(injector: FaultInjector) -> None:
    injector.crashed, injector.lossy = {1, 2}, {2}
    assert not injector.may_crash(3)
    assert not injector.may_lose(3)
    injector.crashed = {2}
    assert injector.may_crash(3)


@pytest.mark.parametrize("scene", ["power", "disk-full"])
@pytest.mark.parametrize(("flush", "most"), [(False, 1), (True, 3)], ids=["not synced", "synced"])
def test_any_number_may_lose_what_was_not_synced_where_all_is_synced_before_it_counts(
    injector: FaultInjector, scene: str, flush: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(injector.cluster, "kill", lambda id, power=None: killed.append(id))
    monkeypatch.setattr(injector, "come_back", lambda host: None)  # each stays in its trouble
    injector.going = False  # and nobody waits for anything
    for host in injector.cluster.hosts.values():
        host.owner = Owner(host.hostname)
    done = [asyncio.run(injector.inject(scene)) for _ in range(3)]
    assert sum(done) == len(killed) == most
    assert injector.lossy == (set() if flush else set(killed))


@pytest.mark.parametrize("heard_of", [False, True], ids=["unheard of", "registered anew"])
@pytest.mark.parametrize("crashed", [{2}, {1, 2}], ids=["another is whole", "the last who is whole"])
def test_the_last_who_is_whole_keeps_his_session_until_who_lost_its_tail_is_heard_of(
    crashed: set[int], heard_of: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = next(plan for plan in map(draw_zookeeper, range(50)) if len(plan.hosts) == 3 and not plan.flush)
    cluster = ZooKeeperCluster(plan)
    cluster.loop.close()  # only what is decided is looked at
    injector = ZooKeeperFaultInjector(cluster, ObserverOfZnodes(state=partition(1, 2, 3)))
    for host in cluster.hosts.values():
        host.owner = Owner(host.hostname)
    lives = {20: Owner("n2 before the power cut"), 21: cluster.hosts[2].owner, 30: cluster.hosts[3].owner}
    sessions = {id: OfOwner(owner) for id, owner in lives.items()}
    ensemble = Ensemble(sessions, {CHROOT + paths.broker(2): OfOwner(21 if heard_of else 20)})
    monkeypatch.setattr(injector, "ensemble", ensemble)
    injector.crashed, injector.lossy = crashed, {2}
    may = heard_of or crashed == {2}
    assert injector._end(30) is may
    assert ensemble.ended == ([30] if may else [])
    assert injector._end(20)  # of a life that is over
