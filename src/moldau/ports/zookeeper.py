"""ZooKeeper as a control plane sees it: one session, its znodes and watches. Protocols, events, errors; nothing acts.

Production gives ``moldau.zookeeper.session`` (kazoo), the simulator its own server. All calls run on the node's loop;
a watch fires once, on the loop, after the change it tells of and before any later read of this session shows it.
Paths are relative to the chroot. Read next: ``moldau.zookeeper.znodes`` (what stands in them).
Source: ZooKeeper Programmer's Guide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from moldau.model.named import NamedTuple
from moldau.model.value import value


class Link(Enum):
    """What is known of the session. SUSPENDED is not LOST: the server may still hold the session and its ephemerals."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class Happened(Enum):
    """What a watch tells."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class Stat(NamedTuple):
    """What the server says of a znode. ``version`` counts changes of its data; the ids are transaction ids (zxid),
    ``pzxid`` that of the last change of its list of children."""

    czxid: int
    mzxid: int
    version: int
    ephemeral_owner: int
    pzxid: int = 0


class ZooKeeperError(Exception):
    """A refused or failed operation; ``path`` is the znode that it was about."""

    def __init__(self, path: str, why: str = "") -> None:
        super().__init__(f"{path}: {why or type(self).__name__}")
        self.path = path


class NoNode(ZooKeeperError):
    """There is no such znode, or no parent to create it under."""


class NodeExists(ZooKeeperError):
    """The znode is there already."""


class BadVersion(ZooKeeperError):
    """The znode changed since: a conditional write, delete or check failed."""


class NotEmpty(ZooKeeperError):
    """The znode has children."""


class NoAuth(ZooKeeperError):
    """An ACL denies it: the znode's, or its parent's for what creates or deletes."""

    def __init__(self, path: str, why: str = "") -> None:
        super().__init__(path, why or "not allowed, by the ACL of this znode or of its parent")


class ConnectionLoss(ZooKeeperError):
    """No answer came: the operation may or may not have happened."""


class SessionExpired(ZooKeeperError):
    """The session is over, and its ephemeral znodes with it; a new one must be opened."""


@value(kw_only=True)
class Create:
    """Create a znode, in a ``multi`` or alone."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@value(kw_only=True)
class Set:
    """Replace a znode's data; ``version`` -1 means whatever it is."""

    path: str
    data: bytes
    version: int = -1


@value(kw_only=True)
class Delete:
    """Delete a znode without children; ``version`` -1 means whatever it is."""

    path: str
    version: int = -1


@value(kw_only=True)
class CheckVersion:
    """In a ``multi``: fail unless the znode is at this version."""

    path: str
    version: int


Op = Create | Set | Delete | CheckVersion
Watch = Callable[[Happened, str], object]


@value(kw_only=True)
class Ensemble:
    """Where ZooKeeper is and how long to wait for it. ``connect``: ``host:port,...`` with a chroot or without."""

    connect: str
    session_timeout_ms: int
    connection_timeout_ms: int


class ZooKeeper(Protocol):
    """One session. Every call raises the errors above; after SessionExpired only ``reopen`` helps."""

    @property
    def session_id(self) -> int:
        """Id of the present session, as ``Stat.ephemeral_owner`` shows it; 0 before ``start``."""

    @property
    def session_timeout_ms(self) -> int:
        """How long the servers keep it when they hear nothing: within their bounds, whatever was asked for."""

    async def start(self) -> None:
        """Connect and open a session; ConnectionLoss when no server answers in the connection time-out."""

    async def reopen(self) -> None:
        """Open a new session after the old one was LOST. Watches of the old one never fire."""

    async def stop(self) -> None:
        """Close the session; its ephemeral znodes vanish at once."""

    def on_link(self, listener: Callable[[Link], object]) -> None:
        """Be told of every change of the link, on the loop, in order."""

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """A znode's data; NoNode (then no watch is left)."""

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """None when there is no such znode; the watch then waits for its creation."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names of the children, sorted; NoNode."""

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Many znodes at once, pipelined; None for each that is not there."""

    async def create(
        self, path: str, data: bytes | None = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """The path created (with its number, if sequential); NodeExists, NoNode (no parent). Without data (None) it is
        null to clients that tell that from empty; ``get`` gives b"" for both."""

    async def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        """NoNode, BadVersion."""

    async def delete(self, path: str, version: int = -1) -> None:
        """NoNode, BadVersion, NotEmpty."""

    async def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        """All or nothing: a path per Create, a Stat per Set, None for others. Else the failed op's error."""

    async def sync(self, path: str = "/") -> None:
        """Later reads see everything that was committed before this call."""


OpenZooKeeper = Callable[[Ensemble], ZooKeeper]
