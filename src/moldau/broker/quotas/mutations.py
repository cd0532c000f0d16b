"""Mutations that a client asks of the controller, kept to its quota item by item (KIP-599).

A mutation is one partition, created or deleted. In the versions whose clients know THROTTLING_QUOTA_EXCEEDED an item is
refused once the quota is spent; older clients are served, and throttled afterwards. Read next: ``clients.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from moldau.broker.quotas.clients import ClientQuotas, MutationQuota
from moldau.broker.quotas.nodes import client_of, is_node
from moldau.model import Code
from moldau.model.protocol import Protocol

T = TypeVar("T")
MESSAGE = "The throttling quota has been exceeded."


class QuotaClient(Protocol):
    """Who asks, and in which version."""

    @property
    def client_id(self) -> str | None: ...

    @property
    def api_version(self) -> int: ...


class Mutations(Generic[T]):
    """What one request asks for: ``admitted`` within the quota, in order; the others are ``refused``.

    ``count`` says how many mutations an item is, and is asked only where there is a quota.
    """

    def __init__(self, quota: MutationQuota | None, asked: Iterable[T], count: Callable[[T], int]) -> None:
        self.admitted: list[T] = []
        self.refused: list[T] = []
        self._counts: list[int] = []
        self._quota = quota
        if quota is None:
            self.admitted += asked
            return
        for item in asked:
            mutations = count(item)
            if quota.take(mutations):
                self.admitted.append(item)
                self._counts.append(mutations)
            else:
                self.refused.append(item)

    def done(self, codes: Sequence[int]) -> int:
        """How each of the admitted went: what was refused for another reason costs nothing. For how long the client is
        throttled."""
        if self._quota is None:
            return 0
        for count, code in zip(self._counts, codes, strict=True):
            if code != Code.NONE:
                self._quota.give_back(count)
        return self._quota.throttle_ms


def quota_of(quotas: ClientQuotas | None, context: QuotaClient, strict_since: int) -> MutationQuota | None:
    """The quota of a request; None where nothing binds who asks: nodes ask for themselves."""
    asks_for_itself = context.client_id is None or (is_node(context.client_id) and client_of(context.client_id) is None)
    if quotas is None or asks_for_itself or not quotas.active:
        return None
    return quotas.mutation(client_of(context.client_id), strict=context.api_version >= strict_since)
