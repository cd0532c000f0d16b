"""InitProducerId, 0-5: a new producer id for an idempotent producer, with epoch 0 (KIP-98, KIP-360).

Ids come from blocks that the controller allots. A transactional id is refused: there is no transaction coordinator yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    node: BrokerServices, request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """An id out of this broker's block, or out of the next."""
    if request.transactional_id is not None:
        code = Code.INVALID_REQUEST if not request.transactional_id else Code.UNSUPPORTED_VERSION
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    id = node.replicas.producer_ids.take()
    if isinstance(id, int):
        return InitProducerIdResponse(producer_id=id, producer_epoch=0)
    return _later(id)


async def _later(id: asyncio.Future[int]) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await id, producer_epoch=0)
