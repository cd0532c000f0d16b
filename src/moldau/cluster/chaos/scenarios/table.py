"""The scenarios by number, as reliability programmes number them, and what each needs of a machine.

Decides nothing. Read next: the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from moldau.cluster.chaos.nets import Links
from moldau.cluster.chaos.scenario_context import ScenarioContext
from moldau.cluster.chaos.scenarios import control, damage, disks, links, processes
from moldau.cluster.chaos.volumes import Freezable, Plain, SmallVolume, Volume


class Scenario(NamedTuple):
    """One scenario: what is done, on which kind of disk, to which links, and whether to Apache Kafka as well."""

    act: Callable[[ScenarioContext], None]
    volume: Callable[[], Volume] = Plain
    for_kafka: bool = True
    links: Links = Links.NOTHING

    @property
    def sentence(self) -> str:
        """What it does, in its own words."""
        return (self.act.__doc__ or "").partition("\n\n")[0].replace("\n   ", "")


SCENARIOS: dict[int, Scenario] = {
    1: Scenario(links.isr_collapse, links=Links.CUT),
    2: Scenario(processes.chase_with_kills),
    3: Scenario(processes.chase_with_stops),
    4: Scenario(processes.zombie_leader),
    5: Scenario(processes.pauses_and_kills),
    6: Scenario(links.cut_from_controllers, links=Links.CUT),
    7: Scenario(links.cut_from_followers, links=Links.CUT),
    8: Scenario(links.one_way_cuts, links=Links.CUT),
    9: Scenario(control.kill_the_controller),
    10: Scenario(processes.cold_start),
    13: Scenario(control.recreate_while_away),
    14: Scenario(disks.disk_full, SmallVolume),
    15: Scenario(disks.disk_hung, Freezable),
    16: Scenario(disks.corrupt_files, for_kafka=False),
    17: Scenario(disks.wipe),
    18: Scenario(links.slow_and_reset, links=Links.SLOW),
    19: Scenario(damage.damage_at_rest, for_kafka=False),
}
