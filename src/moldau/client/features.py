"""Features of a cluster (KIP-584): which levels nodes support, which are in force, and changing them.

Read next: admin.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from moldau.client.client import ANYONE, CONTROLLER, Client, ForNode
from moldau.client.view import Outcome
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest


class Upgrade(IntEnum):
    """Which way a feature may go: a downgrade is safe when no metadata is lost by it."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Features(NamedTuple):
    """Feature -> (lowest, highest level) that a node supports; the levels in force; ``epoch`` is -1 when unknown."""

    supported: dict[str, tuple[int, int]]
    in_force: dict[str, int]
    epoch: int


async def describe_features(client: Client, node_id: int | None = None) -> Features:
    """The features as a broker knows them: the named one, or any."""
    request = ApiVersionsRequest(client_software_name="moldau", client_software_version="0.1")
    target = ANYONE if node_id is None else ForNode(node_id)
    response = await client.ask(request, target)
    return Features(
        {one.name: (one.min_version, one.max_version) for one in response.supported_features},
        {one.name: one.max_version_level for one in response.finalized_features},
        response.finalized_features_epoch,
    )


async def update_features(
    client: Client, levels: Mapping[str, int], upgrade: Upgrade, *, validate_only: bool = False
) -> dict[str, Outcome]:
    """Put features to other levels (0: out of force), all or none; one outcome each."""
    kind = UpdateFeaturesRequest
    updates = [
        kind.FeatureUpdateKey(
            feature=name,
            max_version_level=level,
            allow_downgrade=upgrade is not Upgrade.UPGRADE,
            upgrade_type=upgrade,
        )
        for name, level in levels.items()
    ]
    request = kind(feature_updates=updates, validate_only=validate_only)
    response = await client.ask(request, CONTROLLER)
    whole = Outcome(Code(response.error_code), response.error_message)
    single = {one.feature: Outcome(Code(one.error_code), one.error_message) for one in response.results}
    return {name: single.get(name, whole) if whole.ok else whole for name in levels}
