"""The processes of a cluster on this machine: a folder, a properties file and a process per node.

Starts real nodes with ``python -m moldau node``; kills only what it started. A folder describes its cluster in
``cluster.json``, so that another process can find, look at and stop it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from moldau.model.properties import read_properties
from moldau.storage.names import META

HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)
PAUSES_S = 10.0
"""A process that was sent SIGSTOP and does not stop for so long waits for its disk."""


@dataclass
class NodeSpec:
    """One node: its number, ports, folder, and the process when it runs."""

    id: int
    roles: str
    folder: str
    port: int = 0
    controller_port: int = 0
    pid: int | None = None

    @property
    def properties(self) -> Path:
        return Path(self.folder) / "server.properties"

    @property
    def logs(self) -> Path:
        return Path(self.folder) / "logs"

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles


@dataclass
class ClusterSpec:
    """What a cluster folder says of its cluster."""

    cluster_id: str
    """Empty until ZooKeeper has given one, on its plane."""
    nodes: list[NodeSpec] = field(default_factory=list)
    zookeeper: str = ""
    """``host:port,.../chroot`` of a cluster in ZooKeeper mode; empty in KRaft mode."""
    embedded: bool = False
    """Whether that ZooKeeper is part of this cluster."""
    publishing: bool = False
    """Whether a process beside the nodes publishes their state changes and metrics (``publisher.py``)."""
    publisher: int | None = None
    """That process, when it runs."""

    def save(self, folder: Path) -> None:
        text = json.dumps(asdict(self), indent=2)
        temporary = folder / "cluster.json.tmp"
        temporary.write_text(text)
        temporary.replace(folder / "cluster.json")

    @classmethod
    def load(cls, folder: Path) -> ClusterSpec:
        """FileNotFoundError when no cluster was made in the folder; ValueError when its file is not one of ours."""
        file = folder / "cluster.json"
        text = file.read_text()
        try:
            data = json.loads(text)
            nodes = [NodeSpec(**node) for node in data.pop("nodes")]
            spec = cls(nodes=nodes, **data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} does not describe a cluster: {error!r}") from error
        for node in nodes:
            home = Path(node.folder).parent
            if home.resolve() != folder.resolve():  # a copy would start and stop the nodes of the other one
                raise ValueError(
                    f"the cluster of {folder} was made in {home}, which its nodes' files name: it works there alone."
                    " Move it back, or take another --data"
                )
            node.pid = ours(node.pid, home)
        spec.publisher = ours(spec.publisher, folder)
        return spec


def free_ports(count: int, but: Collection[int] = ()) -> list[int]:
    """Ports that nobody holds right now, all different; OSError when there are not so many.

    ``but``: who has been given these has not started yet.

    Below the range from which the kernel gives clients theirs: a port stays its node's while the node is down.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if len(ports) == count:
            return ports
        if port in but:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
    raise OSError(f"no {count} free ports between {PORTS[0]} and {PORTS[-1]}")


def ours(pid: int | None, folder: Path) -> int | None:
    """The number, unless its process is not one that was started for the folder: its command line names that.

    A folder remembers numbers that the machine gives to somebody else some day, after its next start at the latest.
    """
    command = b""
    deadline = time.monotonic() + 0.1
    # For a moment it is empty, as a program takes the place of another.
    while not command and time.monotonic() < deadline:
        if not is_alive(pid) or not os.path.isdir("/proc/self"):
            return pid
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
    return pid if os.fsencode(folder) in command else None


def find_running(nodes: Sequence[NodeSpec]) -> None:
    """Note the processes of nodes that none is known of: a command that was cut off had started them, and not noted it.

    Only where a machine tells of its processes as Linux does. A second one would not get the first one's folder.
    """
    wanted = {os.fsencode(node.properties): node for node in nodes if not is_alive(node.pid)}
    if not wanted:
        return
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = file.read_bytes().split(b"\0")
            node = wanted.get(words[-4]) if len(words) > 3 and words[-3] == b"--logs" else None
            if node is not None:
                node.pid = int(file.parent.name)


def is_alive(pid: int | None) -> bool:
    """Whether a process is there and no zombie."""
    if pid is None:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return False
    except OSError:
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def is_paused(pid: int | None) -> bool:
    """Whether a process is stopped by SIGSTOP, as far as the system tells."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in ("T", "t")
    return False


def pause(spec: NodeSpec) -> None:
    """SIGSTOP, and wait until it holds the process, where the system tells: on a busy machine a moment passes."""
    send(spec, signal.SIGSTOP)
    deadline = time.monotonic() + PAUSES_S
    while Path(f"/proc/{spec.pid}/stat").exists() and not is_paused(spec.pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def setting(spec: NodeSpec, key: str) -> str:
    """What a node's server.properties says of a key; empty when nothing, or when there is no such file."""
    with contextlib.suppress(OSError, ValueError):
        return read_properties(spec.properties.read_text()).get(key, "").strip()
    return ""


def cluster_ids_on_disk(spec: ClusterSpec) -> list[str]:
    """The cluster's id, as the nodes' log directories have it: none before a broker has been told by ZooKeeper."""
    found: dict[str, None] = {}
    for node in spec.nodes:
        for folder in setting(node, "log.dirs").split(","):
            with contextlib.suppress(OSError, ValueError):
                meta = read_properties(Path(folder.strip(), META).read_text())
                if meta.get("cluster.id"):
                    found[meta["cluster.id"]] = None
    return list(found)


NODE = (sys.executable, "-P", "-m", "moldau", "node")
GONE_S = 10.0
"""How long a process that has ended may still hold its ports."""
STARTED = "--- started"
"""What a line of ``out.log`` begins with where a node was started: what follows is of that start."""


def launch(spec: NodeSpec, command: Sequence[str] = NODE) -> subprocess.Popen[bytes]:
    """Start a node's process; its words go to ``logs/out.log``. It is a child of ours in a group of its own.

    ``command``: what runs it, given its properties and ``--logs``.
    """
    spec.logs.mkdir(parents=True, exist_ok=True)
    with open(spec.logs / "out.log", "ab") as out:
        out.write(f"{STARTED} {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
        out.flush()
        process = subprocess.Popen(
            [*command, str(spec.properties), "--logs", str(spec.logs)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    spec.pid = process.pid
    return process


def launch_after(before: subprocess.Popen[bytes] | None, spec: NodeSpec) -> subprocess.Popen[bytes]:
    """Start a node's process once the one ``before``, which may have ended by itself, has been waited for."""
    if before is not None:
        wait_gone(spec, before, GONE_S)
    return launch(spec)


def leave_running(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Leave processes to themselves: they outlive this one, which waits for none of them and warns of none."""
    for process in processes:
        process.returncode = 0  # else Popen warns, when it is forgotten, of a process that is still running


def last_words(spec: NodeSpec, lines: int = 15) -> str:
    """The end of what a node said since its last start, for errors about it. Who has started says it in its log, and
    nothing besides.
    """
    for name, start in (("out.log", f"{STARTED} "), ("server.log", " INFO Moldau ")):
        with contextlib.suppress(FileNotFoundError):
            text = (spec.logs / name).read_text(errors="replace").splitlines()
            last = max((number for number, line in enumerate(text) if start in line), default=-1)
            words = text[last + (name == "out.log") :] if last >= 0 else text
            if words:
                return "\n".join(words[-lines:])
    return ""


def send(spec: NodeSpec, number: signal.Signals) -> None:
    """Signal a node that we know to be alive."""
    assert spec.pid is not None, f"node {spec.id} does not run"
    os.kill(spec.pid, number)


def wait_gone(spec: NodeSpec, process: subprocess.Popen[bytes] | None, timeout_s: float) -> bool:
    """Wait until a node's process has ended; whether it did in time."""
    deadline = time.monotonic() + timeout_s
    while is_alive(spec.pid):
        if process is not None and process.poll() is not None:
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    if process is not None:  # a zombie's threads may still end, and hold its ports until they have
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(deadline - time.monotonic(), 1.0))
    spec.pid = None
    return True
