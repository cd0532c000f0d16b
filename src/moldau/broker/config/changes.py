"""Changes of settings that no controller decides: log levels of this process, and kinds that a plane does not have.

Decides which resources of an AlterConfigs or IncrementalAlterConfigs request this node answers itself; the others go to
the controller. Source: KIP-412. Read next: ``api/k44_incremental_alter_configs.py``, ``moldau.controller.configs``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moldau.broker.config.node_config import NodeConfig
from moldau.controller.facts import FINE, Problem
from moldau.controller.requests import Operation
from moldau.image.configs import ResourceType, broker_number
from moldau.model import Code
from moldau.model.config_key import shown
from moldau.runtime.levels import LEVELS, ROOT, levels, set_level
from moldau.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest

AlterConfigsResource = IncrementalAlterConfigsRequest.AlterConfigsResource
QUORUM_ONLY = (ResourceType.CLIENT_METRICS, ResourceType.GROUP)


def own_answers(
    config: NodeConfig, resources: Sequence[AlterConfigsResource], *, validate_only: bool
) -> dict[int, Problem]:
    """Place in the request -> outcome, of what is answered here; log levels are changed unless ``validate_only``."""
    named = Counter((one.resource_type, one.resource_name) for one in resources)
    found = {}
    for place, one in enumerate(resources):
        if named[one.resource_type, one.resource_name] > 1:
            found[place] = Problem(Code.INVALID_REQUEST, "Each resource must appear at most once.")
        elif one.resource_type == ResourceType.BROKER_LOGGER:
            found[place] = _levels(config.node_id, one, validate_only)
        else:
            lacking = not_on_this_plane(config, one.resource_type)
            if lacking is not None:
                found[place] = lacking
    return found


def not_on_this_plane(config: NodeConfig, kind: int) -> Problem | None:
    """Why a node's control plane keeps no settings of a kind of resource; None when it does."""
    if kind in QUORUM_ONLY and config.on_zookeeper:
        name = ResourceType(kind).name
        return Problem(Code.INVALID_REQUEST, f"In ZooKeeper mode there are no settings of {name}.")
    return None


def named_this_node(me: int, name: str) -> Problem | None:
    """What is wrong with a node's name in a request that only the node itself can answer."""
    id = broker_number(name)
    if id is None:
        return Problem(Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {shown(name)}")
    if id != me:
        return Problem(Code.INVALID_REQUEST, f"Unexpected node id. Expected {me}, but received {name}")
    return None


def _levels(me: int, resource: AlterConfigsResource, validate_only: bool) -> Problem:
    """All changes of log levels, or none."""
    wrong = named_this_node(me, resource.resource_name)
    if wrong is not None:
        return wrong
    known = levels()
    count = Counter(change.name for change in resource.configs)
    for change in resource.configs:
        operation = change.config_operation
        if count[change.name] > 1:
            return Problem(Code.INVALID_REQUEST, f"The key {shown(change.name)} is named more than once.")
        if operation not in (Operation.SET, Operation.DELETE):
            return Problem(Code.INVALID_REQUEST, f"Operation {operation} cannot be applied to a log level.")
        if change.name not in known:
            return Problem(Code.INVALID_CONFIG, f"Logger {shown(change.name)} does not exist!")
        if operation == Operation.DELETE and change.name == ROOT:
            return Problem(Code.INVALID_REQUEST, f"The log level of the {ROOT} logger cannot be removed.")
        if operation == Operation.SET and change.value not in LEVELS:
            allowed = ", ".join(LEVELS)
            return Problem(
                Code.INVALID_CONFIG,
                f"{shown(str(change.value))} is no log level for {change.name}: one of {allowed} is expected",
            )
    for change in () if validate_only else resource.configs:
        set_level(change.name, change.value if change.config_operation == Operation.SET else None)
    return FINE
