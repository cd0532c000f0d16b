"""ControllerRegistration: request and response, every version.

Api key 70. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ControllerRegistrationResponse(Message, key=70, versions=(0, 0)):
    """Answers ControllerRegistration."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)


class ControllerRegistrationRequest(Request[ControllerRegistrationResponse], key=70, versions=(0, 0)):
    """Asks ControllerRegistration."""

    class Listener(Struct):
        name: str = at(0, "string")
        host: str = at(0, "string")
        port: int = at(0, "uint16")
        security_protocol: int = at(0, "int16")

    class Feature(Struct):
        name: str = at(0, "string")
        min_supported_version: int = at(0, "int16")
        max_supported_version: int = at(0, "int16")

    controller_id: int = at(0, "int32")
    incarnation_id: bytes = at(0, "uuid")
    zk_migration_ready: bool = at(0, "bool")
    listeners: list[ControllerRegistrationRequest.Listener] = at(0, ["Listener"])
    features: list[ControllerRegistrationRequest.Feature] = at(0, ["Feature"])
