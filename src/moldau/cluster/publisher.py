"""The process that publishes a cluster's state changes and metrics, beside its nodes (``moldau publish``)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from moldau.cluster.nodes import ClusterSpec, is_alive

COMMAND = (sys.executable, "-P", "-m", "moldau", "publish")
LOG = "publish.log"
PUBLISHER = -1
"""Under this number its process is among those of the nodes."""
ENDS_S = 5.0
"""It has nothing to finish: what it has not written the next one writes."""


class PublishedCluster(Protocol):
    """A cluster on this machine, as its publisher sees it."""

    spec: ClusterSpec
    folder: Path
    processes: dict[int, subprocess.Popen[bytes]]

    @property
    def bootstrap_servers(self) -> str: ...


def go_on_publishing(cluster: PublishedCluster) -> None:
    """Start it, if the cluster has one and it does not run; its words go to ``publish.log`` in the folder."""
    spec = cluster.spec
    if spec.publishing and not is_alive(spec.publisher):
        if PUBLISHER in cluster.processes:
            cluster.processes[PUBLISHER].wait()  # it has ended
        with open(cluster.folder / LOG, "ab") as out:
            process = subprocess.Popen(
                [*COMMAND, str(cluster.folder), "--bootstrap-server", cluster.bootstrap_servers, "--patient"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        cluster.processes[PUBLISHER], spec.publisher = process, process.pid
        spec.save(cluster.folder)


def end_publisher(cluster: PublishedCluster, *, only_own: bool = False) -> None:
    """SIGTERM, and SIGKILL when that does not end it soon: nothing is lost by either. ``only_own``: not one that
    another process has started."""
    pid, process = cluster.spec.publisher, cluster.processes.pop(PUBLISHER, None)
    if pid is None or (only_own and process is None):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + ENDS_S
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
    if process is not None:
        process.wait()
    cluster.spec.publisher = None
    cluster.spec.save(cluster.folder)
