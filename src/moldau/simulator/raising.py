"""A trouble that is none: an operator raises levels of features while others break things (KIP-584, KIP-1022).

metadata.version, eligible.leader.replicas.version, and kraft.version, by which voters that were set by hand go into the
log (KIP-853). The tool asks again until it is answered. Now and then it asks for a lower level and calls that an
upgrade, which must be refused. What was answered stands at the end, at every node (C13). Read next: faults.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from moldau.client.client import CONTROLLER, Client
from moldau.controller.features import SUPPORTED
from moldau.image.snapshot import METADATA_VERSION
from moldau.model import Code
from moldau.simulator.laws.quorum import driver_of
from moldau.simulator.load import TROUBLE, Actor
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest

if TYPE_CHECKING:
    from moldau.simulator.faults import Chaos

UPGRADE, SAFE_DOWNGRADE = 1, 2
KRAFT_VERSION = "kraft.version"
TOP = {**{feature.name: feature.high for feature in SUPPORTED}, KRAFT_VERSION: 1}
RAISED, IN_THE_LOG = "a level was raised", "voters went into the log"
AGAIN_S = 0.5


async def set_levels(client: Client, levels: Mapping[str, int], upgrade_type: int) -> Code:
    """Ask the controller for these levels, all or none; how the whole went."""
    kind = UpdateFeaturesRequest
    updates = [
        kind.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
        for name, level in levels.items()
    ]
    answer: Any = await client.ask(kind(timeout_ms=5_000, feature_updates=updates), CONTROLLER)
    return Code(answer.error_code)


async def upgrade(chaos: Chaos) -> bool:
    """One or more levels are raised, or what must be refused is asked."""
    lower = {name: level for name, level in _levels(chaos).items() if level < TOP[name]}
    operator = Actor(chaos.cluster, f"upgrade {chaos.done.get('upgrade', 0)}")
    if not lower or chaos.rng.random() < 0.2:
        await _lower(chaos, operator)
    else:
        some = sorted(lower) if chaos.rng.random() < 0.3 else [chaos.rng.choice(sorted(lower))]
        await _raise(chaos, operator, {name: chaos.rng.randint(lower[name] + 1, TOP[name]) for name in some})
    await chaos.last()
    return True


def _levels(chaos: Chaos) -> dict[str, int]:
    """As the newest committed metadata has them; kraft.version as any node that lives does."""
    quorums = [driver.quorum for _, node in chaos.eyes.nodes() if (driver := driver_of(node)) is not None]
    levels = {name: chaos.eyes.image.features.get(name, 0) for name in TOP}
    return {**levels, KRAFT_VERSION: max((one.kraft_version for one in quorums), default=0)}


async def _raise(chaos: Chaos, operator: Actor, levels: dict[str, int]) -> None:
    """Until it is answered, or all is over: then nobody knows."""
    cluster, voters = chaos.cluster, KRAFT_VERSION in levels
    cluster.tell(f"the operator raises {', '.join(f'{name} to {level}' for name, level in levels.items())}")
    while chaos.going:
        if voters and cluster.replaced:  # whose disk is it whose id would go into the log?
            await asyncio.sleep(AGAIN_S)
            continue
        try:
            with cluster.changing_voters() if voters else nullcontext():
                code = await operator.begin(set_levels(operator.client, levels, UPGRADE))
        except TROUBLE:
            code = Code.REQUEST_TIMED_OUT
        if code is Code.NONE:
            chaos.raised |= levels
            chaos.marks |= {RAISED, IN_THE_LOG} if voters else {RAISED}
            return
        now = _levels(chaos)
        levels = {name: level for name, level in levels.items() if level > now[name]}  # what another one did is done
        if not levels:
            return
        await asyncio.sleep(AGAIN_S)


async def _lower(chaos: Chaos, operator: Actor) -> None:
    """What is no upgrade is refused as one, whoever is asked."""
    now = chaos.eyes.image.features.get(METADATA_VERSION, 0)
    chaos.cluster.tell(f"the operator asks for metadata.version {now - 1}, as an upgrade")
    try:
        code = await operator.begin(set_levels(operator.client, {METADATA_VERSION: now - 1}, UPGRADE))
    except TROUBLE:
        return
    if code is Code.NONE:
        chaos.cluster.breaks(f"C13: metadata.version goes from {now} to {now - 1}, and that is an upgrade")


def undone(chaos: Chaos) -> list[str]:
    """C13: a level that was answered is everywhere, and nowhere lower again."""
    broken = []
    for id, node in chaos.eyes.nodes():
        for name, level in chaos.raised.items():
            now = (
                driver_of(node).quorum.kraft_version
                if name == KRAFT_VERSION
                else node.metadata.image.features.get(name, 0)
            )
            if now < level:
                broken.append(f"C13: {name} was raised to {level}, and n{id} has {now}")
    return broken
