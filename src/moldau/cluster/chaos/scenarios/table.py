"""The scenarios by number, as reliability programmes number them; ``applies`` says where one makes sense.

Decides nothing. Read next: the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from moldau.cluster.chaos.scenarios import processes
from moldau.cluster.chaos.stage import Stage
from moldau.cluster.chaos.volumes import Plain, Volume


class Scenario(NamedTuple):
    """One scenario: what is done, on which kind of disk, and whether it can be done to Apache Kafka as well."""

    act: Callable[[Stage], None]
    volume: Callable[[], Volume] = Plain
    for_kafka: bool = True

    @property
    def sentence(self) -> str:
        """What it does, in its own words."""
        return (self.act.__doc__ or "").partition("\n\n")[0].replace("\n   ", "")


SCENARIOS: dict[int, Scenario] = {
    2: Scenario(processes.chase_with_kills),
    3: Scenario(processes.chase_with_stops),
    4: Scenario(processes.zombie_leader),
    5: Scenario(processes.pauses_and_kills),
    10: Scenario(processes.cold_start),
}
