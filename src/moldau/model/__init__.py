"""Nouns that every package shares: partitions, ids, error codes. Imports nothing of Moldau."""

from moldau.model.codes import Code
from moldau.model.ids import NO_UUID, TopicPartition, uuid_bytes, uuid_text

__all__ = ["NO_UUID", "Code", "TopicPartition", "uuid_bytes", "uuid_text"]
