"""The history of one partition, read off state-change logs: who led when, who was in sync, and why it changed.

A change is known by its leader epoch and its partition epoch; where a line has no partition epoch, by its leader, its
ISR and what the same node told before. The controller's line tells when it was decided, and under which controller
epoch; where no controller's line is at hand (Apache Kafka's KRaft controllers write none), the first broker that tells
of it does. Reasons are Moldau's own where its JSON lines are at hand (``twins``); else they are seen from the change
(``reasons``). A topic that was deleted and made anew begins again at epoch 0, so that its changes are those of another
partition. A deletion that Moldau's controller tells is a change too. Kafka's controllers say it at TRACE alone, and are
not taken to say when it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.clusterdata.state_changes.eras import GONE, Event, topic_id
from moldau.clusterdata.state_changes.reasons import NOT_MOVING, Moving, StateAfter, moving, recovering, seen_from
from moldau.clusterdata.state_changes.twins import DELETED
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple

DURING_DELETE = -2
"""The leader in requests by which a ZooKeeper controller has a partition deleted; their epochs say nothing."""


class PartitionChange(NamedTuple):
    """One step of a partition. ``seen`` are the nodes that told of it and when; ``controller`` decided it."""

    time: str
    leader: int
    leader_epoch: int
    isr: tuple[int, ...] | None
    controller: int | None
    controller_epoch: int | None
    why: str
    seen: tuple[tuple[int, str], ...] = ()
    replicas: tuple[int, ...] = ()
    """The replicas that lines of this change tell, else those that lines before it told last; empty where none did. Of
    the last change of a topic they are those that were told last of all."""
    is_deletion: bool = False
    """Whether the topic was deleted by it; nobody leads, and nobody is in sync."""
    topic: int = 0
    """Which of the topics of this name, made one after the other, it is of; the first is 0."""
    topic_id: str | None = None
    """The id of that topic, where lines tell it."""


class _Step:
    """A change in the making."""

    def __init__(self, event: Event, at: int) -> None:
        self.at = at
        self.time = event.time
        self.event = event
        self.partition_epoch = event.partition_epoch
        self.seen: dict[int, str] = {}
        self.recovering: bool | None = None
        self.moving: Moving | None = None
        self.replicas: tuple[int, ...] | None = None
        """The replicas that lines of this change tell, or lines between the change before and this."""
        self.why: str | None = None
        """The reason that a line of this change tells."""

    def fits(self, event: Event) -> bool:
        """Whether the event may tell of this change: what it does not tell is no difference."""
        return (
            (self.event.leader, self.event.leader_epoch) == (event.leader, event.leader_epoch)
            and (self.event.isr is None or event.isr is None or self.event.isr == event.isr)
            and (
                self.partition_epoch is None
                or event.partition_epoch is None
                or self.partition_epoch == event.partition_epoch
            )
        )

    def told_by(self, event: Event) -> None:
        """Take in another line about it."""
        if event.role == "Controller" and self.event.role != "Controller":
            isr = self.event.isr if event.isr is None else event.isr
            self.event, self.time = event._replace(isr=isr), event.time
        elif self.event.isr is None and event.isr is not None:
            self.event = event
        if self.partition_epoch is None:
            self.partition_epoch = event.partition_epoch
        if self.recovering is None:
            self.recovering = recovering(event)
        if self.moving is None:
            self.moving = moving(event)
        if event.replicas is not None:
            self.replicas = event.replicas
        if self.why is None:
            self.why = event.why
        if event.node is not None:
            self.seen.setdefault(event.node, event.time)


class _Steps:
    """The changes that were told of so far, in each leader epoch in the order in which they were found."""

    def __init__(self) -> None:
        self.of: dict[int, list[_Step]] = {}
        self._exact: dict[tuple[int, int | None], list[_Step]] = {}
        """Leader epoch and partition epoch -> the steps of them; under None those whose partition epoch is not told."""
        self._last: dict[tuple[str | None, int | None, int], int] = {}
        """Where the step is that each node told of last in a leader epoch: it tells of no earlier one after it."""

    def hear(self, event: Event, replicas: tuple[int, ...] | None = None) -> bool:
        """Find the step that the event tells of, or begin one, of which ``replicas`` were told before. Whether one was
        begun."""
        assert event.leader_epoch is not None
        steps = self.of.setdefault(event.leader_epoch, [])
        teller = (event.role, event.node, event.leader_epoch)
        step = self._found(steps, event, self._last.get(teller, 0))
        is_new = step is None
        if step is None:
            step = _Step(event, len(steps))
            step.replicas = replicas
            steps.append(step)
            self._exact.setdefault((event.leader_epoch, step.partition_epoch), []).append(step)
        elif step.partition_epoch is None is not event.partition_epoch:
            self._exact[event.leader_epoch, None].remove(step)
            self._exact.setdefault((event.leader_epoch, event.partition_epoch), []).append(step)
        step.told_by(event)
        self._last[teller] = step.at
        return is_new

    def _found(self, steps: list[_Step], event: Event, last: int) -> _Step | None:
        assert event.leader_epoch is not None
        if event.partition_epoch is None:
            return next((steps[at] for at in range(last, len(steps)) if steps[at].fits(event)), None)
        exact = self._exact.get((event.leader_epoch, event.partition_epoch), [])
        vague = self._exact.get((event.leader_epoch, None), [])
        return next((one for some in (exact, vague) for one in some if one.fits(event)), None)

    def ordered(self) -> Iterator[_Step]:
        """By leader epoch, and within one by partition epoch; where some have none, by time."""
        for _, steps in sorted(self.of.items()):
            if all(one.partition_epoch is not None for one in steps):
                yield from sorted(steps, key=lambda one: (one.partition_epoch or 0, one.time))
            else:
                yield from sorted(steps, key=lambda one: one.time)


class _Life:
    """A partition from its creation to the deletion of its topic."""

    def __init__(self) -> None:
        self.steps = _Steps()
        self.topic_id: str | None = None
        self.is_created = self.is_deleted = False
        """Whether a controller told of its creation, and of its deletion."""
        self.deletion: Event | None = None
        """The line by which Moldau's controller told of its deletion."""
        self.replicas: tuple[int, ...] = ()
        """As told last."""
        self.led_on_by: set[int | None] = set()
        """Controllers that told of a later leader epoch than the first."""
        self.unplaced: tuple[int, ...] | None = None
        """Replicas that a line told since the last step."""
        self._creations: set[tuple[object, ...]] = set()
        """The lines that told of its creation."""

    def hear(self, event: Event) -> None:
        """A line about the partition."""
        if self.topic_id is None and (found := topic_id(event)) is not None:
            self.topic_id = found[1]
        if event.replicas is not None and event.event != "replica state":
            self.unplaced = event.replicas
            if event.state != "NewPartition":  # which may be of the next topic of this name
                self.replicas = event.replicas
        if event.role == "Controller" and event.event == "partition":
            if _creates(event):
                self.is_created = True
                self._creations.add((event.node, event.time, event.text))
                self.replicas = self.unplaced or self.replicas
            if event.state == GONE:
                self.is_deleted = True
                if self.deletion is None and event.level != "TRACE":
                    self.deletion = event
            if event.leader_epoch:
                self.led_on_by.add(event.node)
        if event.leader in (None, DURING_DELETE) or event.leader_epoch is None or event.event == "refused":
            return
        if self.steps.hear(event, self.unplaced):
            self.unplaced = None

    def is_over(self, event: Event) -> bool:
        """Whether the event is the creation of another topic of the same name. A controller that told of more before
        tells by the same clock; what others told may be of this creation, by clocks that are behind."""
        if not _creates(event) or (event.node, event.time, event.text) in self._creations:  # of a log given twice
            return False
        return self.is_created or self.is_deleted or event.node in self.led_on_by


def _life_of(event: Event, lives: list[_Life]) -> _Life:
    """Which life an event is of; the last, if nothing says otherwise."""
    found = topic_id(event)
    id = None if found is None else found[1]
    known = next((life for life in lives if id is not None and life.topic_id == id), None)
    if known is not None:
        return known
    last = lives[-1]
    if last.is_over(event) or None not in (id, last.topic_id):
        lives.append(_Life())
        lives[-1].unplaced = last.unplaced
    return lives[-1]


def _creates(event: Event) -> bool:
    """Whether a controller says that it chose the first leader."""
    return event.role == "Controller" and event.event == "partition" and " from NewPartition to " in event.text


def changes(events: Iterable[Event], of: TopicPartition) -> list[PartitionChange]:
    """The changes of a partition, in the order of leader epochs and partition epochs or times; those of a topic that
    was deleted and made anew after one another."""
    lives = [_Life()]
    replicas: tuple[int, ...] = ()
    for event in events:
        if (of.topic, of.partition) not in event.partitions:
            continue
        if event.replicas is not None and event.event != "replica state":
            replicas = event.replicas
        _life_of(event, lives).hear(event)
    lives = [life for life in lives if life.steps.of or life.deletion is not None]
    if len(lives) == 1:
        lives[0].replicas = replicas
    return [change for at, life in enumerate(lives) for change in _told(life, at)]


def _told(life: _Life, at: int) -> Iterator[PartitionChange]:
    before: StateAfter | None = None
    in_sync_once: set[int] = set()
    is_vague = life.is_deleted and life.deletion is None
    last_epoch = 0
    replicas: tuple[int, ...] = ()
    steps = list(life.steps.ordered())
    for step in steps:
        replicas = step.replicas or replicas
        if step is steps[-1]:
            replicas = life.replicas or replicas
        event = step.event._replace(partition_epoch=step.partition_epoch)
        assert event.leader is not None
        assert event.leader_epoch is not None
        now = _state(before, step, event, is_deleted=is_vague)
        yield PartitionChange(
            step.time,
            event.leader,
            event.leader_epoch,
            event.isr,
            event.controller,
            event.controller_epoch,
            step.why or seen_from(before, now, in_sync_once),
            tuple(sorted(step.seen.items(), key=lambda one: one[1])),
            replicas,
            topic=at,
            topic_id=life.topic_id,
        )
        in_sync_once.update(now.isr)
        before, last_epoch = now, event.leader_epoch
    if life.deletion is not None:
        yield _deletion(life, life.deletion, last_epoch, at)


def _deletion(life: _Life, event: Event, last_epoch: int, at: int) -> PartitionChange:
    """The end of a life; ``last_epoch`` is the leader epoch of the change before it."""
    epoch = last_epoch if event.leader_epoch is None else event.leader_epoch
    seen = () if event.node is None else ((event.node, event.time),)
    return PartitionChange(
        event.time, -1, epoch, (), event.controller, event.controller_epoch, DELETED, seen,
        life.replicas, is_deletion=True, topic=at, topic_id=life.topic_id,
    )  # fmt: skip


def _state(before: StateAfter | None, step: _Step, event: Event, *, is_deleted: bool) -> StateAfter:
    """What is known after a step. A leader epoch that is raised although all else stays may be a reassignment's, so
    that the replicas told before count no more; nor do they while one is told of, or after it."""
    now = StateAfter(
        event, step.recovering, step.moving, step.replicas or (), is_deleted, step.recovering, event.isr or ()
    )
    if before is None:
        return now
    if now.recovering is None:
        now = now._replace(recovering_last=before.recovering_last)
    if not now.isr:
        now = now._replace(isr_last=before.isr_last)
    if now.moving is None:
        now = now._replace(moving=before.moving)
    is_raised = (before.leader, before.isr) == (now.leader, now.isr) and before.event.leader_epoch != event.leader_epoch
    may_move = is_raised or any(one not in (None, NOT_MOVING) for one in (before.moving, now.moving))
    if not now.replicas and not may_move:
        now = now._replace(replicas=before.replicas)
    return now


IN_ASCII = str.maketrans("█▒·", "#+.")
"""The marks of ``bar`` for terminals that have no others."""


def bar(isr: tuple[int, ...] | None, leader: int, replicas: Iterable[int]) -> str:
    """The replicas of a partition, a mark each: leading, in sync, or neither."""
    marks = ("?" if isr is None else "█" if one == leader else "▒" if one in isr else "·" for one in replicas)
    return "".join(marks)
