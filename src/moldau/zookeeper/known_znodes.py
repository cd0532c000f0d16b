"""What stands in ZooKeeper that an image does not tell: znodes that there are, raw settings, partitions without state.

The active controller's own book-keeping: filled by a survey, told of what tools wrote (``saw``) and of each multi that
went through (``applied``). ``writing`` asks it whether to create or to set, and what a deletion must delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.ports.zookeeper import Create, Delete, Op, Set
from moldau.zookeeper import paths
from moldau.zookeeper.notes import parse_config
from moldau.zookeeper.znodes import ReplicaAssignment, parse_topic


class KnownZnodes:
    """``settings``: entity -> what stands in its znode. ``new_partitions``: topic -> partitions that have no state yet.

    ``unread``: path of a znode that could not be read -> the transaction that wrote it, -1 where an ACL denied it.
    Nothing is decided about what it holds. ``set_apart``: topic -> partitions whose state is one of those, with their
    replicas, which stay as they are.
    """

    __slots__ = ("_children", "new_partitions", "set_apart", "settings", "unread")

    def __init__(self) -> None:
        self._children: dict[str, dict[str, None]] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.new_partitions: dict[str, dict[int, ReplicaAssignment]] = {}
        self.set_apart: dict[str, dict[int, ReplicaAssignment]] = {}
        self.unread: dict[str, int] = {}

    def __contains__(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name in self._children.get(folder, ())

    def below(self, path: str) -> Iterator[str]:
        """All that stands below a znode, children before parents; without the znode itself."""
        for name in self._children.get(path, ()):
            yield from self.below(f"{path}/{name}")
            yield f"{path}/{name}"

    def add(self, all_paths: Iterable[str]) -> None:
        for path in all_paths:
            folder, _, name = path.rpartition("/")
            self._children.setdefault(folder, {})[name] = None

    def saw(self, path: str, data: bytes) -> None:
        """A topic's or an entity's znode was read; who wrote it does not matter. BadZnode when it cannot be read."""
        if path.startswith(paths.TOPICS + "/"):
            topic = parse_topic(path.removeprefix(paths.TOPICS + "/"), data)
            new_partitions = {
                number: each for number, each in topic.partitions.items() if paths.state(topic.name, number) not in self
            }
            if new_partitions:
                self.new_partitions[topic.name] = new_partitions
            else:
                self.new_partitions.pop(topic.name, None)
        elif path.startswith(paths.CONFIG + "/"):
            entity = path.removeprefix(paths.CONFIG + "/")
            self.settings[entity] = parse_config(entity, data)
        self.add((path,))

    def gone(self, path: str) -> None:
        """A znode is not there any more."""
        folder, _, name = path.rpartition("/")
        self._children.get(folder, {}).pop(name, None)
        self._children.pop(path, None)
        self.unread.pop(path, None)
        if path.startswith(paths.TOPICS + "/"):
            self.new_partitions.pop(path.removeprefix(paths.TOPICS + "/"), None)
            self.set_apart.pop(path.removeprefix(paths.TOPICS + "/"), None)
        elif path.startswith(paths.CONFIG + "/"):
            self.settings.pop(path.removeprefix(paths.CONFIG + "/"), None)

    def applied(self, ops: Iterable[Op]) -> None:
        """A multi of these went through."""
        for op in ops:
            match op:
                case Create(sequential=True):
                    pass  # notes are nobody's to delete but their reader's
                case Create() if (partition := paths.of_state(op.path)) is not None:
                    self.add((op.path,))
                    self._got_state(*partition)
                case Create() | Set() if _is_entity(op.path):
                    self.saw(op.path, op.data)
                case Create():
                    self.add((op.path,))
                case Delete():
                    self.gone(op.path)

    def _got_state(self, topic: str, number: int) -> None:
        waiting = self.new_partitions.get(topic, {})
        waiting.pop(number, None)
        if not waiting:
            self.new_partitions.pop(topic, None)


def _is_entity(path: str) -> bool:
    """Whether a znode holds settings: /config/KIND/NAME.. and no folder, no note."""
    parts = path.split("/")
    return path.startswith(paths.CONFIG + "/") and len(parts) % 2 == 0 and parts[2] != "changes"
