"""Voters: replicas by (id, directory id), and the voter set as a value.

The directory id (KIP-853) tells a replaced disk from the one that voted; static voters (``1@host:9093``) have none, and
then the id alone decides. A set decided in the log counts from the moment it is appended, committed or not;
``VoterLog`` remembers those before it, for a truncation takes it back. Who may change the set, and when:
``changes.py``.
"""

from __future__ import annotations

from moldau.model import NO_UUID
from moldau.model.named import NamedTuple
from moldau.model.value import value


class ReplicaKey(NamedTuple):
    """One replica of the metadata log; ``directory_id`` is ``NO_UUID`` where it is not known."""

    id: int
    directory_id: bytes = NO_UUID

    def fits(self, other: ReplicaKey) -> bool:
        """Whether both may name the same replica: an unknown directory id fits any."""
        if self.id != other.id:
            return False
        return NO_UUID in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id


class VoterEndpoint(NamedTuple):
    """Where a voter listens, by listener name."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """A voter, where it is reached, and the lowest and highest kraft.version that it speaks."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_versions: tuple[int, int] = (0, 1)


@value
class VoterSet:
    """The voters, ordered by id.

    >>> VoterSet.of(3, 1, 2).ids
    (1, 2, 3)
    """

    voters: tuple[Voter, ...]

    @classmethod
    def of(cls, *ids: int) -> VoterSet:
        """Voters known by id alone."""
        return cls(tuple(Voter(ReplicaKey(id)) for id in sorted(ids)))

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.key.id for voter in self.voters)

    def holds(self, replica: ReplicaKey) -> bool:
        """Return whether this very replica votes (a wiped disk with a new directory id does not)."""
        return any(voter.key.fits(replica) for voter in self.voters)

    def others(self, me: ReplicaKey) -> tuple[Voter, ...]:
        return tuple(voter for voter in self.voters if voter.key.id != me.id)

    def voter(self, id: int) -> Voter | None:
        return next((voter for voter in self.voters if voter.key.id == id), None)

    def with_voter(self, voter: Voter) -> VoterSet:
        """With a voter added, or put in the place of the one of its id."""
        rest = [one for one in self.voters if one.key.id != voter.key.id]
        return VoterSet(tuple(sorted([*rest, voter], key=lambda one: one.key.id)))

    def without(self, id: int) -> VoterSet:
        return VoterSet(tuple(voter for voter in self.voters if voter.key.id != id))


class VotersAt(NamedTuple):
    """A voter set and the offset of the record that decided it; -1: from the checkpoint that formatting made."""

    offset: int
    voters: VoterSet


@value
class VoterLog:
    """The voter sets that the log has decided (kraft.version 1), oldest first, and the static one before them.

    >>> log = VoterLog().appended(4, VoterSet.of(1, 2), VoterSet.of(1)).appended(9, VoterSet.of(1, 2, 3), VoterSet(()))
    >>> log.current.ids, log.truncated(9).current.ids, log.truncated(4).current.ids
    ((1, 2, 3), (1, 2), (1,))
    """

    given: VoterSet = VoterSet(())
    entries: tuple[VotersAt, ...] = ()

    @property
    def current(self) -> VoterSet:
        return self.entries[-1].voters if self.entries else self.given

    @property
    def before(self) -> VoterSet:
        """The set that the newest one follows."""
        return self.entries[-2].voters if len(self.entries) > 1 else self.given

    def at(self, end: int) -> VoterSet | None:
        """The newest set that the log decides below ``end``, if any."""
        return next((entry.voters for entry in reversed(self.entries) if entry.offset < end), None)

    @property
    def offset(self) -> int:
        """Where the newest set stands; -1 when it does not stand in the log."""
        return self.entries[-1].offset if self.entries else -1

    def appended(self, offset: int, voters: VoterSet, present: VoterSet) -> VoterLog:
        """With a set decided at ``offset``; ``present`` is the static one, if this is the first."""
        given = self.given if self.entries else present
        return VoterLog(given, (*self.entries, VotersAt(offset, voters)))

    def truncated(self, end: int) -> VoterLog:
        return VoterLog(self.given, tuple(entry for entry in self.entries if entry.offset < end))

    def trimmed(self, start: int) -> VoterLog:
        """Without the sets that another one replaced below ``start``."""
        below = [entry for entry in self.entries if entry.offset < start]
        return VoterLog(self.given, (*below[-1:], *(entry for entry in self.entries if entry.offset >= start)))
