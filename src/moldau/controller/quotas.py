"""Quotas of users, clients and addresses, altered entity by entity: each as a whole or not at all (KIP-546).

What an entity and a value may be is ``moldau.model.quota_config``. Who keeps clients to them: ``moldau.broker.quotas``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from moldau.controller.batched import Work, batched, looked_through
from moldau.controller.facts import FINE, Decision, DecisionContext, Problem
from moldau.controller.replies import QuotasAltered
from moldau.controller.requests import AlterClientQuotas, QuotaChange
from moldau.image.quotas import entity, quota, quota_record
from moldau.model import Code
from moldau.model.quota_config import wrong_entity, wrong_quota
from moldau.wire.schema import Message

KEYS_MAX = 100
"""So many quotas of one entity are altered by a request: there are five, and more would be compared in one step."""


def alter_client_quotas(context: DecisionContext, request: AlterClientQuotas) -> Work:
    """Set quotas and take them away."""
    named: Counter[frozenset[tuple[str, str | None]]] = Counter()

    def counted() -> Iterator[QuotaChange]:
        for change in request.changes:
            named[frozenset(change.entity)] += 1
            yield change

    context, changes = yield from looked_through(context, counted())

    def alter(context: DecisionContext, change: QuotaChange) -> tuple[list[Message], Problem]:
        if named[frozenset(change.entity)] > 1:
            return [], Problem(Code.INVALID_REQUEST, "Each entity must appear at most once.")
        made = _records(context, change)
        if isinstance(made, str):
            return [], Problem(Code.INVALID_REQUEST, made)
        return [] if request.validate_only else made, FINE

    records, results = yield from batched(context, changes, alter)
    return Decision(records, QuotasAltered(results=tuple(results)))


def _records(context: DecisionContext, change: QuotaChange) -> list[Message] | str:
    """What one change writes, or what is wrong with it."""
    wrong = wrong_entity(change.entity)
    if wrong is not None:
        return wrong
    if len(change.quotas) > KEYS_MAX:
        return f"An entity has more than {KEYS_MAX} quotas in the request."
    of = entity(change.entity)
    keys = [key for key, _ in change.quotas]
    records: list[Message] = []
    for key, value in change.quotas:
        if keys.count(key) > 1:
            return f"Duplicate quota key {key:.100}"
        now = quota(context.image, of, key)
        if value is not None:
            wrong = wrong_quota(of, key, value)
            if wrong is not None:
                return wrong
        if value != now:
            records.append(quota_record(of, key, value))
    return records
