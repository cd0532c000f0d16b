"""Tells from which node a connection comes, by the process that holds its other end; the program need not know.

Nodes are started with a mark in their environment, and Linux says in /proc which process holds which socket. So every
directed pair of nodes is told apart although all live on loopback, of Apache Kafka as of Moldau. A process without a
mark is a client. Read next: ``fronts.py``.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

MARK = "MOLDAU_CHAOS_PLACE"
"""Environment of a node: ``<token of the run>:<place>``."""
CLIENTS = 0
"""The place of processes that are no nodes; nodes are numbered from 1."""
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _INODE = 1, 2, 9
"""Columns of a table of sockets (Linux, proc_net_tcp)."""

Address = tuple[str, int]


class Sources:
    """Looks for the holders of connections among the processes that carry this run's mark."""

    def __init__(self, token: str, proc: Path = Path("/proc")) -> None:
        self._mark = f"{MARK}={token}:".encode()
        self._proc = proc
        self._places: dict[int, int] = {}

    def place(self, caller: Address, front: Address) -> int | None:
        """The place of the process at the caller's end of a connection to a front; None: the end is closed already."""
        inode = inode_of(caller, front)
        if inode is None:
            return None
        wanted = f"socket:[{inode}]"
        for again in (False, True):
            if again:
                self._places = self._marked()
            for pid, place in self._places.items():
                if self._holds(pid, wanted):
                    return place
        return CLIENTS

    def _marked(self) -> dict[int, int]:
        found = {}
        for entry in self._proc.iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # it ended, or is another user's
                continue
            for word in words:
                if word.startswith(self._mark):
                    found[int(entry.name)] = int(word.removeprefix(self._mark))
        return found

    def _holds(self, pid: int, wanted: str) -> bool:
        try:
            with os.scandir(self._proc / str(pid) / "fd") as all_held:
                for held in all_held:
                    try:
                        if os.readlink(held.path) == wanted:
                            return True
                    except OSError:  # closed in between
                        continue
        except OSError:  # it ended
            return False
        return False


def inode_of(local: Address, remote: Address) -> int | None:
    """The socket that is at one end of a connection on this machine; None when no process holds it any more."""
    for table, pair in zip(TABLES, (_v4, _v6), strict=True):
        ends = [pair(local), pair(remote)]
        try:
            lines = table.read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for line in lines:
            words = line.split()
            if [words[_LOCAL], words[_REMOTE]] == ends:
                return int(words[_INODE]) or None
    return None


def _v4(address: Address) -> str:
    """As the kernel prints it: each 32 bits as a number of this machine."""
    (word,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{word:08X}:{address[1]:04X}"


def _v6(address: Address) -> str:
    """An IPv4 address of a socket that speaks both, as Java's do."""
    (prefix,) = struct.unpack("=I", b"\0\0\xff\xff")
    return f"{0:016X}{prefix:08X}{_v4(address)}"
