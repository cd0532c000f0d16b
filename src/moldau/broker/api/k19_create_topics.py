"""CreateTopics, 2-7: new topics by numbers or by assignment, with settings; validate-only honoured.

Any broker takes it and passes it on; the controller decides topic by topic, and answers once its records are committed.
Numbers and settings are told from version 5 on (KIP-525), topic ids from 7. A name given twice is refused once.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.loop import each
from moldau.broker.metadata.applied import wait_until_applied, wait_until_propagated
from moldau.broker.network.context import Context
from moldau.broker.network.requests import RequestContext
from moldau.broker.quotas.mutations import MESSAGE, Mutations, quota_of
from moldau.broker.services import BrokerServices, ControllerServices
from moldau.controller import requests
from moldau.controller.facts import MAX_RECORDS
from moldau.controller.replies import TopicResult
from moldau.image.configs import is_sensitive
from moldau.model import Code
from moldau.model.topic_config import TOPIC_KEYS
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse

STRICT_SINCE = 6
Result = CreateTopicsResponse.CreatableTopicResult


async def handle(node: BrokerServices, request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    """Pass on; answer when this broker knows the new topics too."""
    answer = await forward(node, request, context)
    if not request.validate_only:
        names = [topic.name for topic in answer.topics if topic.error_code == Code.NONE]
        await wait_until_applied(node, lambda image: all(name in image.names for name in names))
    return answer


async def control(
    node: ControllerServices, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    """The controller's reply as a response, once what it decided is committed."""
    twice = {name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1}
    named = await each(node, (topic for topic in request.topics if topic.name not in twice), _new_topic)
    quota = quota_of(node.quotas, context, STRICT_SINCE)
    mutations = Mutations(quota, named, lambda topic: _partitions(node, topic))
    wanted = mutations.admitted
    reply = await node.controller.submit(
        requests.CreateTopics(topics=tuple(wanted), validate_only=request.validate_only)
    )
    answer = CreateTopicsResponse()
    for name in sorted(twice):
        answer.topics.append(_error(name, Code.INVALID_REQUEST, "Duplicate topic name."))
    exceeded = (Code.THROTTLING_QUOTA_EXCEEDED, MESSAGE)
    answer.topics += await each(node, mutations.refused, lambda topic: _error(topic.name, *exceeded))
    refused = whole(reply)
    if refused is not None:
        found = await each(node, wanted, lambda topic: _error(topic.name, *refused))
    else:
        found = await each(node, reply.topics, _result)
        await wait_until_propagated(node)
    codes = {topic.name: topic.error_code for topic in found}
    answer.throttle_time_ms = mutations.done([codes[topic.name] for topic in wanted])
    answer.topics += found
    return answer


def _partitions(
    node: ControllerServices,
    topic: requests.NewTopic,
) -> int:
    """How many partitions the topic will have."""
    if topic.assignments:
        return len(topic.assignments)
    return topic.partitions if topic.partitions > 0 else int(node.config["num.partitions"])


def _new_topic(topic: CreateTopicsRequest.CreatableTopic) -> requests.NewTopic:
    return requests.NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        # One more than may be written is enough to be refused: a request may bring a quarter of a million.
        assignments=tuple((a.partition_index, tuple(a.broker_ids)) for a in topic.assignments[: MAX_RECORDS + 1]),
        configs=tuple((c.name, c.value) for c in topic.configs),
    )


@cache
def _is_sensitive(key: str) -> bool:
    return is_sensitive(TOPIC_KEYS.get(key))


def _error(name: str, code: Code, message: str | None) -> Result:
    return Result(name=name, error_code=code, error_message=message)


def _result(topic: TopicResult) -> Result:
    if topic.problem.code is not Code.NONE:
        return _error(topic.name, *topic.problem)
    return Result(
        name=topic.name,
        topic_id=topic.topic_id,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreateTopicsResponse.CreatableTopicConfigs(
                name=key,
                value=setting.value,
                config_source=setting.source,
                is_sensitive=_is_sensitive(key),
            )
            for key, setting in topic.configs
        ],
    )
