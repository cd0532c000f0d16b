"""What state-change logs are taken to say of partitions: no reason and no split that their lines do not prove."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.jobs.splits import EPOCH_BACK, ISR_OUTSIDE, findings
from moldau.clusterdata.jobs.timeline import COLUMNS, rows
from moldau.clusterdata.state_changes.eras import Event, parse
from moldau.clusterdata.state_changes.history import PartitionChange, changes
from moldau.clusterdata.state_changes.merging import logs, merge
from moldau.clusterdata.state_changes.sources import LogSource
from moldau.model import TopicPartition
from tests.packages.clusterdata.state_lines import (
    SECOND,
    assigned,
    by_controller,
    by_follower,
    by_leader,
    events,
    line,
    shrunk,
)

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "state_changes"
OF = TopicPartition("orders", 0)


def told(*lines: str) -> list[PartitionChange]:
    return changes(events(*lines), OF)


def whys(*lines: str) -> list[str]:
    return [change.why for change in told(*lines)]


NOT_KNOWN = (
    "not known whether broker 2 was in sync: it was not in the ISR told last, but the end of a reassignment looks the"
    " same, and these lines do not say that it has to recover"
)
MOVE = [
    assigned(0, "1,3"),
    by_controller(0.1, (0, 0), 1, (1, 3), come="NewPartition"),
    by_controller(1, (1, 1), 1, (1, 3)),
    by_leader(1.1, (1, 1), 1, "1,3", "2,4", "1,3"),
    by_controller(2, (1, 2), 1, (1, 3, 4)),
    by_follower(3, (1, 2), 2, 1),
    by_controller(4, (2, 3), 2, (4, 2)),
    by_follower(4.1, (2, 3), 4, 2),
    by_leader(4.2, (2, 3), 2, "4,2"),
]
"""A partition moves from brokers 1 and 3 to 2 and 4; the same decision takes broker 2 into the ISR and ends it."""


# ---- elections


@pytest.mark.parametrize("without", ["nothing", "Leader orders", "Broker id="])
def test_the_end_of_a_move_is_no_unclean_election(without: str) -> None:
    """It was told as "unclean election: broker 2 was not in sync" where no JSON lines lay beside the log."""
    lines = [one for one in MOVE if without not in one]
    assert whys(*lines) == [
        "created",
        "leader epoch raised",
        "broker 4 is in sync",
        "reassignment completed: brokers 1, 3 are no replicas any more",
    ]


def test_a_job_tells_the_same_of_a_move(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text("\n".join(MOVE))
    at = [column.name for column in COLUMNS].index("why")
    found = [str(row[at]) for row in rows(logs([str(tmp_path)]), JobOptions(paths=(str(tmp_path),)))]
    assert found == whys(*MOVE)


def test_a_move_to_one_replica_looks_like_an_unclean_election_and_is_not_called_one() -> None:
    before = by_controller(1, (1, 1), 1, [1])
    assert whys(before, by_controller(2, (2, 2), 2, [2]))[-1] == NOT_KNOWN
    assert whys(by_leader(1, (1, 1), 1, "1"), by_leader(2, (2, 2), 2, "2"))[-1] == NOT_KNOWN, (
        "an eligible leader replica may lead, and lost nothing"
    )
    moved = [by_leader(1, (1, 1), 1, "1", "2", "1"), by_leader(2, (2, 2), 2, "2")]
    assert whys(*moved)[-1] == "reassignment completed: broker 1 is no replica any more"
    assert whys(before, by_follower(2, (2, 2), 3, 2))[-1] == NOT_KNOWN, "a follower does not tell the ISR"


def test_a_leader_that_has_to_recover_was_elected_uncleanly() -> None:
    unclean = "unclean election: broker 2 was not in sync"
    last = by_controller(2, (2, 2), 2, [2], recovery="RECOVERING")
    assert whys(by_controller(1, (1, 1), 1, [1, 3]), last)[-1] == unclean
    assert whys(by_leader(1, (1, 1), 1, "1,3"), last)[-1] == unclean
    assert whys(by_controller(1, (1, 1), -1, [1]), last)[-1] == unclean, "after it had been offline"
    asked = last.replace("RECOVERING", "1").replace("leaderEpoch=2", "leaderEpoch=4").replace("Epoch=2)", "Epoch=9)")
    assert whys(by_controller(1, (1, 1), 1, [1, 3]), asked)[-1] == unclean, "what is left out makes it no cleaner"


def test_what_a_broker_leaves_out_of_an_offline_partition_hides_no_unclean_election() -> None:
    """A follower's line of a partition without leader tells neither the ISR nor whether a leader had to recover: the
    unclean election behind it was told as clean."""
    before, gone = by_controller(1, (1, 1), 1, [1]), by_follower(2, (2, 2), 2, -1)
    recovers = by_controller(3, (3, 3), 2, [2], recovery="RECOVERING")
    assert whys(before, gone, recovers)[-1] == "unclean election: broker 2 was not in sync"
    untold = by_follower(3, (3, 3), 3, 2)
    assert whys(before, gone, untold)[-1] == "online again: broker 2 is alive; not known whether it was in sync"
    assert whys(before, gone, by_follower(3, (3, 3), 3, 1))[-1] == "online again: broker 1 is alive"
    clean = by_controller(3, (3, 3), 2, [2])
    assert whys(before, gone, clean)[-1] == "online again: broker 2 is alive", "an unclean one would have to recover"


def test_a_leader_that_has_to_recover_still_and_leads_again_is_elected_cleanly() -> None:
    assert whys(
        by_controller(1, (1, 1), 1, [1, 3]),
        by_controller(2, (2, 2), 2, [2], recovery="RECOVERING"),
        by_controller(3, (3, 3), -1, [2], recovery="RECOVERING"),
        by_controller(4, (4, 4), 2, [2], recovery="RECOVERING"),
    )[1:] == [
        "unclean election: broker 2 was not in sync",
        "offline: broker 2 left, and nobody in sync is alive",
        "online again: broker 2 is alive",
    ]


def test_a_controller_from_before_recovery_states_proves_an_unclean_election_by_its_znodes_version() -> None:
    def old(second: float, leader: int, epoch: int, isr: str, version: int) -> str:
        return line(
            second,
            "[Controller id=1 epoch=3] Changed partition orders-0 from OnlinePartition to OnlinePartition with state"
            f" LeaderAndIsr(leader={leader}, leaderEpoch={epoch}, isr=List({isr}), zkVersion={version})",
        )

    assert whys(old(1, 1, 1, "1, 3", 4), old(2, 2, 2, "2", 5))[-1] == "unclean election: broker 2 was not in sync"
    assert whys(old(1, 1, 1, "1, 3", 4), old(2, 2, 2, "2", 6))[-1] == (
        "not known: decisions between partition epoch 4 and 6 are not in these logs"
    )


def test_whether_who_leads_after_nobody_did_was_in_sync_is_said_only_where_it_is_known() -> None:
    offline = by_follower(1, (1, 1), 3, -1), by_controller(1.1, (1, 1), -1, [1])
    doubt = "online again: broker 2 is alive; not known whether it was in sync"
    assert whys(*offline, by_leader(2, (2, 2), 2, "2"))[-1] == doubt
    assert whys(*offline, by_controller(2, (2, 5), 2, [2]))[-1] == doubt
    assert whys(*offline, by_leader(2, (2, 5), 1, "1"))[-1] == "online again: broker 1 is alive"


# ---- other reasons


def test_nobody_leaves_twice_and_a_deleted_topic_does_not_wait_for_brokers() -> None:
    lines = [by_controller(1, (1, 1), 1, [1]), shrunk(2, (2, 2), -1, "1", 1), shrunk(3, (3, 3), -1, "1", 2)]
    assert whys(*lines)[1:] == ["offline: broker 1 left, and nobody in sync is alive", "still offline"]
    gone = "Changed partition orders-0 state from OfflinePartition to NonExistentPartition"
    deleted = line(4, f"[Controller id=1 epoch=3] {gone}", "TRACE")
    assert whys(*lines, deleted)[1:] == [
        "offline: broker 1 does not lead any more; the topic was deleted after that",
        "still offline",
    ]


def test_a_partition_that_is_to_be_deleted_has_no_new_leader() -> None:
    """Kafka's ZooKeeper controller says so by leader -2 of epoch 0, whatever the epoch was."""
    deleting = line(
        3,
        "[Controller id=1 epoch=3] Sending UpdateMetadata request UpdateMetadataPartitionState(topicName='orders',"
        " partitionIndex=0, controllerEpoch=3, leader=-2, leaderEpoch=0, isr=[1], zkVersion=0, replicas=[1, 3],"
        " offlineReplicas=[]) to brokers HashSet(1) for partition orders-0",
        "TRACE",
    )
    lines = [by_controller(1, (0, 0), 1, [1, 3]), by_controller(2, (1, 1), 3, [3]), deleting]
    assert whys(*lines) == ["created", "broker 1 left"]


def test_a_leader_epoch_of_zero_is_a_creation_only_with_the_first_state() -> None:
    assert whys(by_controller(1, (0, 0), 1, [1, 3])) == ["created"]
    assert whys(by_controller(1, (0, 4), 1, [1])) == ["first that these logs tell"]


def test_who_is_the_first_replica_is_told_of_its_time() -> None:
    """The replicas that lines told last were taken for those of all changes before."""
    lines = [
        assigned(0, "1,3"),
        by_controller(0.1, (0, 0), 1, [1, 3], come="NewPartition"),
        by_controller(1, (1, 1), 3, [1, 3]),
        by_controller(2, (2, 2), 1, [1, 3]),
        by_controller(3, (3, 3), 1, [1, 3]),
        by_controller(4, (4, 4), 3, [1, 3]),
        by_controller(5, (5, 5), 1, [1, 3]),
    ]
    assert whys(*lines)[1:] == [
        "election",
        "preferred election: broker 1 is the first replica",
        "leader epoch raised",
        "election",
        "election",
    ], "a reassignment may have raised the epoch, and made another the first"
    later = line(6, "[Broker id=3] Skipped the become-leader state change for orders-0 replicas=[3, 1]")
    assert whys(*lines, later) == whys(*lines)


def test_a_topic_that_was_made_anew_has_a_history_of_its_own() -> None:
    """Its epochs begin again: the changes of both were mixed, and each taken for the next of the other."""
    first = [
        by_controller(0.1, (0, 0), 1, [1, 3], come="NewPartition"),
        by_leader(0.2, (0, 0), 1, "1,3"),
        by_controller(1, (1, 1), 3, [3, 1]),
        by_controller(2, (2, 2), 1, [3, 1]),
    ]
    second = [
        assigned(10, "2,4"),
        by_controller(10.1, (0, 0), 2, [2, 4], come="NewPartition"),
        by_leader(10.2, (0, 0), 2, "2,4", id=SECOND),
        by_controller(11, (1, 1), 4, [4]),
    ]
    found = told(*first, *second)
    expected = ["created", "election", "election", "created", "broker 2 left"]
    assert [one.why for one in found] == expected
    assert [(one.leader_epoch, one.leader) for one in found] == [(0, 1), (1, 3), (2, 1), (0, 2), (1, 4)]
    behind = [by_leader(8, (0, 0), 2, "2,4", id=SECOND), by_leader(10.3, (2, 2), 1, "3,1")]
    assert [one.why for one in told(*first, *second, *behind)] == expected, "whatever a broker's clock says"
    only_brokers = [by_leader(3, (4, 6), 1, "1,3"), by_leader(10.2, (0, 0), 2, "2,4", id=SECOND)]
    assert whys(*only_brokers) == ["first that these logs tell", "created"]
    assert list(findings(iter(events(*first, *second)))) == [], "no epoch went back, nor are there two leaders"


def test_a_replica_that_a_move_took_away_is_in_sync_for_one_leader_epoch_more_and_no_longer() -> None:
    def asked(second: float, epoch: int, replicas: str) -> str:
        return line(
            second,
            "[Broker id=1] Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='orders',"
            f" partitionIndex=0, controllerEpoch=3, leader=1, leaderEpoch={epoch}, isr=[1, 2, 3], partitionEpoch=9,"
            f" replicas=[{replicas}], addingReplicas=[], removingReplicas=[], isNew=false, leaderRecoveryState=0)"
            " correlation id 8 from controller 1 epoch 3",
            "TRACE",
        )

    moved = [asked(1, 2, "1, 3, 2"), asked(2, 3, "1, 3")]
    assert list(findings(iter(events(*moved)))) == []
    (row,) = findings(iter(events(*moved, asked(3, 4, "1, 3"))))
    assert row[0] == ISR_OUTSIDE
    assert row[4:6] == (4, [2])


@pytest.mark.parametrize("run", ["kafka-3.9.1-quorum", "kafka-3.9.1-zookeeper", "kafka-4.3.1"])
def test_no_false_alarm_is_told_of_what_kafka_logged(run: str) -> None:
    """A kill, elections, a move, a deletion and controlled shutdowns, none of them with an unclean election."""
    at = {column.name: number for number, column in enumerate(COLUMNS)}
    found = list(rows(logs([str(RECORDED / run)]), JobOptions(paths=(str(RECORDED / run),))))
    assert found
    for row in found:
        why = str(row[at["why"]])
        assert "unclean" not in why
        assert "broker -1" not in why
    assert list(findings(iter(read(run)))) == []


def read(run: str) -> Iterator[Event]:
    for entries in merge([LogSource(files) for files in logs([str(RECORDED / run)])]):
        yield from (event for entry in entries if (event := parse(entry)) is not None)


def test_a_request_that_comes_late_of_a_controller_before_is_no_epoch_that_went_back() -> None:
    def asked(second: float, controller: tuple[int, int], leader_epoch: int, leader: int) -> str:
        return line(
            second,
            "[Broker id=1] Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='orders',"
            f" partitionIndex=0, controllerEpoch={controller[1]}, leader={leader}, leaderEpoch={leader_epoch},"
            " isr=[1, 2], partitionEpoch=9, replicas=[1, 2], addingReplicas=[], removingReplicas=[], isNew=false,"
            f" leaderRecoveryState=0) correlation id 7 from controller {controller[0]} epoch {controller[1]}",
            "TRACE",
        )

    said = (asked(1, (1, 5), 4, 1), asked(2, (2, 6), 5, 2))
    late = asked(3, (1, 5), 4, 1)
    assert list(findings(iter(events(*said, late)))) == []
    (found,) = findings(iter(events(*said, asked(3, (2, 6), 4, 1))))
    assert found[0] == EPOCH_BACK
