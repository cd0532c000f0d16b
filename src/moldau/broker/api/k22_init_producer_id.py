"""InitProducerId, 0-5: a new producer id for an idempotent producer, with epoch 0 (KIP-98, KIP-360).

Ids come from blocks that the controller allots. A transactional id is refused as FindCoordinator refuses
it, on which clients end at once: a broker of Apache Kafka beside this one names it as the coordinator when it leads the
partition of __transaction_state, and on UNSUPPORTED_VERSION librdkafka asks until its time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from moldau.broker.network.context import Context
from moldau.broker.replicas.transactions import is_coordinated_elsewhere
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    node: BrokerServices, request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """An id out of this broker's block, or out of the next."""
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=_refusal(node, request.transactional_id), producer_epoch=-1)
    id = node.replicas.producer_ids.take()
    if isinstance(id, int):
        return InitProducerIdResponse(producer_id=id, producer_epoch=0)
    return _later(id)


def _refusal(node: BrokerServices, transactional_id: str) -> Code:
    if not transactional_id:
        return Code.INVALID_REQUEST
    if is_coordinated_elsewhere(node.replicas, transactional_id):
        return Code.NOT_COORDINATOR
    return Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def _later(id: asyncio.Future[int]) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await id, producer_epoch=0)
