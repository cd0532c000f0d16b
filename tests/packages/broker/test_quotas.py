"""Quotas at a broker: clients above theirs are told so and not heard for a while; others, and followers, are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.api.k48_describe_client_quotas import handle as describe
from moldau.broker.loop import run_to_end
from moldau.broker.network.connection_quotas import ConnectionQuotas
from moldau.broker.quotas.clients import COUNTS_MAX, ClientQuotas
from moldau.broker.quotas.mutations import Mutations, quota_of
from moldau.client.connection import Connection, ConnectionOptions, connect
from moldau.image import Delta, Image
from moldau.image.quotas import entity, quota_record
from moldau.model import Code
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.quota_config import CLIENT_ID, CONNECTION, FETCH, IP, MUTATION, PRODUCE, REQUEST, USER
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from moldau.wire.messages.k48_describe_client_quotas import DescribeClientQuotasRequest
from tests.packages.broker.context import ContextValue
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, batch, run
from tests.packages.broker.doubles import broker_services
from tests.packages.broker.test_connection_limits import Client
from tests.packages.doubles import manual_world
from tests.packages.manual_clock import ManualClock

SLOW: list[tuple[str, str | None]] = [(CLIENT_ID, "slow")]


def given(*quotas: tuple[list[tuple[str, str | None]], str, float]) -> tuple[Image, Delta]:
    """An image with these quotas, and what made it."""
    image, delta = Image(), Delta()
    image.apply_all([quota_record(entity(parts), key, value) for parts, key, value in quotas], delta=delta)
    return image, delta


def kept(clock: Any, *quotas: tuple[list[tuple[str, str | None]], str, float]) -> ClientQuotas:
    """Who keeps clients to these quotas, under the defaults of a broker."""
    found = ClientQuotas(clock, lambda key: BROKER_KEYS[key].default)
    found.changed(*given(*quotas))
    return found


async def client(cluster: DataCluster, client_id: str) -> Connection:
    return await connect(cluster.world, "127.0.0.1", cluster.brokers[0].port, ConnectionOptions(client_id=client_id))


def produce(data: bytes, acks: int = -1) -> ProduceRequest:
    part = ProduceRequest.PartitionProduceData(index=0, records=data)
    topic = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=[part])
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[topic])


async def waited_ms(cluster: DataCluster, line: Connection) -> int:
    """How long an answer took that costs nothing."""
    began_ms = cluster.world.clock.monotonic_ms()
    await line.ask(ApiVersionsRequest())
    return cluster.world.clock.monotonic_ms() - began_ms


def test_a_producer_above_its_quota_is_answered_at_once_and_then_not_heard_for_as_long_as_it_was_told(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            cluster.brokers[0].socket_listener.quotas = kept(cluster.world.clock, (SLOW, PRODUCE, 10_000))
            slow, other = await client(cluster, "slow"), await client(cluster, "other")
            now_ms = cluster.world.clock.monotonic_ms
            began_ms = now_ms()
            first = await slow.ask(produce(batch(1, 50_000)), version=11)
            assert first.throttle_time_ms == 0, "ten seconds' worth may be had at once"
            sent_ms = now_ms()
            second = await slow.ask(produce(batch(1, 83_000)), version=11)
            assert second.responses[0].partition_responses[0].error_code == 0, "it was taken"
            passed_ms = now_ms() - began_ms  # makes up for as much
            assert 3_250 - passed_ms <= second.throttle_time_ms <= 3_400
            waits = asyncio.ensure_future(waited_ms(cluster, slow))
            for _ in range(5):
                assert (await other.ask(produce(batch(1, 50_000)), version=11)).throttle_time_ms == 0
            is_over = now_ms() - sent_ms >= second.throttle_time_ms  # on a machine that took seconds for the others
            assert is_over or not waits.done()
            await waits
            assert now_ms() - sent_ms >= second.throttle_time_ms - 50
            slow.close()
            other.close()

    run(work)


def test_who_wants_no_acknowledgement_is_throttled_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            cluster.brokers[0].socket_listener.quotas = kept(cluster.world.clock, (SLOW, PRODUCE, 10_000))
            slow = await client(cluster, "slow")
            slow.tell(produce(batch(1, 103_000), acks=0), version=11)
            assert await waited_ms(cluster, slow) >= 250
            slow.close()

    run(work)


def test_a_consumer_above_its_quota_gets_nothing_until_its_time_comes_and_its_session_goes_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            await cluster.produce(0, batch(1, 103_000))
            clock = ManualClock(1_000)  # no machine is so slow that it is too late for the second request
            cluster.brokers[0].socket_listener.quotas = kept(clock, (SLOW, FETCH, 10_000))
            slow = await client(cluster, "slow")
            first = await slow.ask(cluster.fetch_request((0, 0), session_id=0, session_epoch=0), version=17)
            assert first.responses[0].partitions[0].records, "the first batch comes whole"
            assert first.throttle_time_ms >= 250
            assert first.session_id
            again = await client(cluster, "slow")
            request = cluster.fetch_request((0, 0), session_id=first.session_id, session_epoch=1)
            second = await again.ask(request, version=17)
            assert (second.error_code, second.session_id, second.responses) == (0, first.session_id, [])
            assert 0 < second.throttle_time_ms <= first.throttle_time_ms, "another connection is no way out"
            clock.now_ms += first.throttle_time_ms
            request = cluster.fetch_request((0, 0), session_id=first.session_id, session_epoch=2)
            third = await again.ask(request, version=17)
            assert third.error_code == 0, "its session went on"
            assert third.responses[0].partitions[0].records
            slow.close()
            again.close()

    run(work)


def test_followers_fetch_whatever_the_quota_of_everybody(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            everybody = kept(cluster.world.clock, ([(USER, None)], FETCH, 1), ([(USER, None)], REQUEST, 0.0001))
            for broker in cluster.brokers.values():
                broker.socket_listener.quotas = everybody
            cluster.create(0, 1)
            for _ in range(3):
                part = produce(batch(10, 10_000))
                line = await client(cluster, "slow")
                answer = await line.ask(part, version=11)
                assert answer.responses[0].partition_responses[0].error_code == 0, "acknowledged by the follower"
                line.close()

    run(work)


def test_time_that_requests_take_is_throttled_for_one_window_at_most() -> None:
    clock = ManualClock(1_000)
    quotas = kept(clock, ([(CLIENT_ID, None)], REQUEST, 1))
    assert quotas.spend(REQUEST, "c", 5) == 0
    assert quotas.spend(REQUEST, "c", 10) == 1000, "5 of 10 too much would be five seconds"
    assert quotas.spend(REQUEST, "d", 5) == 0, "each client for itself, under the default"


def test_however_many_names_clients_have_there_is_a_bound_to_what_is_counted() -> None:
    clock = ManualClock(1_000)
    quotas = kept(clock, ([(CLIENT_ID, None)], PRODUCE, 1000))
    for number in range(COUNTS_MAX + 100):
        quotas.spend(PRODUCE, f"c{number}", 1)
    assert len(quotas._rates) <= COUNTS_MAX + 1
    clock.now_ms += 60_000
    quotas.spend(PRODUCE, "the last", 1)
    assert len(quotas._rates) == 1


def test_a_quota_that_is_taken_away_binds_no_more() -> None:
    clock = ManualClock(1_000)
    quotas = kept(clock, (SLOW, PRODUCE, 10))
    assert quotas.spend(PRODUCE, "slow", 1000) > 0
    image, delta = given((SLOW, PRODUCE, 10))
    image.apply(quota_record(entity(SLOW), PRODUCE, None), delta=delta)
    quotas.changed(image, delta)
    assert not quotas.active
    assert quotas.throttle_ms(PRODUCE, "slow") == 0


def test_an_address_that_connects_too_fast_is_turned_away_and_others_are_served() -> None:
    clock = ManualClock(1_000)
    quotas = kept(clock, ([(IP, "10.0.0.1")], CONNECTION, 2))
    limits = ConnectionQuotas(manual_world(clock=clock), lambda key: BROKER_KEYS[key].default, quotas)

    def come(ip: str, count: int) -> list[str]:
        visitors = [Client(ip) for _ in range(count)]
        for visitor in visitors:
            limits.came(visitor)
        return [visitor.state for visitor in visitors]

    assert come("10.0.0.1", 22) == ["served"] * 20 + ["turned away"] * 2, "ten windows of two"
    assert set(come("10.0.0.2", 100)) == {"served"}
    clock.now_ms += 11_000
    assert come("10.0.0.1", 1) == ["served"]


def test_a_connection_that_is_turned_away_is_closed_unserved(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            broker = cluster.brokers[0]
            quotas = kept(cluster.world.clock, ([(IP, None)], CONNECTION, 1))
            broker.socket_listener.limits = ConnectionQuotas(broker.world, broker.config.__getitem__, quotas)
            lines = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(11)]
            assert await asyncio.wait_for(lines[10][0].read(), 60) == b""
            for _, writer in lines:
                writer.close()

    run(work)


def mutations(quotas: ClientQuotas, version: int, client_id: str | None, *counts: int) -> Mutations[str]:
    context = ContextValue(client_id=client_id, api_version=version)
    return Mutations(quota_of(quotas, context, 6), map(str, range(len(counts))), lambda name: counts[int(name)])


def test_mutations_above_the_quota_are_refused_item_by_item_and_failed_ones_cost_nothing() -> None:
    clock = ManualClock(1_000)
    quotas = kept(clock, ([(CLIENT_ID, None)], MUTATION, 1))
    first = mutations(quotas, 7, "c", 5, 10, 1)
    assert (first.admitted, first.refused) == (["0", "1"], ["2"]), "eleven at once, and what that goes beyond is owed"
    assert first.done([Code.NONE, Code.NONE]) == 4000
    clock.now_ms += 4000
    second = mutations(quotas, 7, "c", 1)
    assert second.admitted == ["0"]
    assert second.done([Code.TOPIC_ALREADY_EXISTS]) == 0
    assert mutations(quotas, 7, "c", 1).admitted == ["0"], "what was refused was given back"


@pytest.mark.parametrize("name", [None, "node-3"])
def test_nodes_that_ask_for_themselves_have_no_quota_and_their_clients_do(name: str | None) -> None:
    quotas = kept(ManualClock(1_000), ([(USER, None)], MUTATION, 1))
    assert mutations(quotas, 7, name, 100, 100).refused == []
    assert mutations(quotas, 7, "node-3:c", 100, 100).refused == ["1"]


def test_clients_of_old_versions_are_served_and_throttled_afterwards() -> None:
    quotas = kept(ManualClock(1_000), (SLOW, MUTATION, 1))
    old = mutations(quotas, 5, "slow", 20, 20)
    assert (old.refused, old.done([0, 0])) == ([], 29_000)


QUOTAS: list[Any] = [
    ([(CLIENT_ID, "a")], PRODUCE, 1.0), ([(CLIENT_ID, None)], PRODUCE, 2.0), ([(USER, "u")], FETCH, 3.0),
    ([(USER, "u"), (CLIENT_ID, "a")], FETCH, 4.0), ([(USER, None), (CLIENT_ID, "a")], FETCH, 5.0),
    ([(IP, "10.0.0.1")], CONNECTION, 6.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("components", "strict", "values"),
    [
        ([], False, {1, 2, 3, 4, 5, 6}),
        ([], True, set()),
        ([(CLIENT_ID, 2, None)], True, {1, 2}),
        ([(CLIENT_ID, 2, None)], False, {1, 2, 4, 5}),
        ([(CLIENT_ID, 0, "a")], True, {1}),
        ([(CLIENT_ID, 1, None)], False, {2}),
        ([(USER, 2, None), (CLIENT_ID, 0, "a")], True, {4, 5}),
        ([(USER, 1, None), (CLIENT_ID, 2, None)], True, {5}),
        ([(IP, 2, None)], False, {6}),
        ([(IP, 2, None), (USER, 2, None)], False, Code.INVALID_REQUEST),
        ([(USER, 0, None)], False, Code.INVALID_REQUEST),
        ([(USER, 1, "u")], False, Code.INVALID_REQUEST),
        ([(USER, 2, None), (USER, 1, None)], False, Code.INVALID_REQUEST),
        ([("", 2, None)], False, Code.INVALID_REQUEST),
        ([(USER, 9, None)], False, Code.INVALID_REQUEST),
        ([("group", 2, None)], False, Code.UNSUPPORTED_VERSION),
    ],
)
def test_quotas_are_described_by_a_filter(components: list[Any], strict: bool, values: Any) -> None:
    node = broker_services(given(*QUOTAS)[0], world=manual_world(step=1))
    parts = [
        DescribeClientQuotasRequest.ComponentData(entity_type=type, match_type=match, match=name)
        for type, match, name in components
    ]
    answer = run_to_end(describe(node, DescribeClientQuotasRequest(components=parts, strict=strict), None))
    if isinstance(values, Code):
        assert (answer.error_code, answer.entries) == (values, None)
    else:
        assert {value.value for entry in answer.entries or [] for value in entry.values} == values


def test_the_time_of_requests_is_told_and_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            quotas = kept(cluster.world.clock, (SLOW, REQUEST, 0.0001))
            cluster.brokers[0].socket_listener.quotas = quotas
            slow, now_ms = await client(cluster, "slow"), cluster.world.clock.monotonic_ms
            spent_ms: list[int] = []
            spend = quotas.spend

            def spent(what: str, *more: Any) -> int:
                spent_ms.append(now_ms())
                return spend(what, *more)

            monkeypatch.setattr(quotas, "spend", spent)
            answer = await slow.ask(produce(batch(100, 100)), version=11)
            assert answer.throttle_time_ms > 0
            answered_ms = spent_ms[-1]  # and neither how long the request took before, nor the answer to come here
            await slow.ask(ApiVersionsRequest())
            assert now_ms() - answered_ms >= answer.throttle_time_ms - 50
            slow.close()

    run(work)
