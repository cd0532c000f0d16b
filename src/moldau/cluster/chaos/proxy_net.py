"""A net of loopback and a proxy, where namespaces are not permitted, or where links are to be slow or reset.

Nodes listen on loopback and get the addresses of each other's fronts only; the proxy tells callers apart by their
process, so that each directed pair has its own faults. What differs from a net of packets: a connection under a cut is
made, and then silent; a dead node's refusals turn into resets while another node is cut off from it. Next: ``proxy/``.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Collection, Sequence
from typing import Any

from moldau.cluster.chaos.net import CannotBreak, Flat
from moldau.cluster.chaos.proxy.sources import MARK, TABLES
from moldau.cluster.kills.cluster_poller import Address

_PROCESS = "moldau.cluster.chaos.proxy.process"


class ProxyNet(Flat):
    """Loopback, with a front before each listener."""

    words = "loopback, through the proxy"

    def __init__(self) -> None:
        super().__init__()
        if not TABLES[0].exists():
            raise CannotBreak("links cannot be cut: callers are told apart by /proc/net/tcp, which is not there")
        self._token = secrets.token_hex(4)
        self._process = subprocess.Popen(
            [sys.executable, "-m", _PROCESS, self._token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def command(self, place: int, command: Sequence[str]) -> list[str]:
        return ["env", f"{MARK}={self._token}:{place}", *command]

    def front(self, place: int, listener: Address) -> Address:
        said = self._told(do="front", place=place, host=listener[0], port=listener[1])
        return said["host"], said["port"]

    def cut(self, source: int, target: int, ports: Collection[int] = ()) -> None:
        self._told(do="cut", source=source, target=target, ports=sorted(ports))

    def delay(self, source: int, target: int, seconds: float) -> None:
        """Delay all bytes from one place to another."""
        self._told(do="delay", source=source, target=target, seconds=seconds)

    def reset(self, one: int, other: int) -> None:
        """Break all connections between two places; bytes in flight are lost."""
        self._told(do="reset", one=one, other=other)

    def made(self, source: int, target: int) -> int:
        """Return how many connections a place has made to another so far."""
        return int(self._told(do="made", source=source, target=target)["count"])

    def heal(self) -> None:
        self._told(do="heal")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _told(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the proxy ended with {self._process.wait()} when told {order}")
        answer: dict[str, Any] = json.loads(line)
        return answer
