"""Values of the control records that the quorum writes into its log and snapshots.

Source: KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class LeaderChangeMessage(Message, versions=(0, 1)):
    """Value of a control record of the metadata log."""

    class Voter(Struct):
        voter_id: int = at(0, "int32")
        voter_directory_id: bytes = at(1, "uuid")

    version: int = at(0, "int16")
    leader_id: int = at(0, "int32")
    voters: list[LeaderChangeMessage.Voter] = at(0, ["Voter"])
    granting_voters: list[LeaderChangeMessage.Voter] = at(0, ["Voter"])


class SnapshotHeaderRecord(Message, versions=(0, 0)):
    """Value of a control record of the metadata log."""

    version: int = at(0, "int16")
    last_contained_log_timestamp: int = at(0, "int64")


class SnapshotFooterRecord(Message, versions=(0, 0)):
    """Value of a control record of the metadata log."""

    version: int = at(0, "int16")


class KRaftVersionRecord(Message, versions=(0, 0)):
    """Value of a control record of the metadata log."""

    version: int = at(0, "int16")
    k_raft_version: int = at(0, "int16")


class VotersRecord(Message, versions=(0, 0)):
    """Value of a control record of the metadata log."""

    class Voter(Struct):
        voter_id: int = at(0, "int32")
        voter_directory_id: bytes = at(0, "uuid")
        endpoints: list[VotersRecord.Endpoint] = at(0, ["Endpoint"])
        k_raft_version_feature: VotersRecord.KRaftVersionFeature = at(0, "KRaftVersionFeature")

    class Endpoint(Struct):
        name: str = at(0, "string")
        host: str = at(0, "string")
        port: int = at(0, "uint16")

    class KRaftVersionFeature(Struct):
        min_supported_version: int = at(0, "int16")
        max_supported_version: int = at(0, "int16")

    version: int = at(0, "int16")
    voters: list[VotersRecord.Voter] = at(0, ["Voter"])
