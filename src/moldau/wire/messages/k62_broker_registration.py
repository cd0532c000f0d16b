"""BrokerRegistration: request and response, every version.

Api key 62. Source: protocol guide; KIP-631.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class BrokerRegistrationResponse(Message, key=62, versions=(0, 4)):
    """Answers BrokerRegistration."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    broker_epoch: int = at(0, "int64", default=-1)


class BrokerRegistrationRequest(Request[BrokerRegistrationResponse], key=62, versions=(0, 4)):
    """Asks BrokerRegistration."""

    class Listener(Struct):
        name: str = at(0, "string")
        host: str = at(0, "string")
        port: int = at(0, "uint16")
        security_protocol: int = at(0, "int16")

    class Feature(Struct):
        name: str = at(0, "string")
        min_supported_version: int = at(0, "int16")
        max_supported_version: int = at(0, "int16")

    broker_id: int = at(0, "int32")
    cluster_id: str = at(0, "string")
    incarnation_id: bytes = at(0, "uuid")
    listeners: list[BrokerRegistrationRequest.Listener] = at(0, ["Listener"])
    features: list[BrokerRegistrationRequest.Feature] = at(0, ["Feature"])
    rack: str | None = at(0, "string", null=0)
    is_migrating_zk_broker: bool = at(1, "bool")
    log_dirs: list[bytes] = at(2, ["uuid"])
    previous_broker_epoch: int = at(3, "int64", default=-1)
