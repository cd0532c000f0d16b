"""Several real nodes on this machine: start, kill, pause, restart, cut, heal. Tests and the command line use it.

``Cluster`` is the whole of it for users; ``pytest_plugin`` gives it to tests as fixtures.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from moldau.cluster.cluster import Cluster as Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> object:
    if name == "Cluster":
        from moldau.cluster.cluster import Cluster

        return Cluster
    raise AttributeError(f"module 'moldau.cluster' has no attribute {name!r}")
