"""UpdateRaftVoter: request and response, every version.

Api key 82. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class UpdateRaftVoterResponse(Message, key=82, versions=(0, 0)):
    """Answers UpdateRaftVoter."""

    class CurrentLeader(Struct):
        leader_id: int = at(0, "int32", default=-1)
        leader_epoch: int = at(0, "int32", default=-1)
        host: str = at(0, "string")
        port: int = at(0, "int32")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    current_leader: UpdateRaftVoterResponse.CurrentLeader = at(0, "CurrentLeader", tag=0)


class UpdateRaftVoterRequest(Request[UpdateRaftVoterResponse], key=82, versions=(0, 0)):
    """Asks UpdateRaftVoter."""

    class Listener(Struct):
        name: str = at(0, "string")
        host: str = at(0, "string")
        port: int = at(0, "uint16")

    class KRaftVersionFeature(Struct):
        min_supported_version: int = at(0, "int16")
        max_supported_version: int = at(0, "int16")

    cluster_id: str | None = at(0, "string", null=0)
    current_leader_epoch: int = at(0, "int32")
    voter_id: int = at(0, "int32")
    voter_directory_id: bytes = at(0, "uuid")
    listeners: list[UpdateRaftVoterRequest.Listener] = at(0, ["Listener"])
    k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = at(0, "KRaftVersionFeature")
