"""A ZooKeeper of dicts: what a list of operations makes of a tree of znodes, with versions. For tests of pure rooms."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.ports.zookeeper import BadVersion, CheckVersion, Create, Delete, NodeExists, NoNode, NotEmpty, Op, Set, Stat
from moldau.zookeeper import paths
from moldau.zookeeper.reading import Survey


class Tree:
    """``nodes``: path -> (data, version)."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int]] = {"": (b"", 0)}
        for path in (*paths.PERSISTENT, paths.CLUSTER):
            self.nodes[path] = (b"", 0)
        self.sequence = 0

    def apply(self, ops: Iterable[Op]) -> None:
        """All or nothing."""
        before = dict(self.nodes)
        try:
            for op in ops:
                self._one(op)
        except Exception:
            self.nodes = before
            raise

    def _one(self, op: Op) -> None:
        if isinstance(op, Create):
            path = op.path
            if op.sequential:
                path += f"{self.sequence:010d}"
                self.sequence += 1
            if path in self.nodes:
                raise NodeExists(path)
            if path.rpartition("/")[0] not in self.nodes:
                raise NoNode(path)
            self.nodes[path] = (op.data, 0)
            return
        if op.path not in self.nodes:
            raise NoNode(op.path)
        _data, version = self.nodes[op.path]
        if op.version not in (-1, version):
            raise BadVersion(op.path, f"{version}, not {op.version}")
        if isinstance(op, Set):
            self.nodes[op.path] = (op.data, version + 1)
        elif isinstance(op, Delete):
            if self.below(op.path):
                raise NotEmpty(op.path)
            del self.nodes[op.path]
        else:
            assert isinstance(op, CheckVersion)

    def below(self, path: str) -> list[str]:
        """Names of children."""
        return [p[len(path) + 1 :] for p in self.nodes if p.rpartition("/")[0] == path and p]

    def found(self, path: str) -> tuple[bytes, Stat]:
        data, version = self.nodes[path]
        return data, Stat(czxid=1, mzxid=1, version=version, ephemeral_owner=0)

    def survey(self) -> Survey:
        """What ``moldau.zookeeper.survey`` would bring."""
        topics = {name: self.found(paths.topic(name)) for name in self.below(paths.TOPICS)}
        states = {}
        present = [path for path in paths.PERSISTENT if path != paths.PRODUCER_IDS]
        for name in topics:
            for number in map(int, self.below(paths.partitions(name))):
                present += [paths.partitions(name), paths.partition(name, number)]
                if paths.state(name, number) in self.nodes:
                    states[name, number] = self.found(paths.state(name, number))
        configs = {}
        for path, (data, _) in self.nodes.items():
            entity = path.removeprefix(paths.CONFIG + "/")
            if path.startswith(paths.CONFIG + "/") and not entity.startswith("changes/"):
                if entity.count("/") % 2:
                    configs[entity] = data
                else:
                    present.append(path)
        return Survey(
            topics=topics,
            states=states,
            configs=configs,
            feature=self.nodes[paths.FEATURE][0] if paths.FEATURE in self.nodes else None,
            producer_ids=self.found(paths.PRODUCER_IDS),
            present=tuple(present),
        )
