"""CreatePartitions, 0-3: more partitions for topics, placed by us or as told; fewer is refused; validate-only
honoured."""

from __future__ import annotations

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.loop import each
from moldau.broker.metadata.applied import wait_until_applied
from moldau.broker.network.context import Context
from moldau.broker.network.requests import RequestContext
from moldau.broker.quotas.mutations import MESSAGE, Mutations, quota_of
from moldau.broker.services import BrokerServices, ControllerServices
from moldau.controller import requests
from moldau.controller.facts import MAX_RECORDS
from moldau.image import Image
from moldau.model import Code
from moldau.wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

STRICT_SINCE = 3
Result = CreatePartitionsResponse.CreatePartitionsTopicResult


async def handle(node: BrokerServices, request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    """Pass on; answer when this broker knows the new partitions too."""
    answer = await forward(node, request, context)
    done = {result.name for result in answer.results if result.error_code == Code.NONE}
    counts = {topic.name: topic.count for topic in request.topics if topic.name in done}

    def grown(image: Image) -> bool:
        found = ((image.topic(name), count) for name, count in counts.items())
        return all(topic is None or len(topic.partitions) >= count for topic, count in found)

    if not request.validate_only:
        await wait_until_applied(node, grown)
    return answer


async def control(
    node: ControllerServices, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    """Have the controller decide topic by topic; the response comes once that is committed."""
    topics = await each(node, request.topics, _more_partitions)
    quota = quota_of(node.quotas, context, STRICT_SINCE)
    mutations = Mutations(quota, topics, lambda topic: _added(node.metadata.image, topic))
    wanted = mutations.admitted
    reply = await node.controller.submit(
        requests.CreatePartitions(topics=tuple(wanted), validate_only=request.validate_only)
    )
    refused = whole(reply)
    results = [(t.name, refused) for t in wanted] if refused is not None else reply.topics
    codes = {name: code for name, (code, _) in results}
    throttled_ms = mutations.done([codes[topic.name] for topic in wanted])
    exceeded = (Code.THROTTLING_QUOTA_EXCEEDED, MESSAGE)
    found = await each(node, [*((topic.name, exceeded) for topic in mutations.refused), *results], _result)
    return CreatePartitionsResponse(throttle_time_ms=throttled_ms, results=found)


def _added(image: Image, topic: requests.MorePartitions) -> int:
    known = image.topic(topic.name)
    return 0 if known is None else max(topic.count - len(known.partitions), 0)


def _more_partitions(topic: CreatePartitionsRequest.CreatePartitionsTopic) -> requests.MorePartitions:
    assignments = None
    if topic.assignments is not None:  # one more than may be written is enough to be refused
        assignments = tuple(tuple(a.broker_ids) for a in topic.assignments[: MAX_RECORDS + 1])
    return requests.MorePartitions(name=topic.name, count=topic.count, assignments=assignments)


def _result(of: tuple[str, tuple[Code, str | None]]) -> Result:
    name, (code, message) = of
    return Result(name=name, error_code=code, error_message=message)
