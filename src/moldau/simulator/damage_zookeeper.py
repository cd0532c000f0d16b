"""Damage to znodes: garbage, extreme numbers and impossible names are written where Kafka's state stands.

It damages only what is its own: topics that it makes for that, requests, notifications, and configs of entities that
nothing uses. So the law is the same as without it: no broker's process ends, and everything else is served and handled.
Folders that it removes are those that controllers and brokers read. Read next: tools_zookeeper.py, which writes what is
right.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from moldau.model.value import replace
from moldau.ports.zookeeper import Create, Delete, Op, Set, ZooKeeperError
from moldau.simulator.cluster_zookeeper import CHROOT, ZooKeeperCluster
from moldau.zookeeper import paths

NUMBERS: tuple[object, ...] = (
    -(2**63),
    -(2**31) - 1,
    -2,
    -1,
    0,
    2**31 - 1,
    2**31,
    2**32 + 1,
    2**63,
    10**30,
    1.5,
    True,
    None,
    "1",
    [],
    {},
)
GARBAGE = (
    b"",
    b"\xff\xfe\x00",
    b"null",
    b"[]",
    b"1" * 5_000,
    b"[" * 5_000,
    b'{"version":1}',
    b'{"version":1,"partitions":{"0":[1],"0x":[2]}}',
    b'{"version":2,"partitions":{"0":["\xed\xa0\x80"]}}',
    b'{"version":1,"config":{"retention.ms":"\\ud800"}}',
)
SETTINGS = (
    "retention.ms",
    "segment.bytes",
    "cleanup.policy",
    "max.message.bytes",
    "min.insync.replicas",
    "no.such.key",
)
REMOVABLE = (paths.DELETE_TOPICS, paths.CONFIG_CHANGES, paths.ISR_NOTES, paths.LOG_DIR_EVENTS)


class ZnodeDamage:
    """``made``: how many topics it has made."""

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        self.cluster = cluster
        self.rng = cluster.stream("damage to znodes")
        self.made = 0
        self._written: dict[str, None] = {}
        self._actions = (
            self._topic, self._state, self._settings, self._config_note, self._isr_note, self._failed_dir,
            self._request, self._broker, self._folder, self._child,
        )  # fmt: skip

    def do(self) -> bool:
        """Damage one thing; whether it was done."""
        if not any(self.cluster.ensemble.serves(server) for server in self.cluster.ensemble.servers):
            return False
        what, ops = self.rng.choice(self._actions)()
        try:
            for op in ops:
                self.cluster.ensemble.commit(0, [replace(op, path=CHROOT + op.path)])
        except ZooKeeperError:
            return False  # the znode was there before, or has children
        self.cluster.record_event(f"somebody's hand {what}")
        return True

    # ---- what it writes

    def _number(self) -> object:
        return self.rng.choice(NUMBERS)

    def _data(self, **fields: object) -> bytes:
        """Garbage, or JSON with what cannot be in some of its fields."""
        if self.rng.random() < 0.4:
            return self.rng.choice(GARBAGE)
        for name in fields:
            if self.rng.random() < 0.5:
                fields[name] = self._number()
        return json.dumps(fields).encode()

    def _put(self, path: str, data: bytes) -> Op:
        there = CHROOT + path in self.cluster.ensemble.tree.znodes
        self._written[path] = None
        return Set(path=path, data=data) if there else Create(path=path, data=data)

    def _name(self) -> str:
        self.made += 1
        return f"damaged{self.made}"

    def take_back(self) -> None:
        """Remove what it has written, where that is still there; settings as a tool does, which says so.

        What it would take to judge a cluster in which garbage stands is what the nodes do: so the judges see one in
        which it stood.
        """
        znodes = self.cluster.ensemble.tree.znodes
        for path in self._written:
            if CHROOT + path not in znodes:
                continue
            for below in sorted((one for one in znodes if one.startswith(f"{CHROOT}{path}/")), reverse=True):
                self.cluster.ensemble.commit(0, [Delete(path=below)])
            gone: list[Op] = [Delete(path=CHROOT + path)]
            if path.startswith(paths.CONFIG):
                note = json.dumps({"version": 2, "entity_path": path.removeprefix(f"{paths.CONFIG}/")}).encode()
                if CHROOT + paths.CONFIG_CHANGES not in znodes:
                    gone.append(Create(path=CHROOT + paths.CONFIG_CHANGES, data=b""))
                gone.append(Create(path=CHROOT + paths.NEW_CONFIG_CHANGE, data=note, sequential=True))
            self.cluster.ensemble.commit(0, gone)
        if self._written:
            self.cluster.record_event("somebody takes back what that hand wrote")

    # ---- what it damages

    def _topic(self) -> tuple[str, Sequence[Op]]:
        name = self.rng.choice((self._name(), "what cannot be a name", "n" * 250, "\u540d"))
        assigned = {str(n): [self._number() for _ in range(3)] for n in range(self.rng.randint(0, 2))}
        moving = {number: [self._number()] for number in assigned if self.rng.random() < 0.5}
        data = self._data(version=2, partitions=assigned, adding_replicas=moving, removing_replicas={}, topic_id="x")
        return f"writes topic {name[:20]}", [self._put(paths.topic(name), data)]

    def _state(self) -> tuple[str, Sequence[Op]]:
        """A topic whose state was damaged before any controller saw it: no replica leads it."""
        name, brokers = self._name(), list(self.cluster.plan.brokers)
        topic = json.dumps({"version": 1, "partitions": {"0": [brokers[0]]}}).encode()
        data = self._data(
            version=self._number(), leader=self._number(), leader_epoch=self._number(), controller_epoch=1,
            isr=[self._number()],
        )  # fmt: skip
        if self.rng.random() < 0.5:  # each number could stand there, and only all of them together could not
            isr = self.rng.choice(([], [99], [brokers[1]], [brokers[0]], brokers[:2]))
            values = {"leader": self.rng.choice((-1, 99, *brokers[:2])), "isr": isr, "leader_epoch": 1}
            values |= {"leader_recovery_state": self.rng.randint(0, 1), "controller_epoch": 1, "version": 1}
            data = json.dumps(values).encode()
        above = paths.topic(name)
        self._written[above] = None
        empty = [Create(path=path, data=b"") for path in (f"{above}/partitions", f"{above}/partitions/0")]
        state = Create(path=paths.state(name, 0), data=data)
        garbage = Create(path=above, data=b"being written"), Set(path=above, data=topic)
        return f"writes topic {name} and its state", [garbage[0], *empty, state, garbage[1]]

    def _settings(self) -> tuple[str, Sequence[Op]]:
        entity = f"topics/{self._name()}" if self.rng.random() < 0.7 else f"brokers/{self.rng.choice((77, 'x'))}"
        given = {
            key: self.rng.choice(("abc", "-7", str(2**63), "", "1")) for key in SETTINGS if self.rng.random() < 0.5
        }
        data = self._data(version=1, config=given)
        note = json.dumps({"version": 2, "entity_path": entity}).encode()
        written = self._put(paths.config(entity), data)
        return f"writes settings of {entity}", [
            written,
            Create(path=paths.NEW_CONFIG_CHANGE, data=note, sequential=True),
        ]

    def _config_note(self) -> tuple[str, Sequence[Op]]:
        data = self._data(version=self.rng.choice((1, 2)), entity_path="topics/none", entity_type="topics")
        return "writes a note of settings", [Create(path=paths.NEW_CONFIG_CHANGE, data=data, sequential=True)]

    def _isr_note(self) -> tuple[str, Sequence[Op]]:
        data = self._data(version=1, partitions=[{"topic": "none", "partition": self._number()}])
        return "writes a note of ISRs", [Create(path=paths.NEW_ISR_NOTE, data=data, sequential=True)]

    def _failed_dir(self) -> tuple[str, Sequence[Op]]:
        data = self._data(version=1, broker=99, event=1)
        return "writes a note of directories", [Create(path=paths.NEW_LOG_DIR_EVENT, data=data, sequential=True)]

    def _request(self) -> tuple[str, Sequence[Op]]:
        path = self.rng.choice((paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION, paths.delete_topic("none")))
        data = self._data(version=1, partitions=[{"topic": "none", "partition": self._number(), "replicas": [99]}])
        return f"writes {path}", [Create(path=path, data=data)]

    def _broker(self) -> tuple[str, Sequence[Op]]:
        """Not one of the cluster's: that is its session's."""
        id = self.rng.choice(("99", "-1", "x", "007", str(2**31)))
        data = self._data(version=5, host="h", port=self._number(), endpoints=[self._number()], rack=None)
        return f"writes broker {id}", [self._put(f"{paths.BROKER_IDS}/{id}", data)]

    def _folder(self) -> tuple[str, Sequence[Op]]:
        path = self.rng.choice(REMOVABLE)
        return f"removes {path}", [Delete(path=path)]

    def _child(self) -> tuple[str, Sequence[Op]]:
        """Something below a topic that is in use; it is to go with it."""
        above = f"{CHROOT}{paths.TOPICS}/"
        inside = sorted(one for one in self.cluster.ensemble.tree.znodes if one.startswith(above))
        if not inside:
            return self._folder()
        path = f"{self.rng.choice(inside).removeprefix(CHROOT)}/foreign"
        return f"writes {path}", [self._put(path, b"")]
