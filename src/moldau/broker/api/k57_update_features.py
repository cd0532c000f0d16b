"""UpdateFeatures, 0-2: raise or lower feature levels of the cluster (KIP-584, KIP-778, KIP-1022); validate-only
honoured."""

from __future__ import annotations

from typing import Any

from moldau.broker.api.forwarding import forward, whole
from moldau.controller import asks
from moldau.terms import Code
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE, SAFE_DOWNGRADE = 1, 2


def handle(node: Any, request: UpdateFeaturesRequest, context: Any) -> Any:
    """Pass on in the newest shape."""
    if context.api_version == 0:
        for update in request.feature_updates:
            update.upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return forward(node, request, context)


async def control(node: Any, request: UpdateFeaturesRequest, context: Any) -> UpdateFeaturesResponse:
    """Decide: all of the updates, or none."""
    updates = tuple(
        asks.FeatureUpdate(feature=u.feature, level=u.max_version_level, upgrade_type=u.upgrade_type)
        for u in request.feature_updates
    )
    reply = await node.office.ask(asks.UpdateFeatures(updates=updates, validate_only=request.validate_only))
    refused = whole(reply)
    if refused is not None:
        return UpdateFeaturesResponse(error_code=refused[0], error_message=refused[1])
    answer = UpdateFeaturesResponse(error_code=reply.code, error_message=reply.message)
    for feature, (code, message) in reply.features:
        answer.results.append(
            UpdateFeaturesResponse.UpdatableFeatureResult(feature=feature, error_code=code, error_message=message)
        )
        if (
            code is not Code.NONE and answer.error_code == Code.NONE
        ):  # version 2 has no items: one failure is the whole's
            answer.error_code, answer.error_message = code, f"{feature}: {message}"
    return answer
