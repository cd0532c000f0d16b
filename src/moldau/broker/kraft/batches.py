"""Batches of the metadata log and of snapshots: made from records, and read back.

Metadata records stand one per log record, framed as KIP-631 says; control records (LeaderChange, snapshot header and
footer, voters) are the quorum's own and never reach a listener.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from moldau.controller.feature_support import UnsupportedLevel, newer_than_supported
from moldau.image.prepared import Prepared
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.quorum import ReplicaKey, Voter, VoterEndpoint, VotersAt, VoterSet
from moldau.quorum.effects import AppendVoters
from moldau.wire.batch import BatchHeader, ControlType, Entry, build, check, control_key, control_type, headers, records
from moldau.wire.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from moldau.wire.records.framing import pack_metadata, unpack_metadata
from moldau.wire.records.metadata import FeatureLevelRecord
from moldau.wire.schema import Buffer, Message

RECORDS_PER_BATCH = 500
"""In snapshots; the log has one batch per proposal, because a proposal is atomic."""


class NewerLevel(UnsupportedLevel):
    """The metadata log has a feature level whose records this version may not know; the text says what to do."""


class Decided(NamedTuple):
    """One batch of metadata records: in log order, the last at ``offset``."""

    records: Sequence[Message]
    offset: int
    epoch: int


def proposal(proposed: Sequence[Message], offset: int, epoch: int, wall_ms: int) -> bytes:
    """One atomic batch of metadata records."""
    if isinstance(proposed, Prepared) and proposed.packed is not None:
        proposed.packed.stamp(wall_ms)
        return proposed.packed.finish(base_offset=offset, leader_epoch=epoch)
    entries = [(wall_ms, None, pack_metadata(record), ()) for record in proposed]
    return build(entries, base_offset=offset, leader_epoch=epoch)


def leader_change(
    message: LeaderChangeMessage, offset: int, epoch: int, wall_ms: int, voters: VoterSet | None = None
) -> bytes:
    """The control batch that opens an epoch. Version 0: voters by id. With the voter set that it copies, if any."""
    entries: list[Entry] = [(wall_ms, control_key(ControlType.LEADER_CHANGE), message.encode(0), ())]
    if voters is not None:
        entries += _voters(voters, wall_ms, upgrades=True)
    return build(entries, base_offset=offset, leader_epoch=epoch, control=True)


def voter_change(effect: AppendVoters, wall_ms: int) -> bytes:
    """The control batch that decides a voter set (KIP-853)."""
    entries = _voters(effect.voters, wall_ms, upgrades=effect.upgrades)
    return build(entries, base_offset=effect.offset - effect.upgrades, leader_epoch=effect.epoch, control=True)


def _voters(voters: VoterSet, wall_ms: int, *, upgrades: bool) -> list[Entry]:
    entries: list[Entry] = []
    if upgrades:
        version = KRaftVersionRecord(k_raft_version=1).encode(0)
        entries.append((wall_ms, control_key(ControlType.KRAFT_VERSION), version, ()))
    entries.append((wall_ms, control_key(ControlType.KRAFT_VOTERS), to_record(voters).encode(0), ()))
    return entries


def to_record(voters: VoterSet) -> VotersRecord:
    """The record of a voter set."""
    return VotersRecord(
        voters=[
            VotersRecord.Voter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    VotersRecord.Endpoint(name=one.name, host=one.host, port=one.port) for one in voter.endpoints
                ],
                k_raft_version_feature=VotersRecord.KRaftVersionFeature(
                    min_supported_version=voter.kraft_versions[0], max_supported_version=voter.kraft_versions[1]
                ),
            )
            for voter in voters.voters
        ]
    )


def to_voters(record: VotersRecord) -> VoterSet:
    """The voter set of a record."""
    return VoterSet(
        tuple(
            Voter(
                ReplicaKey(one.voter_id, bytes(one.voter_directory_id)),
                tuple(VoterEndpoint(where.name, where.host, where.port) for where in one.endpoints),
                (one.k_raft_version_feature.min_supported_version, one.k_raft_version_feature.max_supported_version),
            )
            for one in sorted(record.voters, key=lambda voter: voter.voter_id)
        )
    )


def decided(data: bytes) -> Iterator[Decided]:
    """Every batch in ``data``; control batches as empty ones. Malformed names a record that is not known: never
    skipped. NewerLevel names a feature level after which there may be some.
    """
    return (batch for batch in decided_in_slices(data, len(data)) if batch is not None)


def decided_in_slices(data: bytes, at_once: int) -> Iterator[Decided | None]:
    """As ``decided``, with None for a pause after so many records of a batch."""
    for position, header in headers(data):
        found: list[Message] = []
        for record in () if header.is_control else records(data, position):
            if found and len(found) % at_once == 0:
                yield None
            found.append(_readable(unpack_metadata(record.value or b"")))
        yield Decided(found, header.last_offset, header.leader_epoch)


def _readable(record: Message) -> Message:
    """The record; NewerLevel when it announces records that may not be known here."""
    if type(record) is FeatureLevelRecord:
        why = newer_than_supported(record.name, record.feature_level)
        if why is not None:
            raise NewerLevel(why)
    return record


def snapshot(contents: Iterable[Message], epoch: int, wall_ms: int, voters: VoterSet | None = None) -> Iterator[bytes]:
    """The batches of a snapshot file: header, voter set if it has one (KIP-853), records, footer (KIP-630)."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=wall_ms).encode(0)
    yield _control(ControlType.SNAPSHOT_HEADER, header, 0, epoch, wall_ms)
    offset = 1
    if voters is not None:
        version = KRaftVersionRecord(k_raft_version=1).encode(0)
        yield _control(ControlType.KRAFT_VERSION, version, 1, epoch, wall_ms)
        yield _control(ControlType.KRAFT_VOTERS, to_record(voters).encode(0), 2, epoch, wall_ms)
        offset = 3
    entries: list[Entry] = []
    for record in contents:
        entries.append((wall_ms, None, pack_metadata(record), ()))
        if len(entries) == RECORDS_PER_BATCH:
            yield build(entries, base_offset=offset, leader_epoch=epoch)
            offset += len(entries)
            entries = []
    if entries:
        yield build(entries, base_offset=offset, leader_epoch=epoch)
        offset += len(entries)
    yield _control(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord().encode(0), offset, epoch, wall_ms)


def _control(type: int, value: bytes, offset: int, epoch: int, wall_ms: int) -> bytes:
    entry = (wall_ms, control_key(type), value, ())
    return build([entry], base_offset=offset, leader_epoch=epoch, control=True)


def voters_in(data: Buffer) -> list[VotersAt]:
    """The voter sets among the control records of whole batches, of a log or of a snapshot (KIP-853)."""
    found = []
    for position, header in headers(data):
        if header.is_control:
            for record in records(data, position):
                if control_type(record.key) == ControlType.KRAFT_VOTERS:
                    voters = to_voters(VotersRecord.decode(record.value or b"", 0))
                    found.append(VotersAt(record.offset, voters))
    return found


def is_whole(data: bytes) -> bool:
    """Whether snapshot bytes end with their footer, and each batch is what was written, by its checksum."""
    last: tuple[int, BatchHeader] | None = None
    end = 0
    for position, header in headers(data):
        if check(data, position, header) is not Code.NONE:
            return False
        last = (position, header)
        end = position + header.size
    if last is None or end != len(data) or not last[1].is_control:
        return False
    return any(control_type(record.key) == ControlType.SNAPSHOT_FOOTER for record in records(data, last[0]))
