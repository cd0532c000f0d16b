"""What a controller answers, one frozen value for each request of ``requests.py``; request files translate them to the
wire.

Every reply has ``code``, the answer to the request as a whole; items carry their own. A refusal as a whole is
``Refused``.
"""

from __future__ import annotations

from moldau.controller.facts import FINE, Problem
from moldau.image.configs import Setting
from moldau.image.partition import Key, Partition
from moldau.model import Code
from moldau.model.value import value


@value
class Refused:
    """The request as a whole was refused, or lost with the controller role."""

    code: Code
    message: str | None = None


@value
class Done:
    """Nothing more to say."""

    code: Code = Code.NONE
    message: str | None = None


@value(kw_only=True)
class Registered:
    broker_epoch: int
    code: Code = Code.NONE


@value(kw_only=True)
class Heartbeaten:
    is_caught_up: bool
    is_fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool
    code: Code = Code.NONE


@value(kw_only=True)
class TopicResult:
    """One topic of a create: numbers and settings when it went well."""

    name: str
    problem: Problem = FINE
    topic_id: bytes = bytes(16)
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, Setting], ...] = ()


@value(kw_only=True)
class TopicsCreated:
    topics: tuple[TopicResult, ...]
    code: Code = Code.NONE


@value(kw_only=True)
class DeleteResult:
    """One topic of a delete; ``name`` is None when only an unknown id was given. In ZooKeeper mode a topic
    stays until its replicas are deleted. ``may_begin``: they may be deleted now; ``waits``: not all of them can be."""

    name: str | None
    topic_id: bytes
    problem: Problem = FINE
    may_begin: bool = False
    waits: bool = False


@value(kw_only=True)
class TopicsDeleted:
    topics: tuple[DeleteResult, ...]
    code: Code = Code.NONE


@value(kw_only=True)
class PartitionsCreated:
    """(topic, how it went)."""

    topics: tuple[tuple[str, Problem], ...]
    code: Code = Code.NONE


@value(kw_only=True)
class IsrResult:
    """One partition of an AlterPartition: its state as it now is, when the change was taken."""

    key: Key
    code: Code
    partition: Partition | None = None


@value(kw_only=True)
class PartitionsAltered:
    partitions: tuple[IsrResult, ...]
    code: Code = Code.NONE


@value(kw_only=True)
class LeadersElected:
    """(topic, partition, how it went)."""

    partitions: tuple[tuple[str, int, Problem], ...]
    code: Code = Code.NONE


@value(kw_only=True)
class Moved:
    """How many were changed in a background pass, and whether more are left for the next."""

    count: int
    more: bool = False
    code: Code = Code.NONE


@value(kw_only=True)
class ReassignmentsAltered:
    """(topic, partition, how it went)."""

    partitions: tuple[tuple[str, int, Problem], ...]
    code: Code = Code.NONE
    message: str | None = None


@value(kw_only=True)
class ReassignmentsListed:
    """(topic, the partition as it is on its move)."""

    partitions: tuple[tuple[str, Partition], ...]
    code: Code = Code.NONE


@value(kw_only=True)
class DirsAssigned:
    """(directory, partition, how it went)."""

    partitions: tuple[tuple[bytes, Key, Code], ...]
    code: Code = Code.NONE


@value(kw_only=True)
class ConfigsAltered:
    """(resource type, resource name, how it went)."""

    resources: tuple[tuple[int, str, Problem], ...]
    code: Code = Code.NONE


@value(kw_only=True)
class FeaturesUpdated:
    """(feature, how it went)."""

    features: tuple[tuple[str, Problem], ...]
    code: Code = Code.NONE
    message: str | None = None


@value(kw_only=True)
class QuotasAltered:
    """How each change went, in the order of the request."""

    results: tuple[Problem, ...]
    code: Code = Code.NONE


@value(kw_only=True)
class ProducerIdsAllocated:
    start: int
    length: int
    code: Code = Code.NONE
