"""Consumer groups of the cluster that is copied, with their offsets translated to the copy.

A group's position becomes the target's that copied.py tells. Written are groups that nobody is a member of there; a
position that is ahead already stays, unless going back is asked for. Read next: copied.py, coordinators.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase

from moldau.client.groups import Committed, describe_groups
from moldau.client.sync import Cluster
from moldau.model import Code, TopicPartition
from moldau.pipeline.coordinators import Unanswered, all_groups, at_once, by_coordinator
from moldau.pipeline.copied import KeptMarks, logs_of, translated
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.spec import Pipeline, TopicSink

_IDLE = ("Empty", "Dead")


class PositionOutcome(Enum):
    """What became of a group's position in one partition."""

    MOVED = "moved"
    WOULD_MOVE = "would move"
    KEPT = "kept"
    """It is there already."""
    AHEAD = "ahead"
    """The group is further on the target."""
    ACTIVE = "active"
    """The group has members on the target."""
    NOT_COPIED = "not copied"
    """Nothing of the partition was copied yet, or into logs of the target that are there no more."""
    REFUSED = "refused"
    """The target's coordinator refused the commit."""


@dataclass(frozen=True, slots=True)
class MovedPosition:
    """A group's position in one partition: in the source, in the target before and after, and what was done."""

    group: str
    topic: str
    partition: int
    source: int
    before: int | None
    target: int | None
    outcome: PositionOutcome
    reason: str = ""


class NoGroups(ValueError):
    """A pipeline none of whose topics has ``groups``."""


@dataclass(frozen=True, slots=True)
class Translated:
    """What became of the groups' positions; ``unanswered``: the groups whose coordinator did not answer, and why."""

    moved: list[MovedPosition] = field(default_factory=list)
    unanswered: Unanswered = field(default_factory=dict)


def translate(
    pipeline: Pipeline,
    folder: PipelineFolder,
    cluster: str,
    *,
    groups: Sequence[str] = (),
    backwards: bool = False,
    dry_run: bool = False,
) -> Translated:
    """Translate the groups of ``cluster`` that the file names, or some of them. NoGroups; Refused, Unreachable."""
    sinks = [sink for sink in pipeline.sinks if isinstance(sink, TopicSink) and sink.groups]
    if not sinks:
        raise NoGroups(f"pipeline {pipeline.name}: no topic of its sinks has 'groups'")
    there, unanswered = all_groups(cluster)
    found = Translated([], unanswered)
    for sink in sinks:
        chosen = {
            id: [one for one in theirs if _matches(one, groups or sink.groups) and _matches(one, sink.groups)]
            for id, theirs in there.items()
        }
        topic = pipeline.source.topics[0]
        committed, missing = at_once(cluster, {id: ones for id, ones in chosen.items() if ones}, _positions_in(topic))
        found.unanswered.update(missing)
        one = _Translation(sink, KeptMarks(folder.store, sink))
        one.groups({group: at for group, at in sorted(committed.items()) if at}, found, backwards, dry_run)
    return found


def _matches(group: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(group, one) for one in patterns)


def _positions_in(topic: str) -> Callable[[Cluster, str], dict[int, int]]:
    """What a group committed in the topic, by partition."""

    def asked(cluster: Cluster, group: str) -> dict[int, int]:
        return {
            at.partition: position.offset
            for at, position in cluster.committed(group).items()
            if at.topic == topic and position.offset >= 0
        }

    return asked


def _committed_of(cluster: Cluster, group: str) -> dict[TopicPartition, Committed] | None:
    """What a group without members committed; None when it has members."""
    described = cluster.run(describe_groups(cluster.client, [group]))[group]
    return cluster.committed(group) if described.group_state in _IDLE else None


class _Translation:
    """Groups from one topic of a cluster to its copy on another."""

    def __init__(self, sink: TopicSink, marks: KeptMarks) -> None:
        self._sink, self._marks = sink, marks

    def groups(self, committed: dict[str, dict[int, int]], found: Translated, backwards: bool, dry_run: bool) -> None:
        """Move groups that stand at ``committed`` in the source, and note what became of each."""
        if not committed:
            return
        target = self._sink.cluster or ""
        asked, missing = by_coordinator(target, committed)
        found.unanswered.update(missing)
        before, missing = at_once(target, asked, _committed_of)
        found.unanswered.update(missing)
        is_there = self._marks.are_of(logs_of(target, self._sink.topic))  # or it was made anew since it was marked
        judged = {
            group: [
                self._judge(group, one, at, before[group], backwards=backwards, is_there=is_there)
                for one, at in sorted(positions.items())
            ]
            for group, positions in committed.items()
            if group in before
        }
        wanted = {} if dry_run else {group: self._wanted(parts) for group, parts in judged.items()}
        moving = {id: [group for group in theirs if wanted.get(group)] for id, theirs in asked.items()}
        asked = {id: theirs for id, theirs in moving.items() if theirs}
        codes, missing = at_once(target, asked, lambda one, group: one.commit(group, wanted[group]))
        found.unanswered.update(missing)
        for group, parts in judged.items():
            if group not in missing:
                said = codes.get(group)
                found.moved.extend(
                    _would(one) if dry_run else _said(one, (said or {}).get(self._place(one))) for one in parts
                )

    def _place(self, one: MovedPosition) -> TopicPartition:
        return TopicPartition(self._sink.topic, one.partition)

    def _wanted(self, parts: Sequence[MovedPosition]) -> dict[TopicPartition, int]:
        return {
            self._place(one): one.target
            for one in parts
            if one.outcome is PositionOutcome.MOVED and one.target is not None
        }

    def _judge(
        self,
        group: str,
        partition: int,
        offset: int,
        before: dict[TopicPartition, Committed] | None,
        *,
        backwards: bool,
        is_there: bool,
    ) -> MovedPosition:
        place = TopicPartition(self._sink.topic, partition)
        stands = (before or {}).get(place)
        there = stands.offset if stands is not None and stands.offset >= 0 else None
        target = translated(self._marks, partition, offset) if is_there else None
        outcome = PositionOutcome.MOVED
        if before is None:
            outcome = PositionOutcome.ACTIVE
        elif target is None:
            outcome = PositionOutcome.NOT_COPIED
        elif there == target:
            outcome = PositionOutcome.KEPT
        elif there is not None and there > target and not backwards:
            outcome = PositionOutcome.AHEAD
        return MovedPosition(group, self._sink.topic, partition, offset, there, target, outcome)


def _would(one: MovedPosition) -> MovedPosition:
    return replace(one, outcome=PositionOutcome.WOULD_MOVE) if one.outcome is PositionOutcome.MOVED else one


def _said(one: MovedPosition, code: Code | None) -> MovedPosition:
    """What the coordinator said of a position that was to be moved."""
    if one.outcome is not PositionOutcome.MOVED or code is None or code is Code.NONE:
        return one
    if code in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS):
        return replace(one, outcome=PositionOutcome.ACTIVE)  # somebody joined since it was described
    return replace(one, outcome=PositionOutcome.REFUSED, reason=code.name)


def unanswered_text(unanswered: Unanswered) -> str:
    """The groups of which nothing is known, and why: those of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, why in unanswered.items():
        by_reason.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())


class Translating:
    """Translates again and again beside a run, on a thread of its own, and once more when it ends.

    A failure is said once and does not end the run: the next turn has the same to do.
    """

    def __init__(
        self, pipeline: Pipeline, folder: PipelineFolder, cluster: str, *, every_s: float, say: Callable[[str], None]
    ) -> None:
        self._pipeline, self._folder, self._cluster = pipeline, folder, cluster
        self._every_s, self._say = every_s, say
        self._stop = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="groups", daemon=True)

    def __enter__(self) -> Translating:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self._turn()
        self._turn()

    def _turn(self) -> None:
        told = ""
        try:
            unanswered = translate(self._pipeline, self._folder, self._cluster).unanswered
        except Exception as error:  # of either cluster, or a file: the copy goes on, and groups follow when they can
            told = f"groups are not translated: {type(error).__name__}: {error}"
        else:
            if unanswered:
                told = f"some groups are not translated: {unanswered_text(unanswered)}"
        if told and told != self._said:
            self._say(told)
        self._said = told
