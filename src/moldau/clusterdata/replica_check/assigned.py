"""Who should have a replica of what, by the metadata logs that lie among log directories."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.clusterdata.metadata import MetadataError, Point, files, image_at
from moldau.model import TopicPartition


def assigned(paths: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of each partition by the metadata logs in the folders; none when there is none to read."""
    newest, found = -2, dict[TopicPartition, tuple[int, ...]]()
    for path in paths:
        try:
            image = image_at(files(path), Point())
        except (MetadataError, FileNotFoundError):
            continue
        if image.offset > newest:
            newest = image.offset
            found = {
                TopicPartition(topic.name, number): one.replicas
                for topic in image.topics.values()
                for number, one in topic.partitions.items()
            }
    return found
