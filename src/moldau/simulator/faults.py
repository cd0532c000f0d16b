"""All faults of a cluster on KRaft by their names. Read next: fault_injector.py, storage_faults.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from moldau.simulator import controller_replacement, feature_upgrades, storage_faults
from moldau.simulator.fault_injector import OWN_FAULTS, FaultInjector

FAULTS: dict[str, Callable[[FaultInjector], Awaitable[bool]]] = {
    **OWN_FAULTS,
    "rot": storage_faults.corrupt,
    "blackout": storage_faults.blackout,
    "stalled-writes": storage_faults.stalled_writes,
    "compaction": storage_faults.amid_compaction,
    "damaged-segment": storage_faults.damaged_segment,
    "lost-segment": storage_faults.lost_segment,
    "replaced-disk": controller_replacement.replaced_disk,
    "upgrade": feature_upgrades.upgrade,
}


class QuorumFaultInjector(FaultInjector):
    """The fault injector of KRaft."""

    async def inject(self, name: str) -> bool:
        return await FAULTS[name](self)

    def undone(self) -> list[str]:
        return feature_upgrades.undone(self)
