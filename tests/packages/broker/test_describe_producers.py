"""DescribeProducers tells what a log knows of idempotent producers; DescribeUserScramCredentials what is kept."""

from __future__ import annotations

from pathlib import Path

from moldau.broker.api.k50_describe_user_scram_credentials import handle as credentials
from moldau.broker.loop import run_to_end
from moldau.image import Image
from moldau.model import Code
from moldau.wire.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from moldau.wire.messages.k61_describe_producers import DescribeProducersRequest
from moldau.wire.records.metadata import UserScramCredentialRecord
from tests.packages.broker.data_cluster import TOPIC, DataCluster, batch, run
from tests.packages.broker.doubles import broker_services
from tests.packages.doubles import manual_world


def test_a_leader_and_its_followers_tell_of_the_producers_that_they_know(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 3) as cluster:
            cluster.create(0, 1)
            data = batch(3, producer_id=7, producer_epoch=2, base_sequence=0)
            assert (await cluster.produce(0, data)).error_code == 0
            asked = DescribeProducersRequest.TopicRequest(name=TOPIC, partition_indexes=[0, 0, 5])
            nowhere = DescribeProducersRequest.TopicRequest(name="nowhere", partition_indexes=[0])
            for broker in (0, 1):
                answer = await cluster.ask(broker, DescribeProducersRequest(topics=[asked, nowhere, asked]))
                (known, absent), (unknown,) = (topic.partitions for topic in answer.topics)
                (one,) = known.active_producers
                assert (one.producer_id, one.producer_epoch, one.last_sequence) == (7, 2, 2)
                assert one.last_timestamp == 1_700_000_000_002
                assert (one.coordinator_epoch, one.current_txn_start_offset) == (-1, -1)
                assert absent.error_code == unknown.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
            answer = await cluster.ask(2, DescribeProducersRequest(topics=[asked]))
            assert answer.topics[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER

    run(work)


def test_credentials_that_kafka_made_are_told_without_their_secrets() -> None:
    image = Image()
    image.apply(
        UserScramCredentialRecord(
            name="joe", mechanism=2, salt=b"s", stored_key=b"stored", server_key=b"server", iterations=4096
        )
    )
    node = broker_services(image, world=manual_world(step=1))

    def ask(*names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
        users = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
        answer = run_to_end(credentials(node, DescribeUserScramCredentialsRequest(users=users or None), None))
        assert answer.error_code == 0
        return {
            one.user: (one.error_code, [(info.mechanism, info.iterations) for info in one.credential_infos])
            for one in answer.results
        }

    assert ask() == {"joe": (0, [(2, 4096)])}
    assert ask("joe", "ann", "ann") == {
        "joe": (0, [(2, 4096)]), "ann": (Code.DUPLICATE_RESOURCE, []),
    }  # fmt: skip
    assert ask("bob") == {"bob": (Code.RESOURCE_NOT_FOUND, [])}
