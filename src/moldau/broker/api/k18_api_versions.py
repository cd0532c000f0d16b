"""ApiVersions, 0-4: what this listener answers, and the cluster's features.

A version that we lack is answered in version 0 with error 35 and the list (KIP-511). Client software names are checked
as KIP-511 says. Features are shown from version 3 on (KIP-584).
"""

from __future__ import annotations

import re

from moldau.broker.api.k57_update_features import KRAFT_VERSION, KRAFT_VERSIONS
from moldau.broker.network.context import Context
from moldau.broker.network.requests import CONTROLLER, ZOOKEEPER
from moldau.broker.network.serving import versions_shown
from moldau.broker.services import NodeServices
from moldau.controller.features import SUPPORTED
from moldau.model import Code
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(node: NodeServices, request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """The table of this listener."""
    if context.api_version >= 3 and not (
        _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=Code.INVALID_REQUEST)
    answer = ApiVersionsResponse(api_keys=versions_shown(context.connection.listener.answers))
    image = node.metadata.image
    if context.kind == ZOOKEEPER:  # there, levels of features are not what this version's SUPPORTED are about
        return answer
    lowest = 0 if context.api_version >= 4 else 1  # version 3 cannot show a range from 0 (KAFKA-17011)
    answer.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, low, high in (*SUPPORTED, (KRAFT_VERSION, *KRAFT_VERSIONS))
        if low >= lowest
    ]
    answer.finalized_features_epoch = node.metadata.offset
    answer.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in sorted(image.features.items())
        if level >= lowest
    ]
    # A controller that takes part in a migration says so, for brokers and tools that ask it before they do (KIP-866).
    answer.zk_migration_ready = context.kind == CONTROLLER and node.config.migrates
    quorum = node.plane.quorum
    if quorum is not None and quorum.kraft_version:
        level = quorum.kraft_version
        answer.finalized_features.append(
            ApiVersionsResponse.FinalizedFeatureKey(
                name=KRAFT_VERSION, min_version_level=level, max_version_level=level
            )
        )
    return answer


control = handle
