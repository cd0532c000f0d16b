"""Moldau: a Kafka-compatible streaming cluster in Python.

The package is a street of rooms, each wholly pure or wholly shell; docs/architecture.md is the map. What users import
lives here and is loaded on first use, so that a broker process never pays for what only tests and notebooks need.
"""

from __future__ import annotations

import typing

if not __debug__:
    raise SystemExit("moldau: asserts are part of the broker; run Python without -O")

if typing.TYPE_CHECKING:
    from moldau.cluster import Cluster as Cluster

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "Cluster":
        from moldau.cluster import Cluster

        return Cluster
    raise AttributeError(f"module 'moldau' has no attribute {name!r}")
