"""RemoveRaftVoter: request and response, every version.

Api key 81. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class RemoveRaftVoterResponse(Message, key=81, versions=(0, 0)):
    """Answers RemoveRaftVoter."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)


class RemoveRaftVoterRequest(Request[RemoveRaftVoterResponse], key=81, versions=(0, 0)):
    """Asks RemoveRaftVoter."""

    cluster_id: str | None = at(0, "string", null=0)
    voter_id: int = at(0, "int32")
    voter_directory_id: bytes = at(0, "uuid")
