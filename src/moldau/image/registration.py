"""Brokers and controllers as they registered: values folded from records. Who may register is the controller's.

Source: KIP-631 (registration, fencing), KIP-841 (controlled shutdown), KIP-858 (directories), KIP-919 (controllers).
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.image.partition import LOST
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.wire.records.metadata import RegisterBrokerRecord, RegisterControllerRecord


class Endpoint(NamedTuple):
    """An address under a listener name; ``security_protocol`` is Kafka's number (0 is PLAINTEXT, 1 is SSL)."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class FeatureRange(NamedTuple):
    """The levels of a feature that a node supports."""

    name: str
    low: int
    high: int


class Broker(NamedTuple):
    """A registered broker. ``fenced`` brokers lead nothing and are in no ISR; clients do not see them."""

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()
    is_migrating: bool = False
    """Whether it is told by requests, as in ZooKeeper mode, and does not read the metadata log (KIP-866)."""
    cordoned_log_dirs: tuple[bytes, ...] | None = None
    """Directories that get no new replicas (KIP-1066); None: the broker never said."""

    @property
    def active(self) -> bool:
        """May lead and be in ISRs: neither fenced nor on its way out."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def takes_replicas(self) -> bool:
        """Whether new replicas may be placed on it: not when all its directories are cordoned."""
        return not self.log_dirs or not self.cordoned_log_dirs or not set(self.log_dirs) <= set(self.cordoned_log_dirs)

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.name == listener), None)

    def has_online_dir(self, directory: bytes) -> bool:
        """Whether a replica placed there can be served: reserved ids count as online, save LOST (KIP-858)."""
        if directory == LOST:
            return False
        return not self.log_dirs or directory in self.log_dirs or not any(directory[:15])


class Controller(NamedTuple):
    """A registered controller node."""

    id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    zk_migration_ready: bool = False


class _EndpointFields(Protocol):
    name: str
    host: str
    port: int
    security_protocol: int


class _FeatureFields(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


def endpoints_of(items: Sequence[_EndpointFields]) -> tuple[Endpoint, ...]:
    """Endpoints from listener structs of requests and records, which all have the same fields."""
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in items)


def features_of(items: Sequence[_FeatureFields]) -> tuple[FeatureRange, ...]:
    """Feature ranges from structs of requests and records."""
    return tuple(FeatureRange(f.name, f.min_supported_version, f.max_supported_version) for f in items)


def dirs_of(items: Sequence[bytes] | None) -> tuple[bytes, ...] | None:
    """Directory ids of a record or request; None where it has none to tell."""
    return None if items is None else tuple(bytes(one) for one in items)


def broker_from(record: RegisterBrokerRecord) -> Broker:
    return Broker(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=bytes(record.incarnation_id),
        endpoints=endpoints_of(record.end_points),
        features=features_of(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(bytes(d) for d in record.log_dirs),
        is_migrating=record.is_migrating_zk_broker,
        cordoned_log_dirs=dirs_of(record.cordoned_log_dirs),
    )


def broker_record(broker: Broker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        incarnation_id=broker.incarnation_id,
        is_migrating_zk_broker=broker.is_migrating,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in broker.endpoints
        ],
        features=[
            RegisterBrokerRecord.BrokerFeature(name=f.name, min_supported_version=f.low, max_supported_version=f.high)
            for f in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def controller_from(record: RegisterControllerRecord) -> Controller:
    return Controller(
        id=record.controller_id,
        incarnation_id=bytes(record.incarnation_id),
        endpoints=endpoints_of(record.end_points),
        features=features_of(record.features),
        zk_migration_ready=record.zk_migration_ready,
    )


def controller_record(controller: Controller) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            RegisterControllerRecord.ControllerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in controller.endpoints
        ],
        features=[
            RegisterControllerRecord.ControllerFeature(
                name=f.name, min_supported_version=f.low, max_supported_version=f.high
            )
            for f in controller.features
        ],
    )
