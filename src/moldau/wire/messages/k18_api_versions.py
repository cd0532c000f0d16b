"""ApiVersions: request and response, every version.

Api key 18. Source: protocol guide; KIP-35, KIP-511.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ApiVersionsResponse(Message, key=18, versions=(0, 4), flexible=3):
    """Answers ApiVersions."""

    class ApiVersion(Struct):
        api_key: int = at(0, "int16")
        min_version: int = at(0, "int16")
        max_version: int = at(0, "int16")

    class SupportedFeatureKey(Struct):
        name: str = at(3, "string")
        min_version: int = at(3, "int16")
        max_version: int = at(3, "int16")

    class FinalizedFeatureKey(Struct):
        name: str = at(3, "string")
        max_version_level: int = at(3, "int16")
        min_version_level: int = at(3, "int16")

    error_code: int = at(0, "int16")
    api_keys: list[ApiVersionsResponse.ApiVersion] = at(0, ["ApiVersion"])
    throttle_time_ms: int = at(1, "int32")
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = at(3, ["SupportedFeatureKey"], tag=0)
    finalized_features_epoch: int = at(3, "int64", default=-1, tag=1)
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = at(3, ["FinalizedFeatureKey"], tag=2)
    zk_migration_ready: bool = at(3, "bool", tag=3)


class ApiVersionsRequest(Request[ApiVersionsResponse], key=18, versions=(0, 4), flexible=3):
    """Asks ApiVersions."""

    client_software_name: str = at(3, "string")
    client_software_version: str = at(3, "string")
