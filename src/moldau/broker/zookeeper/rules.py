"""By which rules a broker takes what a controller of ZooKeeper mode tells it, and a controller tells it.

Moldau's own, which take whatever is newer; what they mean is in ``translation.py``. The simulator plays brokers of
another kind beside it by other rules (``simulator/kafka_rules.py``). Decides nothing of its own.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from moldau.broker.zookeeper import translation
from moldau.broker.zookeeper.outcomes import RoleOutcome, StopOutcome
from moldau.image import Image
from moldau.image.partition import Key
from moldau.replication.partition import Partition
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.schema import Message


class Rules:
    """One broker's. Each method returns what the function of its name in ``translation.py`` does."""

    machine_class: type[Partition] = Partition
    """The class of its replicas' state machines."""
    sends_type = True
    """Whether its requests as a controller say in ``type`` whether they hold everything; those of Apache Kafka's
    controllers in ZooKeeper mode do not."""
    resends_when_stale = True
    """Whether, as a controller, it sends a request again that a broker answered with STALE_BROKER_EPOCH; Apache Kafka's
    controllers send it once."""

    def leader_and_isr(
        self, image: Image, me: int, request: LeaderAndIsrRequest, stopped: Container[Key]
    ) -> tuple[list[Message], list[RoleOutcome]]:
        return translation.leader_and_isr(image, me, request, stopped)

    def unnamed(self, image: Image, request: UpdateMetadataRequest) -> list[str]:
        return translation.unnamed(image, request)

    def update_metadata(
        self, image: Image, me: int, request: UpdateMetadataRequest, epochs: Mapping[int, int], gone: Iterable[str]
    ) -> list[Message]:
        return translation.update_metadata(image, me, request, epochs, gone)

    def stop_replica(
        self, image: Image, me: int, request: StopReplicaRequest
    ) -> tuple[list[Message], list[StopOutcome]]:
        return translation.stop_replica(image, me, request)
