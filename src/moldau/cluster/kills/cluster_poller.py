"""``ClusterPoller`` asks each node, without waiting for any: who leads, who is in sync, who is the controller.

Asks once over plain connections (no retries, no cache), so that the time at which an answer changes is the cluster's
and not a client's patience. Decides nothing. Read next: ``killing.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from moldau.client.admin import METADATA_LOG
from moldau.client.lines import ConnectionOptions, UnsupportedApi, shake_hands
from moldau.client.sockets import SocketLine, drive
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.wire.codec import Malformed
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest
from moldau.wire.messages.k56_alter_partition import AlterPartitionRequest
from moldau.wire.schema import Request, ResponseT

_OPTIONS = ConnectionOptions(client_id="kills", request_timeout_ms=1_000, connect_timeout_ms=1_000)
Address = tuple[str, int]


class System(Protocol):
    """The cluster under test: combined nodes on this machine."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def brokers(self) -> Mapping[int, Address]:
        """Node id -> where clients reach it."""

    @property
    def controllers(self) -> Mapping[int, Address]:
        """Node id -> its controller listener; empty where brokers are the candidates (the ZooKeeper plane)."""

    def kill(self, node: int) -> None:
        """kill -9; the process is gone when this returns."""

    def restart(self, node: int) -> None:
        """Start it again, on the same ports and folder, without waiting."""

    def stop(self) -> None:
        """A controlled shutdown of every node."""

    def close(self) -> None:
        """End what still runs."""

    def data_dir(self, node: int) -> Path:
        """Its ``log.dirs``."""


class PartitionLeader(NamedTuple):
    """A partition as one broker answers."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


class ControllerView(NamedTuple):
    """The active controller and the quorum, as it answers itself."""

    node: int
    epoch: int
    high_watermark: int


class ClusterPoller:
    """Connections to every listener, opened when they are needed and dropped when they break."""

    def __init__(self, system: System, topic: str) -> None:
        self._system = system
        self._topic = topic
        self._lines: dict[Address, SocketLine] = {}

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    def views(self, nodes: Collection[int]) -> dict[int, dict[int, PartitionLeader]]:
        """Return node -> partition -> its answer, of those nodes that answer."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False
        )
        found = {}
        for node in nodes:
            response = self._ask(self._system.brokers[node], request)
            if response is not None and response.topics and response.topics[0].error_code == Code.NONE:
                found[node] = {
                    p.partition_index: PartitionLeader(
                        p.leader_id, p.leader_epoch, tuple(p.replica_nodes), frozenset(p.isr_nodes)
                    )
                    for p in response.topics[0].partitions
                }
        return found

    def newest(self, nodes: Collection[int]) -> dict[int, PartitionLeader]:
        """Return each partition as the broker with the newest leader epoch answers."""
        leads: dict[int, PartitionLeader] = {}
        for view in self.views(nodes).values():
            for partition, lead in view.items():
                if partition not in leads or lead.leader_epoch > leads[partition].leader_epoch:
                    leads[partition] = lead
        return leads

    def in_sync(self, nodes: Collection[int]) -> bool:
        """Return whether all these nodes answer that every replica is in its ISR under the same leaders."""
        views = list(self.views(nodes).values())
        return (
            len(views) == len(nodes)
            and all(view == views[0] for view in views)
            and bool(views[0])
            and all(lead.leader >= 0 and lead.isr == frozenset(lead.replicas) for lead in views[0].values())
        )

    def active_controller(self, nodes: Collection[int]) -> ControllerView | None:
        """Return the active controller, by asking the controllers: only the active one answers with an offset."""
        if not self._system.controllers:
            return next(self._active_brokers(nodes), None)
        part = DescribeQuorumRequest.PartitionData(partition_index=METADATA_LOG.partition)
        request = DescribeQuorumRequest(
            topics=[DescribeQuorumRequest.TopicData(topic_name=METADATA_LOG.topic, partitions=[part])]
        )
        return max(
            self._active_controllers(nodes, request),
            key=lambda active_controller: active_controller.epoch,
            default=None,
        )

    def _active_controllers(self, nodes: Collection[int], request: DescribeQuorumRequest) -> Iterator[ControllerView]:
        for node in nodes:
            response = self._ask(self._system.controllers[node], request)
            if response is None or response.error_code != Code.NONE or not response.topics:
                continue
            said = response.topics[0].partitions[0]
            if said.error_code == Code.NONE and said.leader_id == node and said.high_watermark >= 0:
                yield ControllerView(node, said.leader_epoch, said.high_watermark)

    def _active_brokers(self, nodes: Collection[int]) -> Iterator[ControllerView]:
        """Only the active controller knows that there is no broker -1; the others are not asked about brokers."""
        request = AlterPartitionRequest(broker_id=-1, broker_epoch=-1)
        for node in nodes:
            response = self._ask(self._system.brokers[node], request)
            if response is not None and response.error_code == Code.STALE_BROKER_EPOCH:
                yield ControllerView(node, 0, 0)

    def _ask(self, place: Address, request: Request[ResponseT]) -> ResponseT | None:
        try:
            line = self._lines.get(place)
            if line is None or line.closed:
                line = SocketLine(*place, _OPTIONS)
                self._lines[place] = line
                line.versions = drive(shake_hands(line, _OPTIONS, line.peer))
            return drive(_answer(line, request))
        except (OSError, Malformed, UnsupportedApi):
            line = self._lines.pop(place, None)
            if line is not None:
                line.close()
            return None


async def _answer(line: SocketLine, request: Request[ResponseT]) -> ResponseT:
    return await line.ask(request)
