"""Where a partition's leader is, for answers that say "not here" (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from moldau.image import Image
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol


class NodeEndpoint(Protocol):
    """Where a node is, as a response says it."""

    node_id: int


LeaderT = TypeVar("LeaderT")
EndpointT = TypeVar("EndpointT", bound=NodeEndpoint)


class LeaderHint(NamedTuple):
    """The leader as the image has it; ``host`` is empty when it has no address on the asked listener."""

    id: int
    epoch: int
    host: str = ""
    port: int = 0
    rack: str | None = None

    def put_into(
        self, endpoints: list[EndpointT], endpoint: Callable[..., EndpointT], leader: Callable[..., LeaderT]
    ) -> LeaderT:
        """Put its address among the ``endpoints`` of a response, unless another partition did; the ``leader`` for
        this partition's part of it is returned."""
        if self.host and all(known.node_id != self.id for known in endpoints):
            endpoints.append(endpoint(node_id=self.id, host=self.host, port=self.port, rack=self.rack))
        return leader(leader_id=self.id, leader_epoch=self.epoch)


def leader_of(image: Image, topic: str, topic_id: bytes, number: int, listener: str) -> LeaderHint | None:
    """The leader of a partition named by id or, when the id is zero, by its topic's name; None when there is none."""
    known = image.topics.get(topic_id) or image.topic(topic)
    partition = None if known is None else known.partitions.get(number)
    if partition is None or partition.leader < 0:
        return None
    broker = image.brokers.get(partition.leader)
    endpoint = None if broker is None or broker.fenced else broker.endpoint(listener)
    if broker is None or endpoint is None:
        return LeaderHint(partition.leader, partition.leader_epoch)
    return LeaderHint(partition.leader, partition.leader_epoch, endpoint.host, endpoint.port, broker.rack)
