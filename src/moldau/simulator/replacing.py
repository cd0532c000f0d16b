"""A trouble that ends with work for an operator: a controller's disk is gone, and an empty one is in its place.

The node is killed, its metadata's folder (or all of its folders) formatted anew, under another directory id. Where the
voters stand in the log (kraft.version 1) the operator removes the voter that is gone and adds the new one, or the node
does by itself (KIP-853); where they are set by hand it comes back empty, and nobody knows. The atlas: one at a time,
while all other controllers follow one leader and hold all that it holds, so that what it had said and flushed is not
needed any more (docs/testing-method.md). Read next: faults.py, laws/quorum.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from moldau.client.admin import add_voter, remove_voter
from moldau.quorum import Follower, Leader, Quorum, ReplicaKey
from moldau.simulator.cluster import CONTROLLER_PORT
from moldau.simulator.laws.quorum import driver_of
from moldau.simulator.load import TROUBLE, Actor

if TYPE_CHECKING:
    from moldau.simulator.cluster import Seat
    from moldau.simulator.faults import Chaos

OPPORTUNITY_S = 10.0
AGAIN_S = 0.5
VOTES_AGAIN_S = 150.0
"""After all other troubles have ended."""
VOTES_AGAIN = "a replaced controller votes again"


async def replaced_disk(chaos: Chaos) -> bool:
    """A controller dies with its disk, and comes back with an empty one; its operator has work with it."""
    seat = await _whose_disk(chaos)
    if seat is None:
        return False
    cluster = chaos.cluster
    chaos.crashed.add(seat.id)
    chaos.lossy.add(seat.id)
    cluster.replaced.add(seat.id)
    before, goal = cluster.directories[seat.id], max(one.log.end for one in _quorums(chaos).values())
    cluster.kill(seat.id)
    cluster.replace_disk(seat.id, cluster.folders if chaos.rng.random() < 0.5 else cluster.folders[:1])
    chaos.chores.append(asyncio.create_task(_votes_again(chaos, seat, before, goal)))
    await chaos.last()
    chaos.come_back(seat)
    return True


async def _whose_disk(chaos: Chaos) -> Seat | None:
    """A controller that all others can do without, however little they know of each other later; it is busy now."""
    free = [seat for seat in chaos.cluster.alive if seat.id in chaos.plan.controllers and seat.id not in chaos.busy]
    if not free:
        return None
    seat = chaos.rng.choice(free)
    chaos.busy.add(seat.id)
    found = False

    def may() -> bool:
        nonlocal found
        found = seat.owner is not None and seat.serves and spares(chaos, seat.id)
        return found or not chaos.going

    await chaos.cluster.until(may, OPPORTUNITY_S)
    if not found:
        chaos.busy.discard(seat.id)
        return None
    return seat


def _quorums(chaos: Chaos) -> dict[int, Quorum]:
    drivers = {id: driver_of(node) for id, node in chaos.eyes.nodes() if id in chaos.plan.controllers}
    return {id: driver.quorum for id, driver in drivers.items() if driver is not None}


def spares(chaos: Chaos, id: int) -> bool:
    """The atlas: nothing that this controller alone knew, has flushed or has promised is needed any more."""
    cluster, quorums = chaos.cluster, _quorums(chaos)
    if cluster.replaced or cluster.loop.time() < cluster.settled_s or set(quorums) != set(chaos.plan.controllers):
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
    return chaos.may_lose(id)


async def _votes_again(chaos: Chaos, seat: Seat, before: bytes, goal: int) -> None:
    """The operator's work, until the controller counts again."""
    cluster, operator = chaos.cluster, Actor(chaos.cluster, f"operator of {seat.host}")
    over_s: float | None = None
    while not _counts(chaos, seat, goal):
        if over_s is None and not chaos.going:
            over_s = cluster.loop.time() + VOTES_AGAIN_S
        if over_s is not None and cluster.loop.time() > over_s:
            cluster.breaks(f"L5: {seat.host} has another disk, and does not vote again")
            break
        leads = _leading(chaos)
        if leads is not None and leads.kraft_version and not chaos.plan.joins:
            await operator.begin(_ask(operator, seat, before))
        await asyncio.sleep(AGAIN_S)
    else:
        cluster.tell(f"{seat.host} votes again, with another disk")
        chaos.marks.add(VOTES_AGAIN)
    cluster.replaced.discard(seat.id)


def _leading(chaos: Chaos) -> Quorum | None:
    """Who leads in the newest epoch, of those that live."""
    leaders = [one for one in _quorums(chaos).values() if isinstance(one.role, Leader)]
    return max(leaders, key=lambda one: one.role.epoch, default=None)


def _counts(chaos: Chaos, seat: Seat, goal: int) -> bool:
    """Whether its word and its log count: it holds what it held, and votes as who it is now."""
    quorums = _quorums(chaos)
    mine, leads = quorums.get(seat.id), _leading(chaos)
    if mine is None or leads is None or mine.log.flushed < goal:
        return False
    return leads.voters.holds(mine.me) and leads.voter_log.offset < leads.high_watermark


async def _ask(operator: Actor, seat: Seat, before: bytes) -> None:
    """What the tools of KIP-853 do: remove-controller for the disk that is gone, add-controller for the new one."""
    where: Any = [("CONTROLLER", seat.host, CONTROLLER_PORT)]
    now = operator.cluster.directories[seat.id]
    try:
        await remove_voter(operator.client, seat.id, before)
        await add_voter(operator.client, seat.id, now, where, timeout_ms=5_000)
    except TROUBLE:
        return
