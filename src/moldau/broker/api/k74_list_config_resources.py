"""ListConfigResources, 0-1: resources that have settings (KIP-1142). Version 0 lists client metrics, of which there
are none."""

from __future__ import annotations

from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.image.configs import ResourceType
from moldau.model import Code
from moldau.wire.messages.k74_list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

LISTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(node: BrokerServices, request: ListConfigResourcesRequest, context: Context) -> ListConfigResourcesResponse:
    """Answer from the image."""
    types = [ResourceType.CLIENT_METRICS] if context.api_version == 0 else request.resource_types or list(LISTED)
    answer = ListConfigResourcesResponse()
    image = node.metadata.image
    for type in types:
        if type not in LISTED:
            return ListConfigResourcesResponse(error_code=Code.UNSUPPORTED_VERSION)
        names = {name for kind, name in image.configs if kind == type}
        if type == ResourceType.TOPIC:
            names |= image.names.keys()
        elif type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            names = {str(id) for id in image.brokers}
        for name in sorted(names):
            answer.config_resources.append(
                ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=type)
            )
    return answer
