"""What goes into and comes out of the machine: asks, outcomes of appends, replies, effects. Values only.

A request carries every fact that the decision needs, chance included (``fresh_id``), already translated from its wire
version. Read next: shard.py (the one mutator); records.py (what is stored).
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum

from moldau.groups.records import Record, StoredOffset
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple

Token = Hashable
"""The shell's handle on a waiting client: opaque here, answered at most once."""


class Now(NamedTuple):
    """The two clocks of a step: deadlines count on the monotonic one, records are stamped with the wall."""

    monotonic_ms: int
    wall_ms: int


class Protocol(NamedTuple):
    """One way of assigning that a member offers, with the member's own data for it."""

    name: str
    metadata: bytes


# --- requests ---------------------------------------------------------------------------------------------------------


class Join(NamedTuple):
    """JoinGroup. ``member_id`` "" asks for a new one, made from ``fresh_id`` (a random uuid's text)."""

    group_id: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str
    fresh_id: str
    known_member_id_required: bool = True  # KIP-394, version 4 and later
    skip_assignment_understood: bool = True  # KIP-814, version 9 and later


class SyncGroup(NamedTuple):
    """SyncGroup; ``assignments`` come from the leader only. Null protocol fields are not checked (before version 5)."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


class Heartbeat(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


class Leaver(NamedTuple):
    """Who leaves: a member id, or (by an administrator) an instance id with member id ""."""

    member_id: str
    instance_id: str | None = None


class Leave(NamedTuple):
    group_id: str
    leavers: tuple[Leaver, ...]


class CommitItem(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class OffsetCommit(NamedTuple):
    """OffsetCommit. Generation -1 is a consumer outside group management, or an administrator.

    ``retention_ms`` is None for the broker's own (always so from version 5, KIP-211). ``unknown_group_code`` is what a
    member of a group that is not there hears: GROUP_ID_NOT_FOUND from version 9, ILLEGAL_GENERATION before (KIP-848).
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    items: tuple[CommitItem, ...]
    retention_ms: int | None = None
    unknown_group_code: Code = Code.ILLEGAL_GENERATION


class TransactionalWriter(NamedTuple):
    """Who writes in a transaction."""

    id: int
    epoch: int


class TxnCommit(NamedTuple):
    """TxnOffsetCommit: offsets that count once the producer's transaction is committed. Without member id and
    generation (-1) the client is older than KIP-447, and is not checked."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    items: tuple[CommitItem, ...]
    producer: TransactionalWriter


class FetchOffsets(NamedTuple):
    """OffsetFetch of one group; ``items`` None asks for all, of which ``most`` are answered."""

    group_id: str
    items: tuple[TopicPartition, ...] | None
    require_stable: bool = False  # KIP-447
    most: int = 1_000


class DeleteOffsets(NamedTuple):
    group_id: str
    items: tuple[TopicPartition, ...]


class Describe(NamedTuple):
    group_id: str


class ListGroups(NamedTuple):
    """Filters are compared without case (KIP-518 states, KIP-848 types); empty lets everything pass."""

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


class DeleteGroup(NamedTuple):
    group_id: str


GroupRequest = (
    Join | SyncGroup | Heartbeat | Leave
    | OffsetCommit | TxnCommit | FetchOffsets | DeleteOffsets | Describe | DeleteGroup
)  # fmt: skip
ShardRequest = GroupRequest | ListGroups


# --- events without a client ------------------------------------------------------------------------------------------


class AppendCommitted(NamedTuple):
    """These appends are on all in-sync replicas: each is named, so that none is taken for committed that is in no log.

    May still come after an append's deadline was answered with an error.
    """

    seqs: tuple[int, ...]


class AppendRefused(NamedTuple):
    """The append ``seq`` is in no log and never will be (law S19): roll back."""

    seq: int
    code: Code


class TopicsDeleted(NamedTuple):
    """These topics are gone: their offsets go too, lest a topic of the same name inherit them."""

    topics: frozenset[str]


class TransactionEnded(NamedTuple):
    """The marker of a producer's transaction is on all in-sync replicas."""

    producer_id: int
    commits: bool


class Timer(Enum):
    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"
    APPEND = "append"
    EXPIRY = "expiry"


class TimerKey(NamedTuple):
    kind: Timer
    group_id: str = ""
    member_id: str = ""
    seq: int = 0


class Expired(NamedTuple):
    """A deadline that was scheduled under ``key`` has come; the machine knows whether it still means something."""

    key: TimerKey


Event = AppendCommitted | AppendRefused | TopicsDeleted | TransactionEnded | Expired


# --- effects ----------------------------------------------------------------------------------------------------------


class Reply(NamedTuple):
    token: Token
    value: ShardReply


class Append(NamedTuple):
    """Write the records in one batch with acks=all, then feed back ``AppendCommitted``, or ``AppendRefused(seq, code)``
    when nothing was written. Appends must reach the log in the order in which they are given, and a refusal must be fed
    back before anything appended later can be committed."""

    seq: int
    records: tuple[Record, ...]


class AppendInTransaction(NamedTuple):
    """As ``Append``, in a batch of the producer's transaction."""

    seq: int
    records: tuple[Record, ...]
    producer: TransactionalWriter


class Schedule(NamedTuple):
    """Feed back ``Expired(key)`` at ``deadline_ms`` on the monotonic clock. Never called off: stale ones do nothing."""

    deadline_ms: int
    key: TimerKey


Effect = Reply | Append | AppendInTransaction | Schedule


# --- replies ----------------------------------------------------------------------------------------------------------


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinReply(NamedTuple):
    code: Code
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncReply(NamedTuple):
    code: Code
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class HeartbeatReply(NamedTuple):
    code: Code


class LeaveReply(NamedTuple):
    """One code per leaver, in the order asked; ``code`` is for the whole request."""

    code: Code
    leavers: tuple[tuple[Leaver, Code], ...] = ()


class CommitReply(NamedTuple):
    """One code per item, in the order asked."""

    codes: tuple[Code, ...]


class FetchedOffset(NamedTuple):
    topic: str
    partition: int
    stored: StoredOffset | None
    code: Code = Code.NONE


class FetchReply(NamedTuple):
    """``rest``: committed too, and left to be asked for by name, where all were asked for and are many."""

    code: Code
    items: tuple[FetchedOffset, ...] = ()
    rest: tuple[TopicPartition, ...] = ()


class DeleteOffsetsReply(NamedTuple):
    """``codes`` per item in the order asked, empty when ``code`` refuses the whole."""

    code: Code
    codes: tuple[Code, ...] = ()


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribeReply(NamedTuple):
    """A group that is not there is "Dead" with ``found`` False and Code.NONE (the wire tells it by version)."""

    code: Code
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
    found: bool = False


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str = "classic"


class ListReply(NamedTuple):
    code: Code
    groups: tuple[ListedGroup, ...] = ()


class DeleteGroupReply(NamedTuple):
    code: Code


ShardReply = (
    JoinReply | SyncReply | HeartbeatReply | LeaveReply | CommitReply | FetchReply | DeleteOffsetsReply
    | DescribeReply | ListReply | DeleteGroupReply
)  # fmt: skip


def refuse(request: ShardRequest, code: Code) -> ShardReply:
    """The reply that refuses a request as a whole."""
    match request:
        case Join():
            return JoinReply(code, member_id=request.member_id)
        case SyncGroup():
            return SyncReply(code)
        case Heartbeat():
            return HeartbeatReply(code)
        case Leave():
            return LeaveReply(code)
        case OffsetCommit() | TxnCommit():
            return CommitReply((code,) * len(request.items))
        case FetchOffsets():
            return FetchReply(code)
        case DeleteOffsets():
            return DeleteOffsetsReply(code)
        case Describe():
            return DescribeReply(code)
        case ListGroups():
            return ListReply(code)
        case DeleteGroup():
            return DeleteGroupReply(code)
