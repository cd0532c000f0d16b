"""A member of a classic consumer group: joins, shares out when it leads, keeps its session, rejoins, leaves.

Decides what the group protocol asks of a client next; which assignment follows is assignors.py's, what is read is
consumer.py's. Driven by its owner's calls (``tend``): there is no thread behind it, so an owner that does not call for
a session timeout is out.
Sources: protocol guide; KIP-345 (static members), KIP-394 (member id first), KIP-429 (cooperative).
Read next: consumer.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.client.assignors import ASSIGNORS, COOPERATIVE, Subscription
from moldau.client.client import Client, Refused
from moldau.client.groups import MemberIdentity, coordinator
from moldau.client.view import by_topic
from moldau.model import Code, TopicPartition
from moldau.model.value import value
from moldau.wire.codec import Buffer
from moldau.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest
from moldau.wire.messages.k13_leave_group import LeaveGroupRequest
from moldau.wire.messages.k14_sync_group import SyncGroupRequest
from moldau.wire.records.groups import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.wire.schema import Request, ResponseT

PROTOCOL_TYPE = "consumer"
_SUBSCRIPTION_VERSION, _ASSIGNMENT_VERSION = 3, 1

_OUT = frozenset({Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION})
"""The group went on without us."""


@value(kw_only=True)
class GroupOptions:
    """How to be a member. Times in ms. All assignors must be cooperative, or none."""

    group_id: str
    instance_id: str | None = None
    assignors: tuple[str, ...] = ("range",)
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    rack: str | None = None

    @property
    def cooperative(self) -> bool:
        return all(name in COOPERATIVE for name in self.assignors)


class Member:
    """One member.

    ``must_join`` says that the group is being shared out anew (or we never were in it); ``lost`` that it went on
    without us, so that what was held is not ours any more. ``join`` mends both.
    """

    def __init__(self, client: Client, options: GroupOptions, topics: Collection[str]) -> None:
        self.client = client
        self.options = options
        self.topics = sorted(topics)
        self.identity = MemberIdentity(instance_id=options.instance_id)
        self.must_join = True
        self.lost = False
        self._heartbeat_at_ms = 0
        self._counts: dict[str, int] = {}

    async def tend(self) -> None:
        """Send a heartbeat when one is due; look at ``must_join`` and ``lost`` afterwards.

        Refused when the group does not want us (fenced, not authorised); ConnectionError when the coordinator is not to
        be found for a whole session.
        """
        if not self.must_join:
            await self._send_heartbeat(self.options.session_timeout_ms)

    async def stay(self, limit_ms: int) -> None:
        """The same for an owner that cannot join again now, and does not wait longer: while the group waits for the
        members to join, their sessions go on. ConnectionError when the coordinator does not answer."""
        if self.identity.generation >= 0:
            await self._send_heartbeat(limit_ms)

    async def _send_heartbeat(self, wait_ms: int) -> None:
        now_ms = self.client.lines.now_ms()
        if now_ms < self._heartbeat_at_ms:
            return
        self._heartbeat_at_ms = now_ms + self.options.heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=self.options.group_id,
            generation_id=self.identity.generation,
            member_id=self.identity.member_id,
            group_instance_id=self.options.instance_id,
        )
        response = await self.client.ask(
            request, coordinator(self.options.group_id), timeout_ms=wait_ms, request_timeout_ms=wait_ms
        )
        self._heard(Code(response.error_code), "heartbeat")

    async def join(
        self, owned: Collection[TopicPartition], *, timeout_ms: int | None = None
    ) -> frozenset[TopicPartition]:
        """Join, or join again, holding ``owned``; what the group gives us now. Waits until all members have joined, or
        for ``timeout_ms`` at each step: Unreachable then, and the next join goes on under the same member id.
        """
        self.must_join = True
        while True:
            response = await self._ask_to_join(owned, timeout_ms)
            code = Code(response.error_code)
            if code is Code.MEMBER_ID_REQUIRED:
                self.identity = self.identity._replace(member_id=response.member_id)
                continue
            if not self._heard(code, "join"):
                continue
            self.identity = MemberIdentity(response.member_id, response.generation_id, self.options.instance_id)
            shares = await self._share_out(response) if response.leader == response.member_id else {}
            assigned = await self._synchronise(response, shares, timeout_ms)
            if assigned is not None:
                self.must_join = self.lost = False
                self._heartbeat_at_ms = self.client.lines.now_ms() + self.options.heartbeat_interval_ms
                return assigned

    async def leave(self) -> None:
        """Tell the group that we go. A static member keeps its place until its session ends (KIP-345)."""
        identity, self.must_join = self.identity, True
        if not identity.member_id or self.options.instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self.options.group_id,
            member_id=identity.member_id,
            members=[LeaveGroupRequest.MemberIdentity(member_id=identity.member_id, reason="the consumer was closed")],
        )
        self.identity = MemberIdentity(instance_id=self.options.instance_id)
        await self.client.ask(request, coordinator(self.options.group_id), timeout_ms=5_000)

    def partitions_changed(self) -> bool:
        """Whether, as the leader of the group, we shared out other partitions than the topics have now."""
        topics = self.client.view.topics
        return any(name in topics and len(topics[name].partitions) != n for name, n in self._counts.items())

    async def _ask_patiently(self, request: Request[ResponseT], timeout_ms: int | None) -> ResponseT:
        """The answer to what waits for all members, as long as they may take, or for ``timeout_ms``."""
        each_ms = self.options.rebalance_timeout_ms + 5_000
        whole_ms = 2 * each_ms
        if timeout_ms is not None:
            each_ms = whole_ms = timeout_ms
        to = coordinator(self.options.group_id)
        return await self.client.ask(request, to, timeout_ms=whole_ms, request_timeout_ms=each_ms)

    async def _ask_to_join(self, owned: Collection[TopicPartition], timeout_ms: int | None) -> JoinGroupResponse:
        options = self.options
        metadata = _subscription_bytes(self.topics, owned, self.identity.generation, options)
        request = JoinGroupRequest(
            group_id=options.group_id,
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
            member_id=self.identity.member_id,
            group_instance_id=options.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=n, metadata=metadata) for n in options.assignors],
        )
        return await self._ask_patiently(request, timeout_ms)

    async def _share_out(self, joined: JoinGroupResponse) -> Mapping[str, list[TopicPartition]]:
        members = {m.member_id: _read_subscription(m.metadata, m.group_instance_id) for m in joined.members}
        topics = sorted({topic for member in members.values() for topic in member.topics})
        await self.client.know(topics)
        known = self.client.view.topics
        self._counts = {name: len(known[name].partitions) if name in known else 0 for name in topics}
        return ASSIGNORS[joined.protocol_name or self.options.assignors[0]](members, self._counts)

    async def _synchronise(
        self, joined: JoinGroupResponse, shares: Mapping[str, list[TopicPartition]], timeout_ms: int | None
    ) -> frozenset[TopicPartition] | None:
        kind = SyncGroupRequest
        request = kind(
            group_id=self.options.group_id,
            generation_id=self.identity.generation,
            member_id=self.identity.member_id,
            group_instance_id=self.options.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                kind.SyncGroupRequestAssignment(member_id=member, assignment=_assignment_bytes(share))
                for member, share in shares.items()
            ],
        )
        response = await self._ask_patiently(request, timeout_ms)
        if not self._heard(Code(response.error_code), "sync"):
            return None
        return read_assignment(response.assignment)

    def _heard(self, code: Code, what: str) -> bool:
        """Whether we are a member in good standing; Refused for what joining again will not mend."""
        if code is Code.NONE:
            return True
        if code not in _OUT and code is not Code.REBALANCE_IN_PROGRESS:
            raise Refused(code, f"{what} in group {self.options.group_id!r}")
        self.must_join = True
        if code in _OUT:
            keep = self.identity.member_id if code is Code.ILLEGAL_GENERATION else ""
            self.identity = MemberIdentity(keep, -1, self.options.instance_id)
            self.lost = True
        return False


def _subscription_bytes(
    topics: list[str], owned: Collection[TopicPartition], generation: int, options: GroupOptions
) -> bytes:
    kind = ConsumerProtocolSubscription
    subscription = kind(
        topics=topics,
        user_data=None,
        owned_partitions=[kind.TopicPartition(topic=name, partitions=ps) for name, ps in by_topic(owned).items()],
        generation_id=generation,
        rack_id=options.rack,
    )
    return _SUBSCRIPTION_VERSION.to_bytes(2, "big") + subscription.encode(_SUBSCRIPTION_VERSION)


def _read_subscription(data: Buffer, instance_id: str | None) -> Subscription:
    version = min(int.from_bytes(data[:2], "big"), _SUBSCRIPTION_VERSION)
    found = ConsumerProtocolSubscription.decode(memoryview(data)[2:], version)
    owned = frozenset(TopicPartition(o.topic, index) for o in found.owned_partitions for index in o.partitions)
    return Subscription(frozenset(found.topics), owned, found.generation_id, instance_id)


def _assignment_bytes(share: Collection[TopicPartition]) -> bytes:
    kind = ConsumerProtocolAssignment
    assignment = kind(
        assigned_partitions=[kind.TopicPartition(topic=n, partitions=ps) for n, ps in by_topic(share).items()],
        user_data=None,
    )
    return _ASSIGNMENT_VERSION.to_bytes(2, "big") + assignment.encode(_ASSIGNMENT_VERSION)


def read_assignment(data: Buffer) -> frozenset[TopicPartition]:
    """The partitions that a leader's bytes give to a member."""
    if len(data) < 2:  # a leader may give a member nothing at all
        return frozenset()
    version = min(int.from_bytes(data[:2], "big"), _ASSIGNMENT_VERSION)
    found = ConsumerProtocolAssignment.decode(memoryview(data)[2:], version)
    return frozenset(TopicPartition(a.topic, index) for a in found.assigned_partitions for index in a.partitions)
