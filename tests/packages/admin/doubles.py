"""What commands talk to, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moldau.client.sockets import drive
from tests.packages.doubles import UNUSED

T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """Brokers that a client knows."""

    brokers: Collection[int]


@dataclass(frozen=True)
class ClientDouble:
    """A client that knows brokers and asks none."""

    view: View


@dataclass
class Driven:
    """A cluster of the client for threads, whose calls are carried out here and now."""

    client: ClientDouble = UNUSED
    closed: int = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return drive(work)

    def close(self) -> None:
        self.closed += 1


class LoopDriven(Driven):
    """One that carries its calls out on a loop of their own."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)


@dataclass
class TalkDouble:
    """A command's conversation with a cluster."""

    cluster: Driven = field(default_factory=Driven)
