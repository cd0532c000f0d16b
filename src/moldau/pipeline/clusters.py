"""Which cluster a pipeline reads."""

from __future__ import annotations

import os

from moldau.pipeline.spec import Pipeline


class NoCluster(Exception):
    """Nothing says which cluster to read, or nobody is there."""


def cluster_of(pipeline: Pipeline) -> str:
    """The bootstrap list; NoCluster when neither the file nor the environment has one."""
    found = pipeline.cluster or os.environ.get("MOLDAU_BOOTSTRAP")
    if not found:
        raise NoCluster(f"pipeline {pipeline.name}: no cluster: set 'cluster: HOST:PORT' or MOLDAU_BOOTSTRAP")
    return found
