"""DeleteTopics, 1-6: topics by name, or by name or id from version 6 on (KIP-516).

Passed on to the controller; answered once the removal is committed and this broker has forgotten the topics.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.loop import sleep
from moldau.broker.metadata.applied import wait_until_applied
from moldau.broker.network.context import Context
from moldau.broker.network.requests import RequestContext
from moldau.broker.quotas.mutations import MESSAGE, Mutations, quota_of
from moldau.broker.services import BrokerServices, ControllerServices
from moldau.controller import requests
from moldau.controller.facts import FINE
from moldau.controller.replies import DeleteResult
from moldau.image import Image
from moldau.model import NO_UUID, Code
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

STRICT_SINCE = 5
LONGEST_WAIT_MS = 30_000
"""Beyond this no answer waits for a deletion, whatever its client allows: what it asked for is done all the same."""
LOOK_MS = 50
"""Between two looks whether topics are gone."""
State = DeleteTopicsRequest.DeleteTopicState
Result = DeleteTopicsResponse.DeletableTopicResult


async def handle(node: BrokerServices, request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    """Pass on in the newest shape; answer when the topics are gone here too."""
    names = [topic.name for topic in request.topics] or request.topic_names
    known = node.metadata.image.names
    ids = {name: None if name is None else known.get(name) for name in names}
    answer = await forward(node, request, context)
    gone = {
        r.topic_id if r.topic_id != NO_UUID else ids.get(r.name) for r in answer.responses if r.error_code == Code.NONE
    }
    await wait_until_applied(node, lambda image: not any(id in image.topics for id in gone))
    return answer


async def control(
    node: ControllerServices, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    """Have the controller decide topic by topic; the response comes once that is committed."""
    topics = request.topics or [State(name=name) for name in request.topic_names]
    answer = DeleteTopicsResponse()
    items: list[str | bytes] = []
    for topic in topics:
        if topic.name is not None and topic.topic_id != NO_UUID:
            answer.responses.append(
                _error(topic, Code.INVALID_REQUEST, "You may not specify both topic name and topic id.")
            )
        elif topic.name is None and topic.topic_id == NO_UUID:
            answer.responses.append(_error(topic, Code.INVALID_REQUEST, "Neither topic name nor id were specified."))
        else:
            items.append(topic.topic_id if topic.name is None else topic.name)
    quota = quota_of(node.quotas, context, STRICT_SINCE)
    mutations = Mutations(quota, items, lambda item: _partitions(node.metadata.image, item))
    for item in mutations.refused:
        state = State(name=item) if isinstance(item, str) else State(topic_id=item)
        answer.responses.append(_error(state, Code.THROTTLING_QUOTA_EXCEEDED, MESSAGE))
    reply = await node.controller.submit(requests.DeleteTopics(topics=tuple(mutations.admitted)))
    refused = whole(reply)
    if refused is not None:
        answer.throttle_time_ms = mutations.done([refused[0]] * len(mutations.admitted))
        answer.responses = [_error(topic, *refused) for topic in topics]
        return answer
    answer.throttle_time_ms = mutations.done([item.problem.code for item in reply.topics])
    marked = await _wait_for_deletion(node, request.timeout_ms, reply.topics)
    for item in reply.topics:
        code, message = item.problem
        if code is Code.REQUEST_TIMED_OUT and (why := node.plane.refused_deletion(item.topic_id)) is not None:
            code, message = why.code, why.message
        elif code is Code.REQUEST_TIMED_OUT and marked and item.topic_id not in node.metadata.image.topics:
            code, message = FINE
        elif code is Code.REQUEST_TIMED_OUT and not marked:
            code, message = Code.NOT_CONTROLLER, None
        answer.responses.append(Result(name=item.name, topic_id=item.topic_id, error_code=code, error_message=message))
    return answer


async def _wait_for_deletion(node: ControllerServices, timeout_ms: int, results: Iterable[DeleteResult]) -> bool:
    """Mark the topics whose deletion must wait (TD-1), and return when they are gone, or after ``timeout_ms``.

    They stay marked after that, as in Kafka's ZooKeeper mode. False when another controller has been elected: they may
    not be marked, and what this broker shows to clients does not tell whether they are gone. None waits in KRaft mode.
    """
    waiting = {each.topic_id: each.name for each in results if each.problem.code is Code.REQUEST_TIMED_OUT}
    if not waiting:
        return True
    if not await node.plane.mark_for_deletion([name for name in waiting.values() if name is not None]):
        return False
    # Before the broker that passed the request on gives it up, and with it the reason that is told here.
    deadline_ms = node.world.clock.monotonic_ms() + min(timeout_ms - timeout_ms // 10, LONGEST_WAIT_MS)
    while node.world.clock.monotonic_ms() < deadline_ms and any(
        id in node.metadata.image.topics and node.plane.refused_deletion(id) is None for id in waiting
    ):
        await sleep(node.world.tasks, LOOK_MS)
        if not node.controller.active:
            return False
    return True


def _partitions(image: Image, item: str | bytes) -> int:
    topic = image.topic(item) if isinstance(item, str) else image.topics.get(item)
    return 0 if topic is None else len(topic.partitions)


def _error(topic: State, code: Code, message: str | None) -> Result:
    return Result(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
