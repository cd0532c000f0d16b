"""The controller role: decide on what is proposed, tell what is committed, forget everything on leaving."""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn

import pytest

from moldau.controller import bounds
from moldau.controller.active import ActiveController
from moldau.controller.bounds import too_large
from moldau.controller.facts import Facts, Settings
from moldau.controller.requests import (
    AlterConfigs,
    BrokerHeartbeat,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Idle,
    IncrementalAlterConfigs,
    ListPartitionReassignments,
    MorePartitions,
    NewTopic,
    RegisterBroker,
    Tick,
)
from moldau.image import Image, image_hash
from moldau.image.configs import topic_setting
from moldau.model import Code
from moldau.wire.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    TopicRecord,
)


def facts(next_offset: int, now_ms: int = 0) -> Facts:
    return Facts(now_ms=now_ms, next_offset=next_offset, seed=b"s")


class Log:
    """A controller over a log whose commits are by hand."""

    def __init__(self) -> None:
        self.controller = ActiveController(Settings(cluster_id="c"))
        self.image = Image()
        self.log: list[Any] = []
        self.hw = 0

    def take(self, epoch: int) -> Any:
        answer = self.controller.claim(epoch, self.image, facts(len(self.log)))
        self.log += answer.records
        return answer

    def request(self, request: Any, now_ms: int = 0) -> Any:
        answer = self.controller.decide(request, facts(len(self.log), now_ms))
        self.log += answer.records
        return answer

    def commit(self, end: int | None = None) -> list[tuple[int, Any]]:
        end = len(self.log) if end is None else end
        self.image.apply_all(self.log[self.hw : end], end - 1)
        self.hw = end
        return self.controller.committed(end - 1)


def register(id: int) -> RegisterBroker:
    return RegisterBroker(broker_id=id, cluster_id="c", incarnation_id=bytes([id]) * 16)


def started() -> Log:
    log = Log()
    log.take(1)
    log.request(register(0))
    log.commit()
    log.request(BrokerHeartbeat(broker_id=0, broker_epoch=log.image.brokers[0].epoch, metadata_offset=len(log.log)))
    log.commit()
    return log


def test_an_empty_log_gets_its_first_records_and_a_later_controller_writes_none() -> None:
    log = Log()
    answer = log.take(1)
    assert [type(record).__name__ for record in answer.records] == [
        "FeatureLevelRecord", "FeatureLevelRecord", "ConfigRecord",
    ]  # fmt: skip
    log.commit()
    assert log.image.features["metadata.version"] == 25
    log.controller.renounce()
    assert log.take(2).records == []


def test_a_metadata_transaction_that_the_last_controller_left_open_is_aborted() -> None:
    """Apache Kafka's controller begins them (KIP-868). What is decided inside of one would never count."""
    image = Image()
    image.apply(FeatureLevelRecord(name="metadata.version", feature_level=25), 0)
    image.apply(BeginTransactionRecord(), 1)
    image.apply(TopicRecord(name="half", topic_id=b"t" * 16), 2)
    controller = ActiveController(Settings(cluster_id="c"))
    first = list(controller.claim(1, image, facts(3)).records)
    assert [type(record) for record in first] == [AbortTransactionRecord]
    register = RegisterBroker(broker_id=1, cluster_id="c", incarnation_id=b"i" * 16)
    first += controller.decide(register, facts(4)).records
    image.apply_all(first, 2 + len(first))
    assert image.brokers.keys() == {1}
    assert not image.topics
    assert controller.working is not None
    assert image_hash(image) == image_hash(controller.working)


def test_an_ask_sees_what_was_proposed_before_it_and_is_told_when_that_is_committed() -> None:
    log = started()
    first = log.request(CreateTopics(topics=(NewTopic(name="a"),)))
    again = log.request(CreateTopics(topics=(NewTopic(name="a"),)))
    assert again.records == []
    assert again.reply is None, "the refusal rests on a topic that may yet vanish: it waits too"
    end = len(log.log)
    assert log.commit(end - 1) == []
    ready = log.commit(end)
    assert [token for token, _ in ready] == [first.token, again.token]
    assert ready[0][1].topics[0].problem.code == Code.NONE
    assert ready[1][1].topics[0].problem.code == Code.TOPIC_ALREADY_EXISTS
    assert log.request(ListPartitionReassignments()).token is None, "nothing is pending: a read is true at once"
    assert image_hash(log.image) == image_hash(log.controller.working)  # type: ignore[arg-type]


def test_whoever_waits_when_the_controller_is_deposed_is_told_and_nothing_proposed_survives_in_it() -> None:
    log = started()
    before = image_hash(log.image)
    waiting = log.request(CreateTopics(topics=(NewTopic(name="a"),)))
    del log.log[log.hw :]  # another controller truncated them
    lost = log.controller.renounce()
    assert [(token, reply.code) for token, reply in lost] == [(waiting.token, Code.NOT_CONTROLLER)]
    assert log.controller.renounce() == []
    refused = log.request(Idle())
    assert (refused.records, refused.reply.code) == ([], Code.NOT_CONTROLLER)
    assert image_hash(log.image) == before
    log.take(3)
    assert log.controller.working is not None
    assert "a" not in log.controller.working.names
    assert log.controller.committed(10_000) == [], "an old commit answers nobody"


def test_becoming_active_again_forgets_the_first_time() -> None:
    """KAFKA-5310: a re-elected controller must not go on with what it had in mind before."""
    log = started()
    log.request(CreateTopics(topics=(NewTopic(name="a"),)), now_ms=5)
    del log.log[log.hw :]
    log.controller.soft_state.sessions[0] = log.controller.soft_state.sessions[0]._replace(contact_ms=-(10**9))
    log.take(2)
    assert log.controller.soft_state.sessions[0].contact_ms == 0, "every unfenced broker gets a fresh session"
    answer = log.request(CreateTopics(topics=(NewTopic(name="a"),)))
    assert answer.records


def test_a_new_controller_gives_brokers_a_whole_session_before_it_fences_them() -> None:
    log = started()
    log.controller.renounce()
    log.controller.claim(2, log.image, facts(len(log.log), now_ms=1_000_000))
    for now in range(1_000_000, 1_009_001, 1000):
        assert log.request(Tick(), now).records == []
    assert log.request(Tick(), 1_009_001).records != []


def test_controller_epochs_grow_and_offsets_are_not_given_twice() -> None:
    log = started()
    with pytest.raises(AssertionError, match="epoch 1 after 1"):
        log.take(1)
    log.request(Idle())
    with pytest.raises(AssertionError, match="is taken"):
        log.controller.decide(Idle(), facts(len(log.log) - 1))


def test_two_controllers_fed_the_same_decide_the_same() -> None:
    logs = [started(), started()]
    for log in logs:
        log.request(CreateTopics(topics=(NewTopic(name="a", partitions=20), NewTopic(name="b"))))
        log.request(DeleteTopics(topics=("b",)))
        log.commit()
    assert logs[0].log == logs[1].log
    assert image_hash(logs[0].image) == image_hash(logs[1].image)


def test_what_is_too_large_for_the_log_is_refused_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    log = started()
    before = image_hash(log.controller.working)  # type: ignore[arg-type]
    end = len(log.log)
    monkeypatch.setattr(bounds, "BATCH_BYTES_MAX", 1_000)
    large = tuple(NewTopic(name=f"t-{number}") for number in range(100))
    answer = log.request(CreateTopics(topics=large))
    assert (answer.records, answer.token, answer.reply.code) == ([], None, Code.RECORD_LIST_TOO_LARGE)
    assert len(log.log) == end
    assert image_hash(log.controller.working) == before  # type: ignore[arg-type]
    assert log.request(CreateTopics(topics=large[:5])).records, "and others go on"


def test_who_names_too_much_is_refused_before_any_of_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for 100,000 topics was decided in one step of two minutes, which cost the controller its controller
    role.
    """
    log = started()
    most = log.controller.settings.max_records
    change = ConfigChange(resource_type=2, resource_name="t", changes=(("retention.ms", 0, "1"),))
    changes = (change,) * (most + 1)
    many = [
        CreateTopics(topics=tuple(NewTopic(name=f"t-{number}") for number in range(most // 2 + 1))),
        CreatePartitions(topics=(MorePartitions(name="t", count=2),) * (most + 1)),
        DeleteTopics(topics=("t",) * (most + 1)),
        IncrementalAlterConfigs(resources=changes),
        AlterConfigs(resources=changes),
    ]

    def looked(*requested: object) -> NoReturn:
        raise AssertionError("it was looked at")

    with monkeypatch.context() as patched:
        patched.setattr("moldau.controller.active.decide", looked)
        for request in many:
            answer = log.request(request)
            assert (answer.records, answer.token, answer.reply.code) == ([], None, Code.POLICY_VIOLATION)
    assert log.request(CreateTopics(topics=(NewTopic(name="t"),))).records


def test_settings_that_all_new_topics_share_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log, looked = started(), Counter[str]()

    def counted(image: Any, topic: str, key: str, static: Any) -> Any:
        looked[key] += 1
        return topic_setting(image, topic, key, static)

    monkeypatch.setattr("moldau.controller.topics.topic_setting", counted)
    own = NewTopic(name="own", configs=(("retention.ms", "5"),))
    log.request(CreateTopics(topics=(own, *(NewTopic(name=f"t-{number}") for number in range(50)))))
    assert set(looked.values()) == {1}


def test_one_batch_of_the_log_takes_no_more_than_apache_kafkas() -> None:
    value = "x" * 30_000
    record = ConfigRecord(resource_type=2, resource_name="t", name="k", value=value)
    assert too_large([record] * 279) is None
    refused = too_large([record] * 280)
    assert refused is not None
    assert refused.code is Code.RECORD_LIST_TOO_LARGE
    unwritable = too_large([ConfigRecord(resource_type=2, resource_name="t", name="k", value="x" * 40_000)])
    assert unwritable is not None
    assert unwritable.code is Code.INVALID_REQUEST
