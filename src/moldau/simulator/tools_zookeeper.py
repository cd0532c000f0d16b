"""Tools of the ZooKeeper era, run during faults: they write znodes without asking the controller, and do not wait.

Topics made and deleted, replicas moved, preferred leaders asked for, configs changed. What must come of it is checked
at quiescence. Source: Kafka 2.x's kafka-topics, kafka-configs, kafka-reassign-partitions and
kafka-preferred-replica-election.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.model import TopicPartition
from moldau.model.value import replace
from moldau.ports.zookeeper import Create, Op, Set
from moldau.simulator.cluster_observer_zookeeper import ZooKeeperObserver
from moldau.simulator.cluster_zookeeper import CHROOT, ZooKeeperCluster
from moldau.simulator.zookeeper_servers import ZnodeChange
from moldau.zookeeper import paths
from moldau.zookeeper.notes import config_change_json, config_json, preferred_election_json, reassignment_json
from moldau.zookeeper.znodes import ReplicaAssignment, TopicZnode, topic_json

RETENTIONS = ("60000", "86400000")


class Tools:
    """``made``: topics that a tool made and none deleted; ``gone``: those asked to be deleted; ``settings``: topic ->
    retention.ms asked for last. A name that was deleted is taken again now and then, as soon as the topic's znodes are
    gone: the request to delete it may still stand.
    """

    def __init__(self, cluster: ZooKeeperCluster, observer: ZooKeeperObserver) -> None:
        self.cluster, self.observer = cluster, observer
        self.rng = cluster.stream("tools")
        self.made: dict[str, None] = {}
        self.gone: dict[str, None] = {}
        self.settings: dict[str, str] = {}
        self._deleted: dict[str, None] = {}
        self._awaited: dict[str, str] = {}
        cluster.ensemble.witnesses.append(self._saw)
        self._number = 0

    def use(self) -> bool:
        """Do one thing; whether it was done."""
        if not any(self.cluster.ensemble.serves(server) for server in self.cluster.ensemble.servers):
            return False
        return self.rng.choice((self._make, self._make, self._delete, self._move, self._elect, self._set))()

    def _stands(self, path: str) -> bool:
        return CHROOT + path in self.cluster.ensemble.tree.znodes

    def _write(self, what: str, *ops: Create | Set) -> bool:
        self.cluster.record_event(f"a tool {what}")
        for op in ops:
            self.cluster.ensemble.commit(0, [replace(op, path=CHROOT + op.path)])
        return True

    def _make(self) -> bool:
        free = [name for name in self.gone if self._is_free(name)]
        if free and self.rng.random() < 0.5:
            return self._make_one(self.rng.choice(free))
        self._number += 1
        return self._make_one(f"k{self._number}")

    def _is_free(self, name: str) -> bool:
        """Whether nothing stands under a name that a tool would find when it makes a topic."""
        return not self._stands(paths.topic(name)) and not self._stands(paths.config(f"topics/{name}"))

    def _make_one(self, name: str) -> bool:
        brokers = list(self.cluster.plan.brokers)
        assigned = {}
        for number in range(self.rng.randint(1, 2)):
            self.rng.shuffle(brokers)
            assigned[number] = ReplicaAssignment(tuple(brokers[: self.rng.randint(2, 3)]))
        again = " again" if name in self.gone else ""
        self.gone.pop(name, None)
        self.made[name] = None
        topic = topic_json(TopicZnode(name, None, assigned))
        settings = Create(path=paths.config(f"topics/{name}"), data=config_json({}))
        return self._write(f"creates topic {name}{again}", settings, Create(path=paths.topic(name), data=topic))

    def _delete(self) -> bool:
        there = [name for name in self.made if self._stands(paths.topic(name))]
        if not there:
            return False
        name = self.rng.choice(there)
        if self._stands(paths.delete_topic(name)):
            return False
        del self.made[name]
        self.gone[name] = self._deleted[name] = None
        self.settings.pop(name, None)
        if self.rng.random() < 0.5:
            self._awaited[CHROOT + paths.topic(name)] = name
        return self._write(f"deletes topic {name}", Create(path=paths.delete_topic(name)))

    def _saw(self, session: int, ops: Sequence[Op], changes: Sequence[ZnodeChange]) -> None:
        """A topic goes that is to be made again: within milliseconds, as by a script that waits for nothing else."""
        for change in changes:
            name = self._awaited.pop(change.path, None) if change.data is None else None
            if name is not None:
                self.cluster.loop.call_later(0.02 * self.rng.random(), self._make_again, name)

    def _make_again(self, name: str) -> None:
        if name in self.gone and self._is_free(name):
            self._make_one(name)

    def _move(self) -> bool:
        found = [(topic, number) for topic in self.observer.image.topics.values() for number in topic.partitions]
        if not found or self._stands(paths.REASSIGN_PARTITIONS):
            return False
        topic, number = self.rng.choice(found)
        if topic.name.startswith("__"):
            return False
        brokers = list(self.cluster.plan.brokers)
        self.rng.shuffle(brokers)
        target = tuple(brokers[: len(topic.partitions[number].original_replicas)])
        where = TopicPartition(topic.name, number)
        return self._write(
            f"moves {where} to {list(target)}",
            Create(path=paths.REASSIGN_PARTITIONS, data=reassignment_json({where: target})),
        )

    def _elect(self) -> bool:
        if self._stands(paths.PREFERRED_ELECTION):
            return False
        wanted = [TopicPartition(t.name, n) for t in self.observer.image.topics.values() for n in t.partitions]
        return self._write(
            "elects preferred leaders", Create(path=paths.PREFERRED_ELECTION, data=preferred_election_json(wanted))
        )

    def _set(self) -> bool:
        there = [name for name in self.made if self._stands(paths.config(f"topics/{name}"))]
        if not there:
            return False
        name, value = self.rng.choice(there), self.rng.choice(RETENTIONS)
        self.settings[name] = value
        entity = f"topics/{name}"
        written = Set(path=paths.config(entity), data=config_json({"retention.ms": value}))
        note = Create(path=paths.NEW_CONFIG_CHANGE, data=config_change_json(entity), sequential=True)
        return self._write(f"sets retention.ms={value} of {name}", written, note)

    def undone(self) -> list[str]:
        """C8, C13 at quiescence: what was asked for is so, and no request is left. A deletion waits for a broker that
        stays dead and has a replica (TD-1)."""
        image = self.observer.image
        waits = {
            topic.name
            for topic in image.topics.values()
            for one in topic.partitions.values()
            if any((host := self.cluster.hosts.get(id)) is not None and host.node is None for id in one.replicas)
        }
        broken = [f"C13: topic {name}, made by a tool, is not there" for name in self.made if name not in image.names]
        broken += [
            f"C8: topic {name}, which a tool deleted, is there"
            for name in self.gone
            if name in image.names and name not in waits
        ]
        for name, value in self.settings.items():
            if image.config(2, name).get("retention.ms") != value:
                broken.append(f"C13: retention.ms of {name} is {image.config(2, name)}, a tool set {value}")
        for name in self.made.keys() - self.settings.keys():
            if image.config(2, name):
                broken.append(f"C8: {name} has settings of the topic that had its name: {image.config(2, name)}")
        asked = [paths.delete_topic(name) for name in self._deleted if name not in waits]
        requests = (paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION, *asked)
        return broken + [f"Z7: {path} is still there: nobody handled it" for path in requests if self._stands(path)]
