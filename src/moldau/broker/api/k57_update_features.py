"""UpdateFeatures, 0-2: raise or lower feature levels of the cluster (KIP-584, KIP-778, KIP-853, KIP-1022);
validate-only honoured."""

from __future__ import annotations

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.network.context import Context
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import BrokerServices, QuorumServices
from moldau.controller import requests
from moldau.model import Code
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

KRAFT_VERSION = "kraft.version"
KRAFT_VERSIONS = (0, 1)
UPGRADE, SAFE_DOWNGRADE = 1, 2
FEATURES_MAX = 1_000
"""So many a request names: there are less than ten, and all are looked at in one step, for all are set or none."""


async def handle(node: BrokerServices, request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    """Pass on in the newest shape, whose answer does not tell of each feature."""
    if len(request.feature_updates) > FEATURES_MAX:
        return _too_many(request)
    if context.api_version == 0:
        for update in request.feature_updates:
            update.upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return _with_each(request, await forward(node, request, context))


async def control(
    node: QuorumServices, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    """Have the controller decide on all of the updates, or none; the response comes once that is committed."""
    if len(request.feature_updates) > FEATURES_MAX:
        return _too_many(request)
    return _with_each(request, await _control(node, request))


def _too_many(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    why = f"A request names at most {FEATURES_MAX} features, and this one {len(request.feature_updates)}."
    return UpdateFeaturesResponse(error_code=Code.INVALID_REQUEST, error_message=why)


def _with_each(request: UpdateFeaturesRequest, answer: UpdateFeaturesResponse) -> UpdateFeaturesResponse:
    """The answer with what versions 0 and 1 tell besides: each feature, once all are set; of none that was refused, as
    Kafka's brokers answer."""
    all_set = answer.error_code == Code.NONE
    answer.results = [_result(update.feature) for update in request.feature_updates] if all_set else []
    return answer


async def _control(node: QuorumServices, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Have the controller decide; kraft.version is the quorum's own and is no record of the metadata."""
    voters = next((u for u in request.feature_updates if u.feature == KRAFT_VERSION), None)
    if voters is not None and (wrong := _refusal(node, voters)) is not None:
        return UpdateFeaturesResponse(error_code=Code.INVALID_UPDATE_VERSION, error_message=wrong)
    updates = tuple(
        requests.FeatureUpdate(feature=u.feature, level=u.max_version_level, upgrade_type=u.upgrade_type)
        for u in request.feature_updates
        if u is not voters
    )
    answer = await _decide(node, request, updates)
    if voters is not None and answer.error_code == Code.NONE and not request.validate_only:
        done = await node.plane.upgrade(request.timeout_ms)
        elsewhere = done.code is Code.NOT_LEADER_OR_FOLLOWER
        answer.error_code = Code.NOT_CONTROLLER if elsewhere else done.code
        answer.error_message = done.message or None
    return answer


def _refusal(node: QuorumServices, update: UpdateFeaturesRequest.FeatureUpdateKey) -> str | None:
    """Why kraft.version cannot be set so (KIP-853): it goes from 0 to 1, and never back."""
    quorum = getattr(node.plane, "quorum", None)
    if quorum is None:
        return "There is no quorum of controllers here."
    now, (low, high) = quorum.kraft_version, KRAFT_VERSIONS
    if not low <= update.max_version_level <= high:
        return f"The controllers support {low} to {high} of {KRAFT_VERSION}, not {update.max_version_level}."
    if update.max_version_level < now:
        return f"{KRAFT_VERSION} is {now} and cannot be lowered: the voters stand in the log."
    return None


async def _decide(
    node: QuorumServices, request: UpdateFeaturesRequest, updates: tuple[requests.FeatureUpdate, ...]
) -> UpdateFeaturesResponse:
    reply = await node.controller.submit(requests.UpdateFeatures(updates=updates, validate_only=request.validate_only))
    refused = whole(reply)
    if refused is not None:
        return UpdateFeaturesResponse(error_code=refused[0], error_message=refused[1])
    answer = UpdateFeaturesResponse(error_code=reply.code, error_message=reply.message)
    for feature, (code, message) in reply.features:
        if code is not Code.NONE and answer.error_code == Code.NONE:  # one failure is the whole's
            answer.error_code, answer.error_message = code, f"{feature}: {message}"
    return answer


def _result(feature: str) -> UpdateFeaturesResponse.UpdatableFeatureResult:
    return UpdateFeaturesResponse.UpdatableFeatureResult(feature=feature)
