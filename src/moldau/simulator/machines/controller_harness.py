"""One controller whose proposals commit at once, and the image of all others; the laws run after every request.

Tests and scenes speak to it line by line; controller_play.py makes hundreds of requests. A log whose tail may be lost
is in active_controller_swarm.py.
"""

from __future__ import annotations

from typing import Any

from moldau.controller.active import ActiveController
from moldau.controller.facts import Facts, Settings
from moldau.controller.laws import LawChecker
from moldau.controller.requests import (
    AlterPartition,
    BrokerHeartbeat,
    BrokerRefused,
    CreateTopics,
    IsrChange,
    NewTopic,
    RegisterBroker,
    UnregisterBroker,
)
from moldau.image import Broker, Delta, Endpoint, Image, Partition
from moldau.model import Code
from moldau.simulator.machines.record import RunRecord

CLUSTER_ID = "a-simulated-cluster-AA"


class ControllerHarness:
    """Make requests; look at ``image``, ``records`` (of the last request) and ``delta``."""

    def __init__(
        self,
        brokers: int = 0,
        *,
        elr: bool = True,
        watch: bool = True,
        record: RunRecord | None = None,
        **settings: Any,  # Any: each field's own type
    ) -> None:
        self.record = record or RunRecord()
        self.now_ms = 1_000_000
        self.image = Image()
        self.next_offset = 0
        self._heard_ms: dict[int, int] = {}
        self._heard_by: Any = None
        self.records: list[Any] = []
        self.delta = Delta()
        self.watch = LawChecker(self.image, self.record.check) if watch else None
        self.controller = ActiveController(Settings(cluster_id=CLUSTER_ID, **settings))
        self.rounds = 0
        answer = self.controller.claim(1, self.image, self.facts())
        if not elr:
            bootstrap = [record for record in answer.records if getattr(record, "name", "") == "metadata.version"]
            answer = self.controller.claim(2, self.image, self.facts(), bootstrap)
        self.commit(answer.records)
        for id in range(brokers):
            self.add_broker(id)

    def facts(self, **fields: Any) -> Facts:
        return Facts(now_ms=self.now_ms, next_offset=self.next_offset, seed=b"seed", **fields)

    def submit(self, request: Any, **facts: Any) -> Any:  # Any: each request and reply has its own kind
        """Return the reply to a request, its records committed."""
        self.rounds += 1
        reply = self._submit(request, **facts)
        self._note(request, reply)
        return reply

    def _note(self, request: Any, reply: Any) -> None:  # Any: each request and reply has its own kind
        """Note whose heartbeats this controller got, apart from what it remembers itself."""
        id = getattr(request, "broker_id", None)
        if id is None:
            return
        if isinstance(request, (BrokerHeartbeat, RegisterBroker)) and reply.code == Code.NONE:
            self._heard_ms[id] = self.now_ms
        elif isinstance(request, (BrokerRefused, UnregisterBroker)):
            self._heard_ms.pop(id, None)

    def _heard(self) -> frozenset[int]:
        if self._heard_by is not self.controller.soft_state:  # another controller, which got no heartbeats yet
            self._heard_by = self.controller.soft_state
            self._heard_ms.clear()
        since_ms = self.now_ms - self.controller.settings.session_timeout_ms
        return frozenset(id for id, at_ms in self._heard_ms.items() if at_ms >= since_ms)

    def _submit(self, request: Any, **facts: Any) -> Any:  # Any: each request and reply has its own kind
        answer = self.controller.decide(request, self.facts(**facts))
        while answer.reply is None and answer.token is None:
            self.commit(answer.records, request)
            answer = self.controller.decide(answer.then, self.facts())
        if answer.then is not None:
            return self._in_parts(request, answer)
        ready = self.commit(answer.records, request)
        if answer.token is None:
            return answer.reply
        ((token, reply),) = ready
        assert token == answer.token
        return reply

    def _in_parts(self, request: Any, answer: Any) -> Any:  # Any: each request and reply has its own kind
        """Return the reply to a request that is decided in parts, when all are through."""
        ready = self.commit(answer.records, request)
        reply = answer.reply if answer.token is None else ready[0][1]
        self.submit(answer.then)
        return reply

    def commit(self, records: Any, request: Any = None) -> list[tuple[int, Any]]:  # Any: of any kind
        self.records = list(records)
        self.delta = Delta()
        if records:
            self.next_offset += len(records)
            self.image.apply_all(records, self.next_offset - 1, self.delta)
        if self.watch is not None:
            assert self.controller.working is not None
            self.watch.after(self.image, self.delta, request, self.controller.settings, heard=self._heard())
        return self.controller.committed(self.next_offset - 1)

    # ---- what tests do often

    def register(self, id: int, incarnation: int = 0, **fields: Any) -> Any:
        return self.submit(
            RegisterBroker(
                broker_id=id,
                cluster_id=CLUSTER_ID,
                incarnation_id=bytes([id, incarnation]) * 8,
                endpoints=(Endpoint("PLAINTEXT", "localhost", 9092 + id),),
                **{"log_dirs": (bytes([100 + id]) * 16,), **fields},
            )
        )

    def heartbeat(self, id: int, **fields: Any) -> Any:  # Any: fields have their own types
        epoch = self.image.brokers[id].epoch
        values = {"broker_epoch": epoch, "metadata_offset": self.next_offset - 1, **fields}
        return self.submit(BrokerHeartbeat(broker_id=id, **values))

    def add_broker(self, id: int, **fields: Any) -> None:
        assert self.register(id, **fields).code == 0
        assert not self.heartbeat(id).is_fenced

    def create(self, name: str, *assignments: tuple[int, ...], configs: dict[str, str] | None = None) -> bytes:
        topic = NewTopic(name=name, assignments=tuple(enumerate(assignments)), configs=tuple((configs or {}).items()))
        (result,) = self.submit(CreateTopics(topics=(topic,))).topics
        assert result.problem.code == 0, result
        return bytes(result.topic_id)

    def partition(self, name: str, number: int = 0) -> Partition:
        topic = self.image.topic(name)
        assert topic is not None
        return topic.partitions[number]

    def broker(self, id: int) -> Broker:
        return self.image.brokers[id]

    def set_isr(self, name: str, number: int, *isr: int, **fields: Any) -> Any:
        """Have the leader ask for an ISR, with all epochs right; return the code of the answer."""
        partition = self.partition(name, number)
        values = {
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "isr": tuple((id, self.image.brokers[id].epoch) for id in isr),
            **fields,
        }
        request = AlterPartition(
            broker_id=partition.leader,
            broker_epoch=self.image.brokers[partition.leader].epoch,
            changes=(IsrChange(key=partition.key, **values),),
        )
        (result,) = self.submit(request).partitions
        return result.code
