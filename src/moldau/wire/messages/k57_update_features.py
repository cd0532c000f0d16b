"""UpdateFeatures: request and response, every version.

Api key 57. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class UpdateFeaturesResponse(Message, key=57, versions=(0, 2)):
    """Answers UpdateFeatures."""

    class UpdatableFeatureResult(Struct):
        feature: str = at(0, "string")
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = at(0, ["UpdatableFeatureResult"], until=1)


class UpdateFeaturesRequest(Request[UpdateFeaturesResponse], key=57, versions=(0, 2)):
    """Asks UpdateFeatures."""

    class FeatureUpdateKey(Struct):
        feature: str = at(0, "string")
        max_version_level: int = at(0, "int16")
        allow_downgrade: bool = at(0, "bool", until=0)
        upgrade_type: int = at(1, "int8", default=1)

    timeout_ms: int = at(0, "int32", default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = at(0, ["FeatureUpdateKey"])
    validate_only: bool = at(1, "bool")
