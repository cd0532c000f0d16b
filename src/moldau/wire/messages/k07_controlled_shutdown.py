"""ControlledShutdown: request and response, every version.

Api key 7. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ControlledShutdownResponse(Message, key=7, versions=(0, 3), flexible=3):
    """Answers ControlledShutdown."""

    class RemainingPartition(Struct):
        topic_name: str = at(0, "string")
        partition_index: int = at(0, "int32")

    error_code: int = at(0, "int16")
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = at(0, ["RemainingPartition"])


class ControlledShutdownRequest(Request[ControlledShutdownResponse], key=7, versions=(0, 3), flexible=3):
    """Asks ControlledShutdown."""

    broker_id: int = at(0, "int32")
    broker_epoch: int = at(2, "int64", default=-1)
