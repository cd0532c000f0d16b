"""Small scopes searched whole: every order of a few events, breadth first, with the laws after each.

Seeds find what is likely; this finds what is possible, in a world so small that all of it can be seen (KIP-101 and
KIP-279 live in scopes of three replicas and two records). ``python -m moldau.simulator.machines.small`` searches as far
as it is told, and prints how many states that is. Scopes: small_quorum.py, small_replication.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from importlib import import_module
from typing import Any, NamedTuple

import click

from moldau.model.protocol import Protocol
from moldau.simulator.machines.record import Broken, verdict


class Scope(Protocol):
    """A scope that can be searched whole: its states, what may happen in one, and what tells two states apart."""

    def start(self) -> Any: ...

    def moves(self, state: Any) -> Iterable[tuple[str, Callable[[], Any]]]:
        """What may happen next: its name, and the state that it leads to (or the law that it breaks)."""

    def key(self, state: Any) -> str: ...


class Searched(NamedTuple):
    """``depth`` events were tried in every order, ``states`` seen; ``path`` leads to the law that broke, if any."""

    states: int
    moves: int
    depth: int
    whole: bool
    broken: Broken | None = None
    path: tuple[str, ...] = ()


def search(scope: Scope, depth: int, limit: int) -> Searched:
    """Breadth first to ``depth`` events, or to ``limit`` states. ``whole``: nothing further can happen at all."""
    try:
        first = scope.start()
    except Exception as error:
        return Searched(0, 0, 0, False, verdict(error), ("the start",))
    seen = {_digest(scope.key(first))}
    edge: list[tuple[Any, tuple[str, ...]]] = [(first, ())]
    tried = 0
    for at in range(depth):
        beyond: list[tuple[Any, tuple[str, ...]]] = []
        for state, path in edge:
            for name, move in scope.moves(state):
                tried += 1
                try:
                    after = move()
                except Exception as error:
                    return Searched(len(seen), tried, at + 1, False, verdict(error), (*path, name))
                key = _digest(scope.key(after))
                if key not in seen:
                    seen.add(key)
                    beyond.append((after, (*path, name)))
            if len(seen) >= limit:
                return Searched(len(seen), tried, at, False)
        edge = beyond
        if not edge:
            return Searched(len(seen), tried, at + 1, True)
    return Searched(len(seen), tried, depth, False)


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=12).digest()


@click.command()
@click.option("--depth", default=12, show_default=True, help="Events in a row.")
@click.option("--limit", default=200_000, show_default=True, help="States after which a search is given up.")
@click.option("--only", default="", help="Only scopes whose name contains this.")
def small(depth: int, limit: int, only: str) -> None:
    """Search every small scope."""
    for module in ("small_replication", "small_quorum"):
        scopes: dict[str, Scope] = import_module(f"moldau.simulator.machines.{module}").SCOPES
        for name, scope in scopes.items():
            if only not in name:
                continue
            found = search(scope, depth, limit)
            end = "all there is" if found.whole else f"every order of {found.depth} events"
            print(f"{name}: {found.states:,} states, {found.moves:,} moves, {end}", flush=True)
            if found.broken is not None:
                print("\n".join([*found.path, f"BROKEN {found.broken}"]))
                raise SystemExit(1)


if __name__ == "__main__":
    small()
