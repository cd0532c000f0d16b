"""Who votes: replicas by (id, directory id), and the voter set as a value.

The directory id (KIP-853) tells a replaced disk from the one that voted; voters listed by hand (``1@host:9093``)
have none, and then the id alone decides. The set never changes while a node runs.
"""

from __future__ import annotations

from moldau.terms import NO_UUID
from moldau.terms.named import NamedTuple
from moldau.terms.value import value


class ReplicaKey(NamedTuple):
    """One replica of the metadata log; ``directory_id`` is ``NO_UUID`` where it is not known."""

    id: int
    directory_id: bytes = NO_UUID

    def fits(self, other: ReplicaKey) -> bool:
        """Whether both may name the same replica: an unknown directory id fits any."""
        if self.id != other.id:
            return False
        return NO_UUID in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id


class Endpoint(NamedTuple):
    """Where a voter listens, by listener name."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """A voter and where it is reached."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()


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
        """Whether this very replica votes (a wiped disk with a new directory id does not)."""
        return any(voter.key.fits(replica) for voter in self.voters)

    def others(self, me: ReplicaKey) -> tuple[Voter, ...]:
        return tuple(voter for voter in self.voters if voter.key.id != me.id)
