"""AddRaftVoter: request and response, every version.

Api key 80. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AddRaftVoterResponse(Message, key=80, versions=(0, 1)):
    """Answers AddRaftVoter."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)


class AddRaftVoterRequest(Request[AddRaftVoterResponse], key=80, versions=(0, 1)):
    """Asks AddRaftVoter."""

    class Listener(Struct):
        name: str = at(0, "string")
        host: str = at(0, "string")
        port: int = at(0, "uint16")

    cluster_id: str | None = at(0, "string", null=0)
    timeout_ms: int = at(0, "int32")
    voter_id: int = at(0, "int32")
    voter_directory_id: bytes = at(0, "uuid")
    listeners: list[AddRaftVoterRequest.Listener] = at(0, ["Listener"])
    ack_when_committed: bool = at(1, "bool", default=True)
