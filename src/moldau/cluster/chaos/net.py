"""The net between nodes: a network namespace for each, and one hub in between in which links are cut.

The command runs in the hub (``enclosed`` starts it again there, in namespaces of its own that end with it; where user
namespaces are permitted, no root is needed). Packets from one node to another pass the hub, and are dropped there,
without a reset: one way or both, all of them or those of a port. ``Flat`` puts every node on loopback, where nothing
can be cut; ``proxy_net.py`` puts a proxy between those. Decides nothing about when. Read next: ``nets.py`` (which one a
run is given). Why so: docs/decisions/0014-chaos.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from moldau.cluster.kills.cluster_poller import Address
from moldau.cluster.nodes import HOST, free_ports
from moldau.model.protocol import Protocol

INSIDE = "MOLDAU_CHAOS_ENCLOSED"
"""Set in the environment of a command that runs in namespaces of its own."""
TOOLS = ("unshare", "nsenter", "ip")
_NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_AS_ROOT = ("--user", "--map-root-user")
_READY_S = 10.0


class CannotBreak(Exception):
    """This machine does not permit a fault; the message says why."""


class ClusterNet(Protocol):
    """Where nodes live, and what lies between them; ``words`` say it."""

    words: str

    def add(self, place: int) -> str:
        """Make a place for a node; return its address."""

    def ports(self, count: int) -> list[int]:
        """Return ports for one node's listeners."""

    def command(self, place: int, command: Sequence[str]) -> list[str]:
        """Return the command that runs another command in a place."""

    def front(self, place: int, listener: Address) -> Address:
        """Return the address at which all others reach a listener of a place."""

    def cut(self, source: int, target: int, ports: Collection[int] = ()) -> None:
        """Drop packets from a place to another: all, or those from or to ``ports``. CannotBreak where none can be."""

    def heal(self) -> None:
        """Undo all cuts."""

    def close(self) -> None:
        """Remove the places."""


class Namespaces:
    """Every place is a network namespace with one link to the hub, which is the namespace of this process."""

    words = "a namespace for each node"

    def __init__(self) -> None:
        self._holders: dict[int, subprocess.Popen[bytes]] = {}
        self._cuts: list[list[str]] = []
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")

    def add(self, place: int) -> str:
        holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, start_new_session=True)
        self._holders[place] = holder
        ours, theirs = os.readlink("/proc/self/ns/net"), Path(f"/proc/{holder.pid}/ns/net")
        deadline = time.monotonic() + _READY_S
        while os.readlink(theirs) == ours:
            if time.monotonic() > deadline:
                raise CannotBreak("a network namespace was not made in time")
            time.sleep(0.005)
        link, hub = f"node{place}", f"10.77.{place}.254"
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _ip("addr", "add", f"{hub}/24", "dev", link)
        _ip("link", "set", link, "up")
        inside = (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{address(place)}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", hub),
        )
        for words in inside:
            subprocess.run(self.command(place, ["ip", *words]), check=True)
        return address(place)

    def ports(self, count: int) -> list[int]:
        return list(range(9092, 9092 + count))  # every node has an address, so all may have the same

    def command(self, place: int, command: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[place].pid}/ns/net", *command]

    def front(self, place: int, listener: Address) -> Address:
        return listener

    def cut(self, source: int, target: int, ports: Collection[int] = ()) -> None:
        for rule in rules(source, target, ports):
            _ip("rule", "add", *rule, "blackhole")
            self._cuts.append(rule)

    def heal(self) -> None:
        cuts, self._cuts = self._cuts, []
        for rule in cuts:
            _ip("rule", "del", *rule, "blackhole")

    def close(self) -> None:
        for holder in self._holders.values():
            holder.kill()
            holder.wait()
        self._holders.clear()


class Flat:
    """All on loopback, where nothing can be cut."""

    words = "loopback"

    def add(self, place: int) -> str:
        return HOST

    def ports(self, count: int) -> list[int]:
        return free_ports(count)

    def command(self, place: int, command: Sequence[str]) -> list[str]:
        return list(command)

    def front(self, place: int, listener: Address) -> Address:
        return listener

    def cut(self, source: int, target: int, ports: Collection[int] = ()) -> None:
        raise CannotBreak("links of loopback are not cut")

    def heal(self) -> None:
        """Nothing is ever cut."""

    def close(self) -> None:
        """There is nothing to give up."""


def rules(source: int, target: int, ports: Collection[int]) -> list[list[str]]:
    """What a routing rule must match to cut a link one way: requests to a port, and the answers from one, or all."""
    way = ["from", address(source), "to", address(target)]
    return [[*way, "ipproto", "tcp", end, str(port)] for port in ports for end in ("sport", "dport")] or [way]


def address(place: int) -> str:
    """Where a place's namespace is reached."""
    return f"10.77.{place}.1"


def enclosed(module: str, arguments: Sequence[str]) -> int | None:
    """Run a module again in namespaces of its own, to its end; return its exit status. None: not permitted, or done."""
    if INSIDE in os.environ:
        return None
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    rights = () if os.geteuid() == 0 else _AS_ROOT
    wrap = ["unshare", *rights, *_NAMESPACES]
    tried = None if missing else subprocess.run([*wrap, "true"], capture_output=True, text=True, check=False)
    if tried is None or tried.returncode:
        said = tried.stderr.strip() if tried is not None else f"no {' or '.join(missing)} on the PATH"
        os.environ[INSIDE] = f"namespaces are not permitted ({said})"
        return None
    command = [*wrap, sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=os.environ | {INSIDE: "yes"}, check=False).returncode


def wake_loopback() -> None:
    """Set loopback up: in a new namespace it is down."""
    _ip("link", "set", "lo", "up")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBreak(f"ip {' '.join(words)}: {done.stderr.strip()}")
