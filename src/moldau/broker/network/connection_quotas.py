"""How many connections a broker takes, from one address, in a second: max.connections and its kin (KIP-402, KIP-612).

Decides whether a new connection is served, held (not read from until there is room) or refused; one from an address
that makes them faster than its quota allows is held for a while and then closed. Limits may change at any time. With
several listeners the brokers' own is never held: replication must not wait for clients. Asked by ``network/``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from moldau.model.config_key import INT_MAX
from moldau.model.protocol import Protocol
from moldau.ports import World

KEYS = (
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
)


class HeldConnection(Protocol):
    """A connection as this file needs it."""

    peer: tuple[str | int, ...] | None

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def refuse(self) -> None: ...

    def turn_away(self, wait_ms: int) -> None: ...


class AddressQuotas(Protocol):
    """The quotas of addresses."""

    @property
    def limits_addresses(self) -> bool: ...

    def connect_ms(self, address: str) -> int: ...


class ConnectionQuotas:
    """One broker's limits over the listeners that count. ``setting`` looks a key up as it is now."""

    def __init__(
        self,
        world: World,
        setting: Callable[[str], Any],  # Any: a value of the kind that its key has
        quotas: AddressQuotas | None = None,
    ) -> None:
        self._quotas = quotas
        self._clock = world.clock
        self._tasks = world.tasks
        self._setting = setting
        self._by_ip: Counter[str] = Counter()
        self._serving: dict[HeldConnection, None] = {}
        self._waiting: deque[HeldConnection] = deque()
        self._credit = 1.0
        self._credit_ms = world.clock.monotonic_ms()
        self._due = False
        self.reconfigure()

    def reconfigure(self) -> None:
        """The settings may have changed."""
        self._most, self._most_per_ip, _, self._rate = (self._setting(key) for key in KEYS)
        self._overrides = dict(_overrides(self._setting(KEYS[2])))
        self._let_in()

    def came(self, connection: HeldConnection) -> None:
        """A connection was made: hold or refuse it if need be."""
        ip = _ip(connection)
        if self._by_ip[ip] >= self._overrides.get(ip, self._most_per_ip):
            connection.refuse()
            return
        if self._quotas is not None and self._quotas.limits_addresses and (wait_ms := self._quotas.connect_ms(ip)):
            connection.turn_away(wait_ms)
            return
        self._by_ip[ip] += 1
        if not self._waiting and self._room():
            self._serving[connection] = None
            return
        connection.hold()
        self._waiting.append(connection)
        self._look_later()

    def left(self, connection: HeldConnection) -> None:
        """A connection ended."""
        if connection in self._serving:
            del self._serving[connection]
        elif connection in self._waiting:
            self._waiting.remove(connection)
        else:
            return  # it was refused, or never counted
        ip = _ip(connection)
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        self._let_in()

    def _room(self) -> bool:
        """Whether one more may be served now; if so, it counts."""
        if len(self._serving) >= self._most:
            return False
        if self._rate == INT_MAX:
            return True
        now_ms = self._clock.monotonic_ms()
        earned = (now_ms - self._credit_ms) * self._rate / 1000
        self._credit, self._credit_ms = min(self._credit + earned, max(self._rate, 1)), now_ms
        if self._credit < 1:
            return False
        self._credit -= 1
        return True

    def _let_in(self) -> None:
        while self._waiting and self._room():
            connection = self._waiting.popleft()
            self._serving[connection] = None
            connection.release()
        self._look_later()

    def _look_later(self) -> None:
        """Time brings room only where a rate is what is waited for; an end of a connection brings it by itself."""
        if self._waiting and len(self._serving) < self._most and self._rate and not self._due:
            self._due = True
            self._tasks.call_later(1000 / self._rate, self._again)

    def _again(self) -> None:
        self._due = False
        self._let_in()


def _ip(connection: HeldConnection) -> str:
    return str(connection.peer[0]) if connection.peer else ""


def _overrides(text: str) -> list[tuple[str, int]]:
    """``host:count,...``; what is no count is left out."""
    found = []
    for member in text.split(","):
        host, _, count = member.strip().rpartition(":")
        if host and count.isdigit():
            found.append((host, int(count)))
    return found
