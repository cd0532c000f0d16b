"""What a replica keeps beside its log: ``quorum-state`` and the snapshots, in the metadata log's own folder.

quorum-state is Kafka's JSON, in version 0 while kraft.version is 0 and in 1 then, replaced atomically and durably. A
snapshot is ``<end offset>-<epoch>.checkpoint``; while it is being written or fetched it has another ending, and a start
removes what never got its real name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from moldau.broker.kraft.batches import is_whole
from moldau.broker.kraft.peers import EPOCH_MAX
from moldau.model import NO_UUID, uuid_bytes, uuid_text
from moldau.ports import Disk
from moldau.quorum import ElectionState, OffsetAndEpoch, ReplicaKey
from moldau.storage.errors import BrokenFile
from moldau.storage.folder import NO_FILE, put_aside
from moldau.wire.batch import headers

QUORUM_STATE = "quorum-state"
PART = ".part"
DAMAGED = ".damaged"
HEAD_BYTES = 4096
"""Enough of a snapshot for its first batch, which has its header only."""
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")


class BrokenQuorumState(Exception):
    """quorum-state cannot be read: a vote may be forgotten, so the node must not take part."""


_LAST_ID = 0x7FFFFFFF


def format_election(election: ElectionState, voters: Iterable[int] | None = None) -> bytes:
    """The JSON of version 0 where ``voters`` are given, else of version 1. A vote with a directory id is kept with it:
    version 0 has no place for that."""
    voted = election.voted
    state: dict[str, object] = {
        "leaderId": -1 if election.leader is None else election.leader,
        "leaderEpoch": election.epoch,
        "votedId": -1 if voted is None else voted.id,
    }
    if voters is not None and (voted is None or voted.directory_id == NO_UUID):
        named = [{"voterId": id} for id in voters]
        state = {"clusterId": "", **state, "appliedOffset": 0, "currentVoters": named, "data_version": 0}
    else:
        state["votedDirectoryId"] = uuid_text(NO_UUID if voted is None else voted.directory_id)
        state["data_version"] = 1
    return json.dumps(state, separators=(",", ":")).encode()


def parse_election(data: bytes, path: str) -> ElectionState:
    """The election state in a file of version 0 or 1; BrokenQuorumState names what is wrong."""
    try:
        state = json.loads(data)
        version = state["data_version"]
        if version not in (0, 1):
            raise BrokenQuorumState(f"{path}: data_version {version} is not known; 0 and 1 are")
        leader, voted = int(state["leaderId"]), int(state["votedId"])
        directory = uuid_bytes(state["votedDirectoryId"]) if version == 1 else NO_UUID
        epoch = int(state["leaderEpoch"])
        # Beyond EPOCH_MAX all others would refuse to speak to it, and it would ask them for ever, 13 lines a second.
        if not 0 <= epoch <= EPOCH_MAX or max(leader, voted) > _LAST_ID:
            raise ValueError(f"epoch {epoch}, leader {leader} and vote {voted} are not all possible")
        return ElectionState(
            epoch,
            None if leader < 0 else leader,
            None if voted < 0 else ReplicaKey(voted, directory),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BrokenQuorumState(
            f"{path} is not a quorum state: {error!r}. It keeps the vote of this node, which might vote twice in an"
            " epoch without it. Put a copy of the file back; or, while the other controllers are up and have a leader,"
            " move its folder aside: the metadata are fetched anew"
        ) from error


class QuorumFiles:
    """The small files of one replica; ``folder`` is the metadata log's."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder

    def path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def snapshot_path(self, point: OffsetAndEpoch) -> str:
        return self.path(f"{point.offset:020d}-{point.epoch:010d}.checkpoint")

    def read_election(self) -> ElectionState:
        """What is on record; nothing yet is epoch 0 without leader or vote."""
        path = self.path(QUORUM_STATE)
        return parse_election(self._disk.read(path), path) if self._disk.exists(path) else ElectionState()

    def write_election(self, election: ElectionState, voters: Iterable[int] | None = None) -> None:
        """Durably, before anything depends on it. ``voters``: while kraft.version is 0."""
        self._disk.write_atomic(self.path(QUORUM_STATE), format_election(election, voters))

    def snapshots(self) -> list[OffsetAndEpoch]:
        """The snapshots that have their names, oldest first."""
        found = [match for name in self._disk.list_dir(self._folder) if (match := _SNAPSHOT.match(name)) is not None]
        return sorted(OffsetAndEpoch(int(match[1]), int(match[2])) for match in found)

    def tidy(self) -> tuple[list[OffsetAndEpoch], list[str]]:
        """The whole snapshots, oldest first, and what was found wrong. At the start only: later on what is half
        written is being written.

        What is half written is removed. A damaged snapshot gets another name: nobody starts from it or is sent it, and
        an older one or the log may say the same. BrokenFile for the one that formatting made, which nothing else can
        replace: the first voters may be in it.
        """
        whole, findings = [], []
        for name in self._disk.list_dir(self._folder):
            if name.endswith(PART):
                try:
                    self._disk.remove(self.path(name))
                except IsADirectoryError as error:
                    findings.append(put_aside(self._disk, self.path(name), error))
        for point in self.snapshots():
            path = self.snapshot_path(point)
            if self._is_whole(point):
                whole.append(point)
            elif point.offset == 0:
                raise BrokenFile(f"{path} is damaged; format the folder of the metadata log anew, or put the file back")
            else:
                self._disk.rename(path, path + DAMAGED)
                findings.append(f"{path} is damaged and not used; it is called ...{DAMAGED} now")
        return whole, findings

    def _is_whole(self, point: OffsetAndEpoch) -> bool:
        """Whether a snapshot can be used; not what stands in its place and is no file, unless it is the first."""
        try:
            return is_whole(self._disk.read(self.snapshot_path(point)))
        except OSError as error:
            if error.errno not in NO_FILE or point.offset == 0:
                raise
            return False

    def read_snapshot(self, point: OffsetAndEpoch) -> bytes:
        return self._disk.read(self.snapshot_path(point))

    def snapshot_size(self, point: OffsetAndEpoch) -> int:
        return self._disk.size(self.snapshot_path(point))

    def snapshot_ms(self, point: OffsetAndEpoch) -> int:
        """When a snapshot was taken, on the wall clock: its first batch says."""
        _, first = next(headers(self.read_piece(point, 0, HEAD_BYTES)))
        return first.max_timestamp

    def read_piece(self, point: OffsetAndEpoch, position: int, size: int) -> bytes:
        file = self._disk.open(self.snapshot_path(point))
        try:
            return file.pread(size, position)
        finally:
            file.close()

    def write_piece(self, point: OffsetAndEpoch, position: int, data: bytes) -> None:
        """A piece of a snapshot that is being fetched."""
        file = self._disk.open(self.snapshot_path(point) + PART, create=True)
        try:
            if position == 0:
                file.truncate(0)
            file.pwrite([data], position)
        finally:
            file.close()

    def fetched(self, point: OffsetAndEpoch, size: int) -> bytes:
        """The first ``size`` bytes of a snapshot that is being fetched."""
        file = self._disk.open(self.snapshot_path(point) + PART)
        try:
            return file.pread(size, 0)
        finally:
            file.close()

    def write_part(self, point: OffsetAndEpoch, batches: Iterable[bytes]) -> None:
        """A whole snapshot, still under its temporary name; may run off the loop."""
        file = self._disk.open(self.snapshot_path(point) + PART, create=True)
        try:
            file.truncate(0)
            position = 0
            for batch in batches:
                position += file.pwrite([batch], position)
        finally:
            file.close()

    def check_part(self, point: OffsetAndEpoch) -> None:
        """BrokenFile when a snapshot that was fetched is not what its maker wrote; may run off the loop."""
        path = self.snapshot_path(point) + PART
        if not is_whole(self._disk.read(path)):
            raise BrokenFile(f"{path} was fetched and is damaged: look for the file of that name at the controllers")

    def forget_part(self, point: OffsetAndEpoch) -> None:
        """Remove what there is of a snapshot that could not be written."""
        self._disk.remove(self.snapshot_path(point) + PART)

    def freeze(self, point: OffsetAndEpoch) -> None:
        """Give a written snapshot its name, durably; may run off the loop."""
        path = self.snapshot_path(point)
        file = self._disk.open(path + PART)
        try:
            file.sync()
        finally:
            file.close()
        self._disk.rename(path + PART, path)
        self._disk.sync_dir(self._folder)

    def drop(self, points: Iterable[OffsetAndEpoch]) -> None:
        for point in points:
            self._disk.remove(self.snapshot_path(point))
