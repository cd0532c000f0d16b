"""What is counted of a node's traffic: times fall into buckets, quantiles are of late, sums survive a deletion."""

from __future__ import annotations

from moldau.broker.network.traffic import ALL_TIMED, UP_TO_MS, WINDOW_MS, ApiStats, RequestStats, TopicTraffic
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatResponse


def test_a_time_falls_into_the_first_bucket_that_holds_it() -> None:
    for took_ms, bound in ((0, 0), (1, 1), (4, 5), (5, 5), (60_000, 60_000), (60_001, 120_000)):
        stats = ApiStats("X")
        stats.took(took_ms)
        assert stats.quantiles(0, 0.5, 0.999) == [bound, bound]
        assert sum(stats.buckets) == 1
    assert list(UP_TO_MS) == sorted(set(UP_TO_MS))


def test_quantiles_are_those_of_the_shares_and_nothing_tells_zero() -> None:
    stats = ApiStats("X")
    assert stats.quantiles(0, 0.5, 0.99) == [0, 0]
    for _ in range(98):
        stats.took(1)
    stats.took(100)
    stats.took(1_000)
    assert stats.quantiles(0, 0.5, 0.98, 0.99, 0.999) == [1, 1, 100, 1_000]
    assert stats.total_ms == 1_198


def test_what_was_slow_long_ago_is_forgotten() -> None:
    stats = ApiStats("X")
    stats.took(5_000)
    assert stats.quantiles(WINDOW_MS, 0.99) == [5_000]
    stats.took(2)
    assert stats.quantiles(2 * WINDOW_MS - 1, 0.99) == [5_000], "within two windows"
    assert stats.quantiles(2 * WINDOW_MS, 0.99) == [2]
    assert stats.quantiles(9 * WINDOW_MS, 0.99) == [0], "nothing since"


def test_codes_of_whole_answers_are_counted_where_answers_have_one() -> None:
    stats = ApiStats("X")
    for code in (0, 41, 41):
        stats.answered(HeartbeatResponse(error_code=code))
    assert stats.errors == {41: 2}
    without = ApiStats("Y")
    without.answered(MetadataResponse())
    assert not without.errors


def test_every_request_of_a_rare_api_is_timed_and_one_in_eight_of_a_busy_one() -> None:
    stats = RequestStats()
    timed = [stats.count(3, MetadataRequest()).timed for _ in range(ALL_TIMED + 80)]
    assert all(timed[:ALL_TIMED])
    assert sum(timed[ALL_TIMED:]) == 10


def test_fetches_of_followers_are_told_from_those_of_consumers() -> None:
    stats = RequestStats()
    for follower in (FetchRequest(replica_id=2), FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=0))):
        assert stats.count(1, follower).name == "FetchFollower"
        assert stats.count(1, FetchRequest()).name == "FetchConsumer"
    assert stats.count(3, MetadataRequest()).name == "Metadata"
    assert {one.name: one.requests for one in stats.by_key.values()} == {
        "FetchFollower": 2,
        "FetchConsumer": 2,
        "Metadata": 1,
    }


def test_a_sum_never_goes_down_because_a_topic_does() -> None:
    traffic = TopicTraffic()
    traffic.of("a").bytes_in += 5
    traffic.of("b").bytes_out += 7
    traffic.forget("a")
    traffic.forget("never-there")
    assert (traffic.total().bytes_in, traffic.total().bytes_out) == (5, 7)
    assert list(traffic.by_topic) == ["b"]
    traffic.of("a").bytes_in += 1
    assert (traffic.of("a").bytes_in, traffic.total().bytes_in) == (1, 6), (
        "a new topic under the name begins at nothing"
    )
