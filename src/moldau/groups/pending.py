"""Changes that wait for their records to be committed: one per append, with whoever waits for it.

Read next: shard.py, where their outcomes arrive.
"""

from __future__ import annotations

from moldau.groups.facts import ShardReply, ShardRequest, Token
from moldau.groups.group import Member
from moldau.groups.records import StoredOffset
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.model.value import value


class SettledOffsets(NamedTuple):
    """Offsets committed (a value) or removed (None)."""

    group_id: str
    offsets: tuple[tuple[TopicPartition, StoredOffset | None], ...]


class HeldOffsets(NamedTuple):
    """Offsets that a transaction commits, or aborts."""

    producer_id: int
    offsets: SettledOffsets


class StoredAssignment(NamedTuple):
    """The leader's assignment of one generation."""

    group_id: str
    generation: int
    assignments: dict[str, bytes]


class StaticMember(NamedTuple):
    """A static member that came back to a stable group under another member id; ``before`` is what it was."""

    group_id: str
    member_id: str
    before: Member
    leader_before: str
    skip_assignment_understood: bool


class EmptyGroup(NamedTuple):
    """The generation in which the last member had gone."""

    group_id: str


class DeletedGroup(NamedTuple):
    """Tombstones of a group and all its offsets."""

    group_id: str


Change = SettledOffsets | HeldOffsets | StoredAssignment | StaticMember | EmptyGroup | DeletedGroup


class Waiting(NamedTuple):
    """Who waits, what it asked, and what it hears on success."""

    token: Token
    request: ShardRequest
    answer: ShardReply


@value(frozen=False)
class Pending:
    seq: int
    change: Change
    waiting: Waiting | None = None
