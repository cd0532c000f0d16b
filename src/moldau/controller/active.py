"""The controller role of the active controller: the working image, soft state, and replies that wait for their records'
commit.

Decisions are made on what was *proposed* and told when it is *committed* (C4). A read that saw proposed state waits
for it too. Who is deposed forgets all of it: whoever waits is told NOT_CONTROLLER, and nothing of the old session
acts afterwards (C5). Pure: its driver (``broker/controller/service.py``) proposes the records to a plane and feeds back
offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from moldau.controller.batched import RemainingItems
from moldau.controller.bounds import too_large, too_many
from moldau.controller.facts import BrokerSession, Decision, Facts, Settings, SoftState
from moldau.controller.features import bootstrap_records, is_empty, with_agreed_min_isr
from moldau.controller.ledger import decide
from moldau.controller.replies import Done, Refused
from moldau.controller.requests import BrokerHeartbeat, RemainingPartitions, Tick
from moldau.image import Image
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.wire.records.metadata import AbortTransactionRecord
from moldau.wire.schema import Message

_DEPOSED = Refused(Code.NOT_CONTROLLER, "This node is not the active controller.")
_LONGEST_TICK_MS = 1000
"""Time between two ticks above which the controller role itself was asleep, and silence proves nothing (KAFKA-15019).
"""


class ControllerResult(NamedTuple):
    """What came of a request. ``token`` is None when ``reply`` holds already; otherwise ``committed`` returns it later.

    ``then`` is to be asked in a later turn; with neither token nor reply, what comes of that is the answer.
    """

    records: Sequence[Message]
    token: int | None
    reply: Any = None  # Any: each request has a reply of its own
    then: object = None


class _Waiting(NamedTuple):
    offset: int
    token: int
    reply: object
    rest: RemainingItems | None = None
    """What it was the end of, when it was decided in parts."""


class ActiveController:
    """One node's controller; holds something only while the node is active."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.epoch: int | None = None
        self.working: Image | None = None
        self.soft_state = SoftState(settings)
        self.committed_offset = -1
        self._waiting: deque[_Waiting] = deque()
        self._parts: deque[tuple[int, RemainingItems]] = deque()
        """Where the parts end that are not committed yet, of requests that go on."""
        self._denied: tuple[RemainingItems, Refused] | None = None
        self._tokens = 0
        self._last_proposed = -1

    @property
    def active(self) -> bool:
        return self.epoch is not None

    def contact_ms(self, broker_id: int) -> int | None:
        """When a broker was last heard of, or granted a session; None when it has none."""
        session = self.soft_state.sessions.get(broker_id)
        return None if session is None else session.contact_ms

    def claim(
        self, epoch: int, image: Image, facts: Facts, bootstrap: Sequence[Message] | None = None
    ) -> ControllerResult:
        """Begin to decide under ``epoch`` on a copy of the committed image.

        Every unfenced broker gets a fresh session: what they told the last controller is not known here. An empty log
        gets its first records (``bootstrap``, or the usual ones), which the driver proposes. A metadata transaction
        that a controller of Apache Kafka has left open is aborted: nothing would count before its end (KIP-868).
        """
        assert self.epoch is None or epoch > self.epoch, f"epoch {epoch} after {self.epoch}"
        self.renounce()
        self.epoch = epoch
        self.working = image.copy()
        self.soft_state = SoftState(self.settings)
        self.soft_state.last_tick_ms = facts.now_ms
        self.committed_offset = self._last_proposed = facts.next_offset - 1
        for broker in self.working.live_brokers():
            self.soft_state.sessions[broker.id] = BrokerSession(facts.now_ms)
        records: list[Message] = []
        if self.working.in_transaction:
            records.append(AbortTransactionRecord(reason="the controller that began it is active no more"))
        if is_empty(self.working):
            records += (
                bootstrap_records(self.settings) if bootstrap is None else with_agreed_min_isr(self.settings, bootstrap)
            )
        return self._take(Decision(records, Done()), facts)

    def decide(self, request: object, facts: Facts) -> ControllerResult:
        """Decide one request. The driver proposes ``records`` (if any) at ``facts.next_offset``, at once, in this
        order."""
        if self._denied is not None and self._denied[0] is request:
            return ControllerResult([], None, self._denied[1])
        if self.working is None:
            return ControllerResult([], None, _DEPOSED)
        if isinstance(request, Tick):
            self._forgive_own_sleep(facts.now_ms)
        if (refusal := too_many(request, self.settings.max_records)) is not None:
            return ControllerResult([], None, refusal)
        decision = decide(self.working, self.soft_state, request, facts)
        if (refusal := too_large(decision.records)) is not None:
            return ControllerResult([], None, refusal)
        if isinstance(request, RemainingPartitions) and request.is_through:
            self._note_leaving(request, set.difference_update)
        if isinstance(decision.then, RemainingPartitions):
            self._note_leaving(decision.then, set.update)
        return self._take(decision, facts, request if isinstance(request, RemainingItems) else None)

    def _note_leaving(self, parts: RemainingPartitions, change: Callable[[set[int], Iterable[int]], None]) -> None:
        ids = [id for id, _ in parts.leaving]
        change(self.soft_state.leaving, ids)
        if not isinstance(parts.then, BrokerHeartbeat):  # else it lives, and is being emptied only
            change(self.soft_state.ending, ids)

    def _take(self, decision: Decision, facts: Facts, rest: RemainingItems | None = None) -> ControllerResult:
        assert self.working is not None
        for broker_id, session in decision.sessions.items():
            if session is None:
                self.soft_state.sessions.pop(broker_id, None)
            else:
                self.soft_state.sessions[broker_id] = session
        if decision.records:
            assert facts.next_offset > self._last_proposed, f"{facts.next_offset} is taken"
            self._last_proposed = facts.next_offset + len(decision.records) - 1
            self.working.apply_all(decision.records, self._last_proposed)
            if isinstance(decision.then, RemainingItems):
                self._parts.append((self._last_proposed, decision.then))
        elif self._last_proposed <= self.committed_offset and decision.reply is not None:
            return ControllerResult([], None, decision.reply, decision.then)
        if decision.reply is None:
            assert decision.then is not None, "a request without a reply"
            return ControllerResult(decision.records, None, None, decision.then)
        self._tokens += 1
        self._waiting.append(_Waiting(self._last_proposed, self._tokens, decision.reply, rest))
        return ControllerResult(decision.records, self._tokens, then=decision.then)

    def committed(self, offset: int) -> list[tuple[int, object]]:
        """The log is committed up to ``offset``: (token, reply) of every request that is now true, in order."""
        self.committed_offset = max(self.committed_offset, offset)
        ready = []
        while self._parts and self._parts[0][0] <= self.committed_offset:
            self._parts.popleft()
        while self._waiting and self._waiting[0].offset <= self.committed_offset:
            waiting = self._waiting.popleft()
            ready.append((waiting.token, waiting.reply))
        return ready

    def deny(self, offset: int, reply: Refused) -> list[tuple[int, object]]:
        """The records that end at ``offset`` may not be written: (token, reply) of who asked for them. The controller
        role must end after it, for its working image holds them. Who asked for more than that part is told so too, when
        its rest is asked for."""
        rest = next((rest for end, rest in self._parts if end == offset), None)
        if rest is None:
            concerned = [waiting for waiting in self._waiting if waiting.offset == offset]
        else:
            self._denied = rest, reply
            concerned = [waiting for waiting in self._waiting if waiting.rest is rest]
        if not concerned:
            return []
        asked = concerned[0]  # those after it only wait until what they saw is true
        self._waiting.remove(asked)
        return [(asked.token, reply)]

    def mark_for_deletion(self, topic_ids: frozenset[bytes]) -> None:
        """Remember which topics' deletion waits (TD-1): they are not grown, moved or elected for meanwhile."""
        self.soft_state.marked_for_deletion = topic_ids

    def have_partly_read(self, topic_ids: frozenset[bytes]) -> None:
        """Remember which topics have partitions that could not be read: they get no more, for what number the next one
        would have is not known here."""
        self.soft_state.partly_read = topic_ids

    def renounce(self) -> list[tuple[int, Refused]]:
        """Stop deciding and forget: (token, NOT_CONTROLLER) for all who wait. Whether they happened, others know."""
        lost = [(waiting.token, _DEPOSED) for waiting in self._waiting]
        self._waiting.clear()
        self._parts.clear()
        self.epoch = None
        self.working = None
        self.soft_state = SoftState(self.settings)
        return lost

    def _forgive_own_sleep(self, now_ms: int) -> None:
        """Time in which this process did not run counts against nobody: heartbeats lay unread (KAFKA-15019)."""
        before = self.soft_state.last_tick_ms
        self.soft_state.last_tick_ms = now_ms
        if before is None or now_ms - before <= _LONGEST_TICK_MS:
            return
        slept_ms = now_ms - before - _LONGEST_TICK_MS
        for broker_id, session in self.soft_state.sessions.items():
            renewed = min(now_ms, session.contact_ms + slept_ms)
            self.soft_state.sessions[broker_id] = session._replace(contact_ms=renewed)
