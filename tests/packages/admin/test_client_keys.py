"""What a client's properties may be is what Kafka's clients take, in their words."""

from __future__ import annotations

from moldau.admin.classic.client_keys import demand_values
from moldau.admin.classic.java import JavaError
from tests.golden.record_client_keys import CLASSES, TARGET

CLIENTS = {name: letter for letter, name in CLASSES.items()}
RELATED = ("Must set ", "To use the idempotent producer", "Cannot set a transactional.id")
"""Refusals of one key for another's sake, which producer_config.py makes."""


def said(client: str, key: str, value: str) -> str:
    try:
        demand_values(client, {key: value})
    except JavaError as error:
        return error.said
    return ""


def test_values_are_taken_and_refused_as_kafka_s_clients_do() -> None:
    differ = []
    lines = TARGET.read_text().split("\n")[:-1]
    for line in lines:
        name, key, value, expected = line.split("\t")
        ours = said(CLIENTS[name], key, value)
        if ours != expected and not expected.startswith(RELATED):
            differ.append(f"{key}={value!r}: {expected!r}, ours: {ours!r}")
    assert len(lines) > 3_000
    assert not differ, f"{len(differ)} of {len(lines)} differ:\n" + "\n".join(differ[:40])
