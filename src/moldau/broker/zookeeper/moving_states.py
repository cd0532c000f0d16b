"""Watches of the states of partitions that move: what Kafka's controller calls PartitionReassignmentIsrChange.

A move ends when its target is in sync (``controller/change.py``). Leaders that ask the controller for their ISR tell
it so by that; a state that a leader, or somebody else, writes by itself is noticed here, also without a note. What a
state has that this controller did not write is read anew, with everything else, and whoever is elected then ends the
move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from moldau.broker.zookeeper.parts import PlaneParts, ZooKeeperNode
from moldau.image import Delta, Image
from moldau.image.partition import Key
from moldau.ports.zookeeper import NoAuth, NoNode, ZooKeeperError
from moldau.zookeeper import paths
from moldau.zookeeper.znodes import parse_state

AT_ONCE = 200
"""Watches that are set at the same time."""
BUSY_AGAIN_MS = 50
"""How long after a look that found this controller writing it looks again: what it wrote itself is no news, and others
of its looks do not wait."""


class MovingStates:
    """The part of ``Watching`` that watches moves. ``mark`` has ``check`` called."""

    def __init__(self, node: ZooKeeperNode, plane: PlaneParts, mark: Callable[[], None]) -> None:
        self._node = node
        self._plane = plane
        self._mark = mark
        self._watched: set[Key] = set()
        self._is_due = False
        node.metadata.watch(self._changed)

    def forget(self) -> None:
        """The controller role is over, or begins: nothing is watched."""
        self._watched.clear()

    def _changed(self, image: Image, delta: Delta) -> None:
        moving, watched = image.index.moving, self._watched
        if not moving or self._plane.claimed_epoch is None:
            return
        if any(key in moving and key not in watched for key in delta.partitions):
            self._mark()

    async def check(self) -> None:
        """Watch whatever moves, and compare what is there with what is known."""
        if not self._plane.writer.idle:
            self._look_later()
            return
        moving = self._node.metadata.image.index.moving
        self._watched.intersection_update(moving)
        new = [key for key in moving if key not in self._watched]
        for at in range(0, len(new), AT_ONCE):
            ended = await asyncio.gather(*map(self._watch, new[at : at + AT_ONCE]), return_exceptions=True)
            for error in filter(None, ended):  # each has ended by then
                raise error

    async def _watch(self, key: Key) -> None:
        topic = self._node.metadata.image.topics.get(key[0])
        if topic is None:
            return
        self._watched.add(key)  # before it is told of the first change
        try:
            data, stat = await self._plane.zk.get(paths.state(topic.name, key[1]), partial(self._written, key))
        except (NoNode, NoAuth):
            return  # nothing to compare; the end of the move, or of the topic, is told by the image
        except ZooKeeperError:
            self._watched.discard(key)
            raise
        if not self._plane.writer.idle:
            self._watched.discard(key)
            self._look_later()
            return
        partition = self._node.metadata.image.partition(*key)
        if partition is None or stat.version <= partition.partition_epoch:
            return
        parse_state(topic.name, key[1], data)
        self._plane.deposed(
            f"somebody else wrote the state of {topic.name}-{key[1]}, which moves; everything is read anew"
        )

    def _look_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._node.world.tasks.call_later(BUSY_AGAIN_MS, self._look_again)

    def _look_again(self) -> None:
        self._is_due = False
        if self._plane.claimed_epoch is not None:
            self._mark()

    def _written(self, key: Key, happened: object, path: str) -> None:
        self._watched.discard(key)
        self._mark()
