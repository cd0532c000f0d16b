"""Which quota binds a client: the most specific one of its user and its client id, or none (KIP-55).

All connections are the anonymous user's until somebody authenticates them. What an entity may be is checked where
quotas are altered; what another release has written and makes no sense here binds nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.image.quotas import Entity
from moldau.model.named import NamedTuple
from moldau.model.quota_config import ANONYMOUS, CLIENT_ID, IP, USER, wrong_entity, wrong_quota

Tags = tuple[str, str]
"""(user, client id) of those who share one quota; "" where it does not matter."""


class Bound(NamedTuple):
    """The quota that binds a client, and who shares it."""

    limit: float
    tags: Tags


class QuotaLimits:
    """All quotas, by key and entity."""

    def __init__(self, quotas: Iterable[tuple[Entity, str, float]] = ()) -> None:
        self._of: dict[str, dict[Entity, float]] = {}
        for of, key, value in quotas:
            if wrong_entity(of) is None and wrong_quota(of, key, value) is None:
                self._of.setdefault(key, {})[of] = value

    def limits(self, key: str) -> bool:
        """Whether anybody has a quota of this key."""
        return key in self._of

    def of_client(self, key: str, client_id: str | None, user: str = ANONYMOUS) -> Bound | None:
        """The quota of a client, in Kafka's order of precedence. Who gives no client id has its user's only."""
        known = self._of.get(key)
        if known is None:
            return None
        for of_user in (user, None):
            if client_id:
                for of_client in (client_id, None):
                    limit = known.get(((CLIENT_ID, of_client), (USER, of_user)))
                    if limit is not None:
                        return Bound(limit, (user, client_id))
            limit = known.get(((USER, of_user),))
            if limit is not None:
                return Bound(limit, (user, ""))
        if client_id:
            for of_client in (client_id, None):
                limit = known.get(((CLIENT_ID, of_client),))
                if limit is not None:
                    return Bound(limit, ("", client_id))
        return None

    def of_address(self, key: str, address: str) -> float | None:
        """The quota of an address, or of all that have none of their own."""
        known = self._of.get(key, {})
        own = known.get(((IP, address),))
        return known.get(((IP, None),)) if own is None else own
