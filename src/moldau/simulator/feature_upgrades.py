"""A scene without damage of its own: an operator upgrades features during other faults (KIP-584, KIP-1022).

metadata.version, eligible.leader.replicas.version, and kraft.version, by which static voters go into the log (KIP-853).
The tool asks again until it is answered. Now and then it asks for a lower level and calls that an upgrade, which must
be refused. What was answered holds at the end, at every node (C13). Read next: faults.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from moldau.client.client import CONTROLLER, Client
from moldau.controller.features import CARRIED, SUPPORTED
from moldau.image.snapshot import METADATA_VERSION
from moldau.model import Code
from moldau.simulator.laws.quorum import driver_of
from moldau.simulator.load import EXPECTED_ERRORS, Actor
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest

if TYPE_CHECKING:
    from moldau.simulator.fault_injector import FaultInjector

UPGRADE, SAFE_DOWNGRADE = 1, 2
KRAFT_VERSION = "kraft.version"
TOP = {**{feature.name: feature.high for feature in SUPPORTED if feature not in CARRIED}, KRAFT_VERSION: 1}
RAISED, IN_THE_LOG = "a level was raised", "voters went into the log"
AGAIN_S = 0.5


async def set_levels(client: Client, levels: Mapping[str, int], upgrade_type: int) -> Code:
    """Request these levels from the controller, all or none; return the code of the whole."""
    kind = UpdateFeaturesRequest
    updates = [
        kind.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
        for name, level in levels.items()
    ]
    answer: Any = await client.ask(kind(timeout_ms=5_000, feature_updates=updates), CONTROLLER)
    return Code(answer.error_code)


async def upgrade(injector: FaultInjector) -> bool:
    """One or more levels are raised, or a request is made that must be refused."""
    lower = {name: level for name, level in _levels(injector).items() if level < TOP[name]}
    operator = Actor(injector.cluster, f"upgrade {injector.done.get('upgrade', 0)}")
    if not lower or injector.rng.random() < 0.2:
        await _lower(injector, operator)
    else:
        some = sorted(lower) if injector.rng.random() < 0.3 else [injector.rng.choice(sorted(lower))]
        await _raise(injector, operator, {name: injector.rng.randint(lower[name] + 1, TOP[name]) for name in some})
    await injector.last()
    return True


def _levels(injector: FaultInjector) -> dict[str, int]:
    """Return the levels of the newest committed metadata; kraft.version as any living node has it."""
    quorums = [driver.quorum for _, node in injector.observer.nodes() if (driver := driver_of(node)) is not None]
    levels = {name: injector.observer.image.features.get(name, 0) for name in TOP}
    return {**levels, KRAFT_VERSION: max((one.kraft_version for one in quorums), default=0)}


async def _raise(injector: FaultInjector, operator: Actor, levels: dict[str, int]) -> None:
    """Ask until it is answered, or the run is over: then the outcome is unknown."""
    cluster, voters = injector.cluster, KRAFT_VERSION in levels
    cluster.record_event(f"the operator raises {', '.join(f'{name} to {level}' for name, level in levels.items())}")
    while injector.going:
        if voters and cluster.replaced:  # whose disk is it whose id would go into the log?
            await asyncio.sleep(AGAIN_S)
            continue
        try:
            with cluster.changing_voters() if voters else nullcontext():
                code = await operator.begin(set_levels(operator.client, levels, UPGRADE))
        except EXPECTED_ERRORS:
            code = Code.REQUEST_TIMED_OUT
        if code is Code.NONE:
            injector.raised |= levels
            injector.coverage |= {RAISED, IN_THE_LOG} if voters else {RAISED}
            return
        now = _levels(injector)
        levels = {name: level for name, level in levels.items() if level > now[name]}  # what another one did is done
        if not levels:
            return
        await asyncio.sleep(AGAIN_S)


async def _lower(injector: FaultInjector, operator: Actor) -> None:
    """A lower level is refused as an upgrade, by whichever node is asked."""
    now = injector.observer.image.features.get(METADATA_VERSION, 0)
    injector.cluster.record_event(f"the operator asks for metadata.version {now - 1}, as an upgrade")
    try:
        code = await operator.begin(set_levels(operator.client, {METADATA_VERSION: now - 1}, UPGRADE))
    except EXPECTED_ERRORS:
        return
    if code is Code.NONE:
        injector.cluster.violated(f"C13: metadata.version goes from {now} to {now - 1}, and that is an upgrade")


def undone(injector: FaultInjector) -> list[str]:
    """C13: a level that was answered is everywhere, and nowhere lower again."""
    broken = []
    for id, node in injector.observer.nodes():
        for name, level in injector.raised.items():
            now = (
                driver_of(node).quorum.kraft_version
                if name == KRAFT_VERSION
                else node.metadata.image.features.get(name, 0)
            )
            if now < level:
                broken.append(f"C13: {name} was raised to {level}, and n{id} has {now}")
    return broken
