"""WriteTxnMarkers: request and response, every version.

Api key 27. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class WriteTxnMarkersResponse(Message, key=27, versions=(0, 2), flexible=1):
    """Answers WriteTxnMarkers."""

    class WritableTxnMarkerResult(Struct):
        producer_id: int = at(0, "int64")
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = at(0, ["WritableTxnMarkerTopicResult"])

    class WritableTxnMarkerTopicResult(Struct):
        name: str = at(0, "string")
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = at(
            0, ["WritableTxnMarkerPartitionResult"]
        )

    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = at(0, ["WritableTxnMarkerResult"])


class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse], key=27, versions=(0, 2), flexible=1):
    """Asks WriteTxnMarkers."""

    class WritableTxnMarker(Struct):
        producer_id: int = at(0, "int64")
        producer_epoch: int = at(0, "int16")
        transaction_result: bool = at(0, "bool")
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = at(0, ["WritableTxnMarkerTopic"])
        coordinator_epoch: int = at(0, "int32")
        transaction_version: int = at(2, "int8")

    class WritableTxnMarkerTopic(Struct):
        name: str = at(0, "string")
        partition_indexes: list[int] = at(0, ["int32"])

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = at(0, ["WritableTxnMarker"])
