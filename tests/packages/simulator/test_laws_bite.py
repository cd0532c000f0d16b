"""The laws that are checked in whole clusters see what is wrong there: mutants, put into real nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from moldau.broker.groups.coordinator import Coordinator
from moldau.controller.active import ActiveController
from moldau.image import Delta, Image, Partition, Recovery
from moldau.image.partition import to_record
from moldau.model import Code, TopicPartition
from moldau.simulator import storage_faults
from moldau.simulator.laws import rest
from moldau.simulator.laws.data import DataLaws, Past
from moldau.simulator.laws.quorum import QuorumLaws
from moldau.simulator.load import SimulatedMember
from moldau.simulator.mutants import controller, quorum, voters
from moldau.simulator.mutants.mutant import Patches
from moldau.simulator.plan import TopicPlan, draw
from moldau.simulator.run import simulate
from moldau.storage import checked_reads, recovery, segment_file
from moldau.wire.batch import headers
from moldau.wire.records.metadata import TopicRecord
from tests.packages.doubles import UNUSED
from tests.packages.simulator.doubles import Machine, ObservedCluster, Observer, Replica


def any_commit_answers_all_who_wait(patches: Patches) -> None:
    real = ActiveController.committed

    def committed(self: Any, offset: int) -> Any:
        return real(self, offset) + [(one.token, one.reply) for one in self._waiting]

    patches.set(ActiveController, "committed", committed)


def no_checksum_is_looked_at(patches: Patches) -> None:
    patches.set(checked_reads, "check", lambda *_: Code.NONE)
    patches.set(segment_file, "check", lambda *_: Code.NONE)
    patches.set(recovery, "check", lambda *_: Code.NONE)


def checksums_are_corrupted(patches: Patches) -> None:
    """S4 compares the checksums that stand in headers while a cluster runs: the rot is aimed at them."""
    somewhere, tell = storage_faults._somewhere, storage_faults._bytes_that_tell

    def in_a_log(injector: Any, host: Any) -> str | None:
        drawn = (somewhere(injector, host) for _ in range(50))
        return next((path for path in drawn if path is not None and path.endswith(storage_faults.LOG)), None)

    def of_a_checksum(path: str, data: bytes) -> Any:
        return [position + 17 + i for position, _ in headers(data) for i in range(4)] or tell(path, data)

    patches.set(storage_faults, "_somewhere", in_a_log)
    patches.set(storage_faults, "_bytes_that_tell", of_a_checksum)


def groups_that_cannot_be_loaded_are_given_up(patches: Patches) -> None:
    """As without a free file descriptor, and for ever."""

    async def load(self: Any, context: Any, wait_ms: int = 0) -> None:
        context.task = None
        self._unload(context)

    patches.set(Coordinator, "_load", load)


@pytest.mark.parametrize(
    ("seed", "scene", "mutants", "laws"),
    [
        (5, "isolate", (quorum.keeps_leading_alone, quorum.trims_without_a_snapshot), ("R10:", "R7:")),
        (6, "stop", (controller.a_broker_may_always_go,), ("may go",)),
        (
            1,
            "kill",
            (any_commit_answers_all_who_wait, controller.a_crash_is_forgiven, quorum.exposes_before_its_own_record),
            ("C4:", "back from a crash", "R6:"),
        ),
        (301, "rot", (no_checksum_is_looked_at, checksums_are_corrupted), ("S4:",)),
        (45, "moves", (voters.leads_on_though_removed,), ("R9:",)),
        (1, "kill", (controller.unclean_elections_are_not_told,), ("is not told",)),
        (1, "kill", (groups_that_cannot_be_loaded_are_given_up,), ("coordinates no group",)),
    ],
    ids=["R7 R10", "C12", "C4 S11 R6", "rot", "R9", "C11", "L9"],
)
def test_a_mistake_in_real_nodes_breaks_the_law_that_is_about_it(
    seed: int, scene: str, mutants: tuple[Callable[[Patches], None], ...], laws: tuple[str, ...]
) -> None:
    """Within ten seeds from the first: which one meets the mistake changes with everything that is drawn."""
    missing, broken = set(laws), list[str]()
    with Patches() as patches:
        for mutant in mutants:
            mutant(patches)
        for one in range(seed, seed + 10):
            broken += simulate(one, scene, buggify=False).broken
            missing = {law for law in laws if not any(law in text for text in broken)}
            if not missing:
                break
    assert not missing, broken


def test_a_record_of_a_deposed_controller_after_one_of_its_successor_is_seen() -> None:
    cluster = ObservedCluster(plan=draw(0))
    laws = QuorumLaws(Observer(cluster=cluster))
    laws._history.committed += [(1, "a"), (1, "b"), (3, "c")]
    laws._epochs_rise()
    assert cluster.broken == []
    laws._history.committed.append((2, "d"))
    laws._epochs_rise()
    assert cluster.broken == ["C5: epoch 2 is committed at 3, after epoch 3"]


def data_laws() -> tuple[DataLaws, Callable[[str, Partition, Partition], None], set[TopicPartition]]:
    """The laws of data over a cluster without nodes; how to tell them of a change; what they take for unclean."""
    topics = [
        TopicPlan(name=name, partitions=1, replication_factor=3, unclean=name == "risky", configs={})
        for name in ("risky", "safe")
    ]
    cluster = ObservedCluster(plan=replace(draw(0), topics=tuple(topics), group_log={}, deletions=None))
    observer = Observer(cluster=cluster)
    laws = DataLaws(observer)

    def change(topic: str, before: Partition, after: Partition) -> None:
        observer.image, delta = Image(), Delta()
        observer.image.apply(TopicRecord(name=topic, topic_id=before.topic_id))
        observer.image.apply(to_record(after))
        delta.partitions[before.key] = before
        laws.heard(1, UNUSED, delta, True)

    return laws, change, cluster.unclean


def test_only_an_unclean_election_that_is_marked_and_allowed_makes_forget_what_was_committed() -> None:
    laws, change, unclean = data_laws()
    before = Partition(b"t" * 16, 0, (1, 2, 3), (1,), 1, 4)
    led = before._replace(leader=3, isr=(3,), leader_epoch=5, recovery=Recovery.RECOVERING)
    kept = laws.past[before.key] = Past()
    change("safe", before, led)
    change("risky", before, led._replace(recovery=Recovery.RECOVERED))
    change("risky", before._replace(elr=(3,)), led)
    change("risky", before._replace(isr=(), leader=-1, last_known_elr=(3,)), led)
    assert laws.past[before.key] is kept
    assert not unclean
    change("risky", before, led)
    assert laws.past[before.key].anew == 5
    assert unclean == {TopicPartition("risky", 0)}


@dataclass
class Member(SimulatedMember):
    """A member of a group, and the offsets that it was given of each partition."""

    topic: TopicPlan
    given: dict[int, set[int]]


def test_records_that_no_member_of_the_group_was_given_are_seen() -> None:
    observer = Observer(of={1: Replica(machine=Machine(high_watermark=9))})
    members: list[SimulatedMember] = [
        Member(TopicPlan(name="safe", partitions=1, replication_factor=3, configs={}), {0: {6, 7}})
    ]
    assert rest.unread(members, observer) == "partition 0 ends at 9, the group was given it up to 7"
    members[0].given[0].add(8)
    assert rest.unread(members, observer) == ""
    assert rest.unread([], observer) == ""
