"""What became of batches, read from an answer: by the names of its request, whatever the client has heard since."""

from __future__ import annotations

from moldau.client.writing import BatchOutcome, names_of, read_written
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse

OLD = bytes([1]) * 16


def test_an_answer_that_names_the_topic_s_old_id_is_understood() -> None:
    """The topic was made anew, and the answer of another leader has told so before: it was no answer for the batch."""
    part = ProduceRequest.PartitionProduceData(index=1, records=b"")
    topic = ProduceRequest.TopicProduceData(name="t", topic_id=OLD, partition_data=[part])
    names = names_of(ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic]))
    told = ProduceResponse.PartitionProduceResponse(index=1, error_code=Code.UNKNOWN_TOPIC_ID, base_offset=-1)
    answer = ProduceResponse(
        responses=[ProduceResponse.TopicProduceResponse(name="", topic_id=OLD, partition_responses=[told])]
    )
    assert read_written(answer, names) == {TopicPartition("t", 1): BatchOutcome(Code.UNKNOWN_TOPIC_ID)}
