"""What a decision is made from and made of: settings, facts of the moment, random numbers, and the decision itself.

Time, random bits and log offsets are facts handed in; nothing here asks the world. Read next: ``ledger.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from moldau.image import Image
from moldau.image.configs import Static, broker_setting, topic_value
from moldau.model import Code
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.named import NamedTuple
from moldau.model.value import field, value
from moldau.wire.schema import Message

T = TypeVar("T")

MAX_RECORDS = 10_000
"""Records that one request of a client may cause, as in Apache Kafka's controller."""
ELR_FEATURE = "eligible.leader.replicas.version"


class Problem(NamedTuple):
    """How an item of a request went: a code, and words for the human who asked."""

    code: Code
    message: str | None = None


FINE = Problem(Code.NONE)
TOO_MANY = Problem(Code.POLICY_VIOLATION, "Excessively large number of partitions per request.")


class BrokerSession(NamedTuple):
    """What the active controller remembers of a broker's heartbeats; lost with the controller role, and rightly so."""

    contact_ms: int
    metadata_offset: int = -1
    shutdown_offset: int = -1
    """Where the log ended when its controlled shutdown began; others must have read so far before it may go."""


@value(kw_only=True)
class Settings:
    """Static settings of the controller, each beside Kafka's key."""

    cluster_id: str = ""
    node_id: int = 0
    static: Static = field(default_factory=dict)
    """Keys and texts of server.properties; topic defaults are looked up here."""
    session_timeout_ms: int = 9000  # broker.session.timeout.ms
    rebalance_enable: bool = True  # auto.leader.rebalance.enable
    imbalance_percentage: int = 10  # leader.imbalance.per.broker.percentage
    delete_topic_enable: bool = True  # delete.topic.enable
    migrating: bool = False  # zookeeper.metadata.migration.enable
    max_elections: int = 1000
    """Leaders moved in one pass of the background rebalance."""
    max_records: int = MAX_RECORDS
    """Records that one request of a client may cause; more is refused (POLICY_VIOLATION)."""
    znode_bytes: int | None = None
    """What one znode can hold, where settings and assignments are written to znodes (jute.maxbuffer)."""
    epoch_for_each_change: bool = False
    """Whether a partition gets a new leader epoch when the controller takes a replica out of its ISR, and when a
    reassignment begins, changes or ends; in ZooKeeper mode also when a replica's directory fails or is back. In
    ZooKeeper mode and during a migration: a broker of Apache Kafka ignores LeaderAndIsr of the epoch that it has. It
    would keep the dead in the ISR, so that its acks=all producers wait for ever (KAFKA-15109), never let a replica that
    is added into it, and never change it again under a partition epoch that has passed."""
    deletions_wait: bool = False
    """Whether a topic is deleted only once none of its partitions moves and all its replicas are online (TD-1). In
    ZooKeeper mode: Kafka's ZooKeeper controller waits so, KRaft's deletes at once."""
    zookeeper_mode: bool = False
    """Whether decisions are those of Kafka's ZooKeeper controller where KRaft's differ: leaders are chosen by the
    selector for what happened, a partition that has no other leader keeps the one that wants to shut down (CS-1), a
    broker's death is one decision (LI-3), and replicas keep their order in a reassignment."""
    partitions_at_once: int = 100
    """Partitions that brokers leave, or that are elected for, in one decision: what a step of the loop should hold."""

    def number(self, image: Image, key: str) -> int:
        """A broker key's effective whole number (num.partitions, default.replication.factor)."""
        text = broker_setting(image, self.node_id, key, self.static).value
        return int(BROKER_KEYS[key].parse(text or ""))


class SoftState:
    """State of the controller role that is in no record: sessions, the clock of the last tick, ids of brokers that are
    ``leaving``: taken out of their partitions in parts (``parts.py``), and of those among them that are ``ending``: at
    the end of which they are fenced, registered anew or unregistered; ids of topics whose deletion waits (TD-1), and
    of those that have more partitions than the image, because some could not be read. Changed by the controller role
    only."""

    __slots__ = ("ending", "last_tick_ms", "leaving", "marked_for_deletion", "partly_read", "sessions", "settings")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sessions: dict[int, BrokerSession] = {}
        self.last_tick_ms: int | None = None
        self.leaving: set[int] = set()
        self.ending: set[int] = set()
        self.marked_for_deletion: frozenset[bytes] = frozenset()
        self.partly_read: frozenset[bytes] = frozenset()


@value(kw_only=True)
class Facts:
    """The moment of a request.

    now_ms: monotonic. next_offset: where the first record of the decision will stand in the log. seed: random bytes.
    observed: broker id -> metadata offset that the quorum saw it fetch, when it knows better than heartbeats.
    """

    now_ms: int
    next_offset: int
    seed: bytes = b""
    observed: Mapping[int, int] = field(default_factory=dict)


@value
class Decision:
    """Records to append atomically (maybe none), the reply once they are committed, and soft state to remember.

    ``then``: what is to be asked in a later turn of the loop, a part of the same. Without a reply here, its reply is
    the answer.
    """

    records: Sequence[Message]
    reply: object
    sessions: Mapping[int, BrokerSession | None] = field(default_factory=dict)
    then: object = None


class SeededRng:
    """Random numbers that follow from a seed: SHA-256 in counter mode, so that a decision is a function of its
    facts."""

    __slots__ = ("_count", "_seed")

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._count = 0

    def _block(self) -> bytes:
        self._count += 1
        from hashlib import sha256  # OpenSSL's, which a start has no use for

        return sha256(self._seed + self._count.to_bytes(8, "big")).digest()

    def below(self, n: int) -> int:
        """A whole number in [0, n)."""
        return int.from_bytes(self._block()[:8], "big") % n

    def shuffle(self, items: list[T]) -> None:
        """Fisher-Yates, in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def uuid(self) -> bytes:
        """A random (version 4) id as Kafka draws them: none of the reserved, and its text does not start with "-"."""
        while True:
            id = bytearray(self._block()[:16])
            id[6] = id[6] & 0x0F | 0x40
            id[8] = id[8] & 0x3F | 0x80
            if id[0] >> 2 != 62:  # base64 digit 62 is "-", which reads as an option on a command line
                return bytes(id)


class DecisionContext:
    """One look at the world for one decision: image, soft state, facts, and per-topic settings looked up once.

    ``parts_done``: the request was cut into parts, and these are done. What they left is decided at once, however much.
    """

    __slots__ = ("_min_isr", "_unclean", "facts", "image", "parts_done", "rng", "settings", "soft_state")

    def __init__(self, image: Image, soft_state: SoftState, facts: Facts, *, parts_done: bool = False) -> None:
        self.parts_done = parts_done
        self.image = image
        self.soft_state = soft_state
        self.facts = facts
        self.settings = soft_state.settings
        self.rng = SeededRng(facts.seed + facts.next_offset.to_bytes(8, "big"))
        self._min_isr: dict[str, int] = {}
        self._unclean: dict[str, bool] = {}

    @property
    def elr(self) -> bool:
        """Whether eligible leader replicas are kept (KIP-966)."""
        return self.image.features.get(ELR_FEATURE, 0) > 0

    def min_isr(self, topic: str) -> int:
        """min.insync.replicas of a topic, not yet capped by the number of its replicas."""
        return _once(self._min_isr, topic, lambda: int(self._value(topic, "min.insync.replicas")))

    def unclean(self, topic: str) -> bool:
        """Whether unclean elections are allowed for a topic."""
        return _once(self._unclean, topic, lambda: bool(self._value(topic, "unclean.leader.election.enable")))

    def _value(self, topic: str, key: str) -> Any:  # Any: a setting's value has the type of its key
        return topic_value(self.image, topic, key, self.settings.static)

    def stale(self, broker_id: int, epoch: int) -> bool:
        """Whether a request comes from a broker that is not, or no longer, registered under that epoch."""
        broker = self.image.brokers.get(broker_id)
        return broker is None or broker.epoch != epoch

    def leads_on(self, broker_id: int) -> bool:
        """Whether a broker goes on leading what nobody else can lead, although it wants to shut down (CS-1)."""
        broker = self.image.brokers.get(broker_id)
        return self.settings.zookeeper_mode and broker is not None and not broker.fenced

    def default_directory(self, broker_id: int) -> bytes:
        """Where a new replica goes: the broker's one directory, or undecided when it has several (KIP-858)."""
        from moldau.image.partition import MIGRATING, UNASSIGNED

        broker = self.image.brokers.get(broker_id)
        if broker is None or not broker.log_dirs:
            return MIGRATING
        return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED


def _once(table: dict[str, T], key: str, look_up: Callable[[], T]) -> T:
    if key not in table:
        table[key] = look_up()
    return table[key]
