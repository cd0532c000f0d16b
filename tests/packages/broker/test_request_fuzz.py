"""Requests with the worst of values, through the very connections of a whole node: a connection may end, the node lives
and no handler breaks.

Every request of both listeners. First each field of a plausible request in turn: extreme integers, empty, null and long
strings, ids that nobody has, arrays of none and of two. Then all fields at once, drawn by seed: a failure names the
request, and comes again. What is plausible exists (topics, groups, epochs, the broker's id), so that requests get past
the first check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moldau.broker.api import ANSWERS, BROKER, CONTROLLER
from moldau.broker.kraft.peers import TOPIC_ID
from moldau.wire.apis import APIS
from moldau.wire.batch import build
from moldau.wire.codec import Malformed
from moldau.wire.frames import request_frame
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.schema import Field, Struct
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.whole_node import CLUSTER_ID, WholeNode, feed, whole_node

BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
SMALL = (-2, -1, 0, 1, 1, 1, 2, 3, 5)
TEXTS = (
    "", "t", "t", "g", "g", "h", "1", "consumer", "range", "CONTROLLER", "PLAINTEXT", "__consumer_offsets",
    "__cluster_metadata", "retention.ms", "metadata.version", "kraft.version", "localhost", "\0", "..", "x" * 300,
    "😀" * 100, "9" * 5000, "x" * 32_767,
)  # fmt: skip
ROUNDS = 12


QUORUM = frozenset({1, 52, 53, 54, 55, 59})
"""Requests about the metadata log, on a controller's listener."""


class Hostile:
    """Draws messages: nearly right, half right, or all wrong."""

    def __init__(self, random: Random, whole: WholeNode, kind: str) -> None:
        self.random = random
        self.node = whole.node
        self.kind = kind
        self.wildness = 0.0
        self.topics = [b"\xff" * 16, bytes(16), *self.node.metadata.image.topics]
        self.log = False

    def request(self, key: int, version: int) -> Any:
        """A request, in which each value is wild with the chance ``wildness``."""
        self.log = self.kind == CONTROLLER and key in QUORUM
        return self._struct(APIS[key].request, version)

    def _struct(self, cls: type[Struct], version: int) -> Any:
        fields = {}
        for field in cls.fields:
            if field.present(version):
                null = field.is_nullable(version) and self._wild() and self.random.random() < 0.3
                fields[field.name] = None if null else self._value(field, field.type, version)
        return cls(**fields)

    def _wild(self) -> bool:
        return self.random.random() < self.wildness

    def _value(self, field: Field, kind: Any, version: int) -> Any:
        random = self.random
        if isinstance(kind, list):
            count = random.choice((0, 2, 3)) if self._wild() else 1
            return [self._value(field, kind[0], version) for _ in range(count)]
        if not isinstance(kind, str):
            return self._struct(kind, version)
        if kind in BITS:
            return self._wild_whole(BITS[kind]) if self._wild() else self._known_whole(field.name, BITS[kind])
        if kind == "string":
            return random.choice(TEXTS) if self._wild() else self._known_text(field.name)
        if kind == "uuid":
            return self._id(field.name)
        return {
            "uint16": lambda: random.choice((0, 1, 9092, 65_535)),
            "uint32": lambda: random.choice((0, 1, 2**32 - 1)),
            "float64": lambda: random.choice((0.0, -1.0, 1e308, float("nan"), float("inf"))),
            "bool": lambda: random.random() < 0.5,
            "bytes": lambda: random.choice((b"", b"\0\0", bytes(random.randrange(256) for _ in range(40)))),
            "records": lambda: random.choice((b"", build([(0, b"k", b"v", ())]), b"\xff" * 80)),
        }[kind]()

    def _wild_whole(self, bits: int) -> int:
        return self.random.choice((2**bits - 1, -(2**bits), 2**bits - 2, 2 ** (bits - 1), *SMALL))

    def _known_whole(self, name: str, bits: int) -> int:
        _, epoch = self.node.plane.leader
        lifecycle = self.node.lifecycle
        if name in ("partition", "partition_index", "partition_id") or name.endswith("indexes"):
            return 0
        if name.endswith(("_id", "leader", "replica", "brokers")):
            return 1
        if name == "broker_epoch":
            return lifecycle.epoch if lifecycle is not None else -1
        if "epoch" in name:
            return self.random.choice((epoch, epoch, epoch, epoch + 1, 0)) if bits > 16 else 0
        if name.endswith("_ms"):
            return self.random.choice((0, 1, 50))
        if "offset" in name:
            return self.random.choice((0, 1, 5, self.node.plane.next_offset))
        return self.random.choice((0, 1, 1, 2, 100))

    def _known_text(self, name: str) -> str:
        if name == "cluster_id":
            return CLUSTER_ID
        if name in ("name", "topic", "topic_name", "resource_name"):
            known = ("t", "t", "CONTROLLER", "metadata.version")
            return "__cluster_metadata" if self.log else self.random.choice(known)
        return "g" if "group" in name else self.random.choice(TEXTS[:12])

    def _id(self, name: str) -> bytes:
        if name == "topic_id" and not self._wild():
            return TOPIC_ID if self.log else self.random.choice(self.topics)
        return self.random.choice((bytes(16), b"\xff" * 16, TOPIC_ID, *self.node.directories()))

    def worst(self, kind: Any, *, nullable: bool) -> list[Any]:
        """What to put in the place of one value of a plausible request."""
        if isinstance(kind, list) or not isinstance(kind, str):
            return []
        if kind in BITS:
            bits = BITS[kind]
            return [-1, -2, 0, 2**bits - 1, -(2**bits), 2**bits - 2]
        choices: dict[str, list[Any]] = {
            "uint16": [0, 65_535],
            "uint32": [2**32 - 1],
            "float64": [float("nan"), -1.0],
            "bool": [False, True],
            "uuid": [bytes(16), b"\xff" * 16],
            "bytes": [b"", b"\xff" * 100],
            "records": [b"", b"\xff" * 100],
            "string": ["", "x" * 300, "\0", "😀" * 100, "x" * 32_767],
        }
        found = choices[kind]
        return [None, *found] if nullable else found


def one_by_one(hostile: Hostile, part: Any, version: int) -> Iterator[str]:
    """Put each of the worst values into each field below ``part`` in turn: what was changed, while it is."""
    for field in type(part).fields:
        if not field.present(version):
            continue
        before = getattr(part, field.name)
        for value in hostile.worst(field.type, nullable=field.is_nullable(version)):
            setattr(part, field.name, value)
            yield f"{field.name}={value!r}"
        if isinstance(before, list):
            element = field.type[0]
            wild = [[value] for value in hostile.worst(element, nullable=False)]
            for items in ([], before * 2, *wild, *([None] if field.is_nullable(version) else [])):
                setattr(part, field.name, items)
                yield f"{field.name}={items!r}"
        setattr(part, field.name, before)
        for below in before if isinstance(before, list) else [before]:
            if isinstance(below, Struct):
                yield from one_by_one(hostile, below, version)


async def _prepared(whole: WholeNode) -> None:
    """A topic and the groups' log, so that there is something to hit."""
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await asked(whole, BROKER, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    await asked(whole, BROKER, FindCoordinatorRequest(coordinator_keys=["g"]), 4)


async def asked(whole: WholeNode, kind: str, message: Any, version: int) -> None:
    """Ask, and wait until something was answered or the connection ended."""
    connection, wire = whole.connection(kind)
    feed(connection, b"".join(bytes(part) for part in request_frame(message, version, 1, "fuzz")))
    await until(lambda: wire.out or wire.closed, "an answer")
    wire.close()


async def throw(whole: WholeNode, kind: str, message: Any, version: int, what: str = "") -> bool:
    """Send a request and look at the node; whether it could be sent at all."""
    try:
        frame = b"".join(bytes(part) for part in request_frame(message, version, 7, "fuzz"))
    except Malformed:
        return False  # what the version has no room for cannot come over the wire
    connection, wire = whole.connection(kind)
    feed(connection, frame)
    await asyncio.sleep(0)
    wire.close()
    found = [*whole.ended, *whole.failures]
    assert not found, (APIS[message.api_key].name, version, what, message, found)
    return True


async def each_field_in_turn(whole: WholeNode, kind: str, hostile: Hostile) -> None:
    for answer in ANSWERS[kind].values():
        for version in {answer.low, answer.high}:
            hostile.wildness = 0
            message = hostile.request(answer.key, version)
            for what in one_by_one(hostile, message, version):
                await throw(whole, kind, message, version, what)
        await asyncio.sleep(0.002)


async def all_fields_at_once(whole: WholeNode, kind: str, hostile: Hostile) -> None:
    for number in range(ROUNDS):
        for answer in ANSWERS[kind].values():
            version = answer.high if number % 2 == 0 else hostile.random.randint(answer.low, answer.high)
            hostile.wildness = hostile.random.choice((0.04, 0.15, 0.5, 1.0))
            await throw(whole, kind, hostile.request(answer.key, version), version)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("standalone", [False, True], ids=["voters by hand", "voters in the log"])
@pytest.mark.parametrize("kind", [BROKER, CONTROLLER])
def test_the_worst_values_of_every_request_break_no_handler_and_no_node(
    tmp_path: Path, kind: str, standalone: bool
) -> None:
    async def work() -> None:
        async with whole_node(tmp_path, standalone=standalone) as whole:
            await _prepared(whole)
            hostile = Hostile(Random(f"{kind} {standalone}"), whole, kind)
            await each_field_in_turn(whole, kind, hostile)
            await all_fields_at_once(whole, kind, hostile)
            await until(lambda: whole.node.plane.leader[0] == 1, "a leader")
            await _prepared(whole)
            assert not whole.ended
            assert not whole.failures

    run(work)
