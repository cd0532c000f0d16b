"""What commands talk to, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moldau.admin.asking import Talk
from moldau.client.client import Client
from moldau.client.sockets import drive
from moldau.client.sync import Cluster
from moldau.client.view import Broker, View
from tests.packages.doubles import UNUSED

T = TypeVar("T")


class ClientDouble(Client):
    """A client that knows brokers and asks none."""

    def __init__(self, brokers: Iterable[int]) -> None:
        self.view = View()
        self.view.brokers = {id: Broker(id, "localhost", 9092) for id in brokers}


@dataclass
class Driven(Cluster):
    """A cluster of the client for threads, whose calls are carried out here and now."""

    client: Client = UNUSED
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
class TalkDouble(Talk):
    """A command's conversation with a cluster."""

    cluster: Driven = field(default_factory=Driven)
