"""What is said when a cluster's feature levels are not ones that this version of Moldau supports.

Read by the log's reader (a newer level ends the start) and by a broker that was refused (which level is in the way).
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.controller.features import SUPPORTED
from moldau.image.snapshot import METADATA_VERSION

_RANGES = {feature.name: (feature.low, feature.high) for feature in SUPPORTED}
ADVICE = "run this node with a version that supports it, or lower the level from a node that does"


class UnsupportedLevel(Exception):
    """The cluster is at a level of a feature that this version of Moldau does not support: the node ends with its
    name."""


def demand_to_lead(levels: Mapping[str, int]) -> None:
    """UnsupportedLevel when a controller would have to write records as they were before the lowest level here."""
    level, (low, high) = levels.get(METADATA_VERSION, 0), _RANGES[METADATA_VERSION]
    if 0 < level < low:
        raise UnsupportedLevel(
            f"the cluster is at level {level} of {METADATA_VERSION}, at which this node would lead it, and this version"
            f" of Moldau supports {low} to {high}: have a controller of Kafka 4 raise it, then start this node again"
        )


def newer_than_supported(name: str, level: int) -> str | None:
    """Why records under this level may not be understood here; None for a level that is not above the supported ones.

    A feature that is not known at all is no reason: it is the controller who decides whether a broker must support it.
    """
    if name not in _RANGES or level <= _RANGES[name][1]:
        return None
    low, high = _RANGES[name]
    return (
        f"the metadata log is at level {level} of {name}, and this version of Moldau supports {low} to {high}: {ADVICE}"
    )


def unsupported(levels: Mapping[str, int]) -> list[str]:
    """A clause for each level of a cluster that is not supported here; what is supported when all of them are."""
    clauses = []
    for name, level in sorted(levels.items()):
        low, high = _RANGES.get(name, (0, 0))
        if not low <= level <= high:
            clauses.append(
                f"the cluster is at level {level} of {name}, this version of Moldau supports {low} to {high}"
            )
    ranges = ", ".join(f"{name} {low} to {high}" for name, (low, high) in _RANGES.items())
    return clauses or [f"the controller does not say of which feature; this version of Moldau supports {ranges}"]
