"""A fault that ends with work for an operator: a controller's disk is lost, and an empty one takes its place.

The node is killed, its metadata's folder (or all of its folders) formatted anew, under another directory id. Where the
voters stand in the log (kraft.version 1) the operator removes the lost voter and adds the new one, or the node does so
by itself (KIP-853); with static voters it comes back empty, and no other node knows. The fault model: one at a time,
while all other controllers follow one leader and hold all that it holds, so that what the lost replica had said and
flushed is not needed any more (docs/testing-method.md). Read next: faults.py, laws/quorum.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from moldau.client.admin import add_voter, remove_voter
from moldau.quorum import Follower, Leader, Quorum, ReplicaKey
from moldau.simulator.cluster import CONTROLLER_PORT
from moldau.simulator.laws.quorum import driver_of
from moldau.simulator.load import EXPECTED_ERRORS, Actor

if TYPE_CHECKING:
    from moldau.simulator.cluster import SimulatedHost
    from moldau.simulator.fault_injector import FaultInjector

OPPORTUNITY_S = 10.0
AGAIN_S = 0.5
VOTES_AGAIN_S = 150.0
"""After all other faults have ended."""
VOTES_AGAIN = "a replaced controller votes again"


async def replaced_disk(injector: FaultInjector) -> bool:
    """A controller dies with its disk, and comes back with an empty one; its operator has work with it."""
    host = await _whose_disk(injector)
    if host is None:
        return False
    cluster = injector.cluster
    injector.crashed.add(host.id)
    injector.lossy.add(host.id)
    cluster.replaced.add(host.id)
    before, goal = cluster.directories[host.id], max(one.log.end for one in _quorums(injector).values())
    cluster.kill(host.id)
    cluster.replace_disk(host.id, cluster.folders if injector.rng.random() < 0.5 else cluster.folders[:1])
    injector.chores.append(asyncio.create_task(_votes_again(injector, host, before, goal)))
    await injector.last()
    injector.come_back(host)
    return True


async def _whose_disk(injector: FaultInjector) -> SimulatedHost | None:
    """A controller that all others can do without, however little they know of each other later; it is busy now."""
    free = [
        host for host in injector.cluster.alive if host.id in injector.plan.controllers and host.id not in injector.busy
    ]
    if not free:
        return None
    host = injector.rng.choice(free)
    injector.busy.add(host.id)
    found = False

    def may() -> bool:
        nonlocal found
        found = host.owner is not None and host.serves and spares(injector, host.id)
        return found or not injector.going

    await injector.cluster.until(may, OPPORTUNITY_S)
    if not found:
        injector.busy.discard(host.id)
        return None
    return host


def _quorums(injector: FaultInjector) -> dict[int, Quorum]:
    drivers = {id: driver_of(node) for id, node in injector.observer.nodes() if id in injector.plan.controllers}
    return {id: driver.quorum for id, driver in drivers.items() if driver is not None}


def spares(injector: FaultInjector, id: int) -> bool:
    """Whether the fault model lets it go: nothing that it alone knew, flushed or promised is needed any more."""
    cluster, quorums = injector.cluster, _quorums(injector)
    if cluster.replaced or cluster.loop.time() < cluster.settled_s or set(quorums) != set(injector.plan.controllers):
        return False
    roles = [one.role for one in quorums.values()]
    if not all(isinstance(role, Leader | Follower) for role in roles):
        return False  # a vote of this epoch may count yet
    if len({(role.epoch, role.leader) for role in roles}) != 1:
        return False
    leads = next((one for one in quorums.values() if isinstance(one.role, Leader)), None)
    if leads is None:
        return False
    others = [one for other, one in quorums.items() if other != id]
    # Where a log ends and in which epoch says what it holds: an older leader's tail may be longer (seed 50).
    if any(one.log.last != leads.log.last or one.log.flushed < leads.log.end for one in others):
        return False
    sets = [found for one in quorums.values() for found in (one.voters, one.voter_log.before)]
    mine = ReplicaKey(id, cluster.directories[id])
    if not all(one.voters.holds(mine) for one in quorums.values()):
        return False
    if not all(2 * len(set(found.ids) - {id}) > len(found.ids) for found in sets if found.ids):
        return False
    return injector.may_lose(id)


async def _votes_again(injector: FaultInjector, host: SimulatedHost, before: bytes, goal: int) -> None:
    """The operator's work, until the controller counts again."""
    cluster, operator = injector.cluster, Actor(injector.cluster, f"operator of {host.hostname}")
    over_s: float | None = None
    while not _counts(injector, host, goal):
        if over_s is None and not injector.going:
            over_s = cluster.loop.time() + VOTES_AGAIN_S
        if over_s is not None and cluster.loop.time() > over_s:
            cluster.violated(f"L5: {host.hostname} has another disk, and does not vote again")
            break
        leads = _leading(injector)
        if leads is not None and leads.kraft_version and not injector.plan.joins:
            await operator.begin(_ask(operator, host, before))
        await asyncio.sleep(AGAIN_S)
    else:
        cluster.record_event(f"{host.hostname} votes again, with another disk")
        injector.coverage.add(VOTES_AGAIN)
    cluster.replaced.discard(host.id)


def _leading(injector: FaultInjector) -> Quorum | None:
    """Who leads in the newest epoch, of those that live."""
    leaders = [one for one in _quorums(injector).values() if isinstance(one.role, Leader)]
    return max(leaders, key=lambda one: one.role.epoch, default=None)


def _counts(injector: FaultInjector, host: SimulatedHost, goal: int) -> bool:
    """Whether its word and its log count: it holds what it held, and votes as who it is now."""
    quorums = _quorums(injector)
    mine, leads = quorums.get(host.id), _leading(injector)
    if mine is None or leads is None or mine.log.flushed < goal:
        return False
    return leads.voters.holds(mine.me) and leads.voter_log.offset < leads.high_watermark


async def _ask(operator: Actor, host: SimulatedHost, before: bytes) -> None:
    """What the tools of KIP-853 do: remove-controller for the disk that is gone, add-controller for the new one."""
    where: Any = [("CONTROLLER", host.hostname, CONTROLLER_PORT)]
    now = operator.cluster.directories[host.id]
    try:
        await remove_voter(operator.client, host.id, before)
        await add_voter(operator.client, host.id, now, where, timeout_ms=5_000)
    except EXPECTED_ERRORS:
        return
