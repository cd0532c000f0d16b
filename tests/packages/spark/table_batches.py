"""Batches of a stream of topic t, ten offsets each, for tests of tables."""

from __future__ import annotations

import json

from moldau.spark.tables import BatchKey


def at(offset: int) -> tuple[str, ...]:
    return (json.dumps({"t": {"0": offset}, "#topicIds": {"t": "A"}}),)


def key(batch: int, query: str = "q") -> BatchKey:
    return BatchKey(query, batch, at(batch * 10), at(batch * 10 + 10))
