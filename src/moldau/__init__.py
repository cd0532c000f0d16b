"""Moldau: a Kafka-compatible streaming cluster in Python.

``moldau.Cluster`` is a cluster of real brokers for tests and study, ``moldau.spark.session`` a Spark session that reads
one. What users import is loaded on first use, so that a broker process never pays for what only tests and notebooks
need. docs/architecture.md says how the packages hang together.
"""

from __future__ import annotations

if not __debug__:
    raise SystemExit("moldau: asserts are part of the broker; run Python without -O")

TYPE_CHECKING = False  # not the typing module's: that would be loaded before an interrupt can be told as one
if TYPE_CHECKING:
    from moldau.cluster import Cluster as Cluster

__version__ = "0.1.0"
__all__ = ["Cluster", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Cluster":
        from moldau.cluster import Cluster

        return Cluster
    raise AttributeError(f"module 'moldau' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
