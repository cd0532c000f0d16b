"""Carrying a plan out: a bounded number of moves at once, throttled, until all is done or somebody wishes otherwise.

How far the moves are is asked of the cluster at each look, so that it makes no difference whether it was this process
that began them; what only a process knows is in the journal (``journal.py``). Which moves begin next: ``waves.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from moldau.admin import directories
from moldau.admin.asking import MISMATCH, Talk, note
from moldau.admin.directories import Misplaced
from moldau.admin.plans import Directories
from moldau.admin.progress import ProgressBar
from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment import waves
from moldau.admin.reassignment.cluster import origins
from moldau.admin.reassignment.journal import Journal
from moldau.admin.reassignment.waits import WaitReporter, not_alive
from moldau.admin.reassignment.waves import MoveLimits, ObservedPartition
from moldau.admin.throttles import ThrottlesSet, brokers_named, throttle, unthrottle
from moldau.admin.waiting import Looks
from moldau.client import admin
from moldau.client.admin import ElectionType, Reassignment
from moldau.client.client import Refused
from moldau.model import Code, TopicPartition
from moldau.model.counted import counted

T = TypeVar("T")
Moving = dict[TopicPartition, Reassignment]

FIRST_S, LONGEST_S = 0.1, 0.5
"""Pauses between looks at the cluster, or before it is asked again: no request waits for the end of a move."""
LOOKS_OTHERWISE = 10
"""The controller knows of a move's end a moment before the broker that is asked what the replicas are."""
LEAST_MS = 1_000
"""A request may take as long, however little time is left."""
PATIENCE_S = 180.0
"""How long a cluster may give no answer, as while it elects a controller, and a broker that is to get replicas be down
before the moves to it that wait count as refused; what moves already waits for it without end."""
TRANSIENT = frozenset(
    {Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT, Code.COORDINATOR_NOT_AVAILABLE, Code.NETWORK_EXCEPTION,
     Code.BROKER_NOT_AVAILABLE, Code.CONCURRENT_TRANSACTIONS}
)  # fmt: skip


class TakenOver(Exception):
    """Another command has changed what is to become of the plan, and carries that out."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


class OutOfTime(Exception):
    """Time is up; what is under way goes on."""


class _Refusal(NamedTuple):
    """A move that the cluster refused, which holds while the partition stays as it was."""

    why: str
    replicas: Sequence[int]


class Carrier:
    """Carries out what the journal says, under the plan's lock (``journal.held``)."""

    def __init__(self, talk: Talk, path: Path, journal: Journal, placed: Directories, timeout_s: float | None) -> None:
        self._talk, self._path, self._journal = talk, path, journal
        self._unplaced = dict(placed)
        self._placed = dict(self._unplaced)
        self._looks = Looks(timeout_s, first_s=FIRST_S, longest_s=LONGEST_S)
        self._progress = ProgressBar("", len(journal.plan))
        self._refused: dict[TopicPartition, _Refusal] = {}
        self._unplaceable: Directories = {}
        self._why: dict[tuple[TopicPartition, int], str] = {}
        """Why a replica cannot be placed in its log directory, by partition and broker."""
        self._idle: Counter[tuple[TopicPartition, int]] = Counter()
        self._otherwise: Counter[TopicPartition] = Counter()
        self._told = ""
        self._reporter = WaitReporter(talk)
        self._missed: dict[int, Looks] = {}
        """Brokers that are down and are to get replicas by moves that wait, with the time that is left for each."""
        self._doubtful: Counter[TopicPartition] = Counter()
        """How often a move was refused as if a broker were down that is alive by now."""
        self._without_rate: set[int] = set()
        """Brokers of the moves that were not alive when the rate was set."""
        self._why_no_rate = ""
        """Why it could not be set when one came back, as it was told."""

    # ---- what can be wished

    def carry_out(self, done: str) -> int:
        """Move everything to the journal's goal, take the throttles away and note ``done``; the exit code."""
        if self._journal.rate is not None:
            self._patiently(self._throttle)
        states = self._until_nothing_is_left(begin=True)
        self._elect()
        self._finish(done)
        self._forget_placed(states)
        refused = self._refusals()
        bad = {p: state for p, state in states.items() if state != waves.FINISHED or p in refused}
        for p, state in sorted(bad.items())[:20]:
            why = refused.get(p) or {waves.GONE: "it is gone"}.get(state, "somebody else has moved it meanwhile")
            note(f"moldau: {p}: {why}")
        if bad:
            are = counted(len(states), "partition is", "partitions are")
            note(f"{len(states) - len(bad)} of {are} as planned.")
            return 1 if refused or waves.GONE in bad.values() else MISMATCH
        what = counted(len(states), "partition is", "partitions are")
        note(f"{'' if len(states) == 1 else 'all '}{what} as planned.")
        return 0

    def wait_for_the_moves(self) -> int:
        """Begin nothing more; wait for what is under way, and take the throttles away. The exit code."""
        states = self._until_nothing_is_left(begin=False)
        self._finish(None)
        left = sum(state == waves.WAITING for state in states.values())
        wait = counted(len(states), "partition waits", "partitions wait")
        note(f"paused: {left} of {wait}.")
        return 0

    def call_off(self) -> int:
        """Call off what is under way: those partitions go back to the replicas that they had. How many it were."""
        count = 0
        for _ in self._looks:
            _, moving = self._patiently(self._look)
            if not moving:
                return count
            whole, outcomes = self._patiently(lambda: self._talk.ask(admin.reassign, dict.fromkeys(moving)))  # noqa: B023
            if whole.ok:
                count += sum(one.ok for one in outcomes.values())
        raise OutOfTime

    def rows(self) -> list[dict[str, object]]:
        """How each partition of the goal is now."""
        shown, moving = self._see()
        goal, refused = self._journal.goal, self._refusals()
        return [
            {"topic": p.topic, "partition": p.partition, "status": "refused" if p in refused else state,
             "replicas": list(shown[p].replicas) if p in shown else None, "wanted": list(goal[p])}
            for p, state in sorted(waves.stand(goal, self._journal.origin, shown, moving).items())
        ]  # fmt: skip

    def cancelled(self, done: str) -> None:
        """Take the throttles away, and note it."""
        self._finish(done)

    # ---- the work

    def _until_nothing_is_left(self, *, begin: bool) -> dict[TopicPartition, str]:
        """Look, begin what may begin, until nothing moves and nothing waits; how far each partition is then."""
        with self._progress:
            return self._look_until_nothing_is_left(begin)

    def _look_until_nothing_is_left(self, begin: bool) -> dict[TopicPartition, str]:
        for _ in self._looks:
            self._demand_unchanged()
            shown, moving = self._see()
            states = waves.stand(self._journal.goal, self._journal.origin, shown, moving)
            waiting = [p for p, state in states.items() if state == waves.WAITING and p not in self._refused]
            if begin:
                self._begin(waiting, shown, moving)
            self._place()
            self._tell(states, shown, moving)
            unsure = [p for p, state in states.items() if state == waves.OTHERWISE]
            self._otherwise = Counter({p: self._otherwise[p] + 1 for p in unsure})
            settled = all(count >= LOOKS_OTHERWISE for count in self._otherwise.values())
            if not moving and settled and not (begin and waiting) and not self._being_placed(states):
                return states
        raise OutOfTime

    def _see(self) -> tuple[dict[TopicPartition, ObservedPartition], Moving]:
        """Look; what was refused and has been moved by somebody since counts as refused no more."""
        shown, moving = self._patiently(self._look)
        self._refused = {
            p: one
            for p, one in self._refused.items()
            if p not in moving and p in shown and list(shown[p].replicas) == list(one.replicas)
        }
        return shown, moving

    def _refusals(self) -> dict[TopicPartition, str]:
        """What was refused, of moves and of replicas in log directories."""
        return {p: why for (p, _), why in self._why.items()} | {p: one.why for p, one in self._refused.items()}

    def _look(self) -> tuple[dict[TopicPartition, ObservedPartition], Moving]:
        goal = self._journal.goal
        whole, moving = self._talk.ask(admin.reassignments, list(goal))
        if not whole.ok:
            raise Refused(whole.code, whole.message or "the moves under way")
        topics = self._talk.cluster.topics({p.topic for p in goal})
        shown = {
            TopicPartition(name, number): ObservedPartition(part.replicas, part.leader, part.isr, part.offline)
            for name, topic in topics.items()
            for number, part in topic.partitions.items()
        }
        return shown, moving

    def _begin(
        self, waiting: Sequence[TopicPartition], shown: dict[TopicPartition, ObservedPartition], moving: Moving
    ) -> None:
        limits = MoveLimits(self._journal.max_moves, self._journal.max_moves_per_broker)
        ready = self._without_missing(waiting, shown)
        begin = waves.next_moves(ready, self._journal.goal, shown, moving, limits)
        if not begin:
            return
        wanted = {p: self._journal.goal[p] for p in begin}
        whole, outcomes = self._patiently(lambda: self._talk.ask(admin.reassign, wanted))
        if not whole.ok and whole.code not in TRANSIENT:
            outcomes = dict.fromkeys(wanted, whole)
        for p, one in outcomes.items():
            if one.ok:
                del self._doubtful[p]
            elif one.code not in TRANSIENT and not self._may_have_been_down(p, one.code):
                self._refuse(p, f"{one.code.name}{f': {one.message}' if one.message else ''}", shown)

    def _without_missing(
        self, waiting: Sequence[TopicPartition], shown: Mapping[TopicPartition, ObservedPartition]
    ) -> list[TopicPartition]:
        """The moves whose new brokers are alive. The others wait for them, and count as refused later on: the
        controller refuses a move to a broker that is down, which may just be restarted."""
        if not waiting:
            self._missed = {}
            return []
        alive = self._patiently(self._talk.cluster.brokers).keys()
        self._throttle_the_returned(alive)  # before a move to one of them begins
        goal = self._journal.goal
        absent = {p: [r for r in goal[p] if r not in shown[p].replicas and r not in alive] for p in waiting}
        dead = {broker for some in absent.values() for broker in some}
        self._missed = {broker: self._missed.get(broker) or Looks(PATIENCE_S) for broker in sorted(dead)}
        gone = {broker for broker, looks in self._missed.items() if looks.left_s == 0}
        for p, some in absent.items():
            if some:
                del self._doubtful[p]
            if gone.intersection(some):
                self._refuse(p, not_alive(some), shown)
        return [p for p, some in absent.items() if not some]

    def _may_have_been_down(self, p: TopicPartition, code: Code) -> bool:
        """Whether a refused move is to be asked for again, as its new broker, alive now, may have been down for the
        controller: the two learn of that at different times."""
        if code != Code.INVALID_REPLICA_ASSIGNMENT:
            return False
        self._doubtful[p] += 1
        return self._doubtful[p] < LOOKS_OTHERWISE

    def _refuse(self, p: TopicPartition, why: str, shown: Mapping[TopicPartition, ObservedPartition]) -> None:
        del self._doubtful[p]
        self._refused[p] = _Refusal(why, shown[p].replicas)

    def _place(self) -> None:
        """Have replicas put into the plan's log directories, those that come as soon as they are there."""
        if self._unplaced:
            self._unplaced, refused = self._patiently(lambda: directories.ask_once(self._talk, self._unplaced))
            for key, why in refused.items():
                self._cannot_be_placed(key, why)

    def _cannot_be_placed(self, key: tuple[TopicPartition, int], why: str) -> None:
        path = self._placed.pop(key, None)
        if path is None:
            return  # its partition is on other brokers by now
        self._unplaceable[key] = path
        self._why[key] = f"broker {key[1]} does not move it to its directory: {why}"

    def _being_placed(self, states: Mapping[TopicPartition, str]) -> bool:
        """Whether replicas are on their way to log directories, of partitions whose brokers are those of the plan. A
        broker that gives a copy up, as for want of space, tells nobody: what nothing copies for some looks is refused.
        """
        self._placed = {key: path for key, path in self._placed.items() if states[key[0]] == waves.FINISHED}
        self._unplaced = {key: path for key, path in self._unplaced.items() if key in self._placed}
        found = self._misplaced(self._placed)
        idle = {key: one for key, one in found.items() if one["state"] == directories.OTHERWISE}
        self._idle = Counter({key: self._idle[key] + 1 for key in idle if key not in self._unplaced})
        for key, looks in self._idle.items():
            if looks >= LOOKS_OTHERWISE:
                self._cannot_be_placed(key, f"{idle[key]['wanted']}: {idle[key]['why']}")
        return bool(found.keys() & self._placed.keys())

    def _forget_placed(self, states: Mapping[TopicPartition, str]) -> None:
        """What could not be placed, and lies by now where it is to lie, or is on other brokers, counts as refused no
        more."""
        at_its_brokers = {key: path for key, path in self._unplaceable.items() if states[key[0]] == waves.FINISHED}
        still = self._misplaced(at_its_brokers)
        self._why = {key: why for key, why in self._why.items() if key in still}

    def _misplaced(self, wanted: Directories) -> dict[tuple[TopicPartition, int], Misplaced]:
        found = self._patiently(lambda: directories.misplaced(self._talk, wanted)) if wanted else {}
        return {(p, one["broker"]): one for p, replicas in found.items() for one in replicas}

    def _throttle(self) -> None:
        """Set the rate at every broker of the moves that is alive, also of those under way."""
        assert self._journal.rate is not None
        shown, moving = self._look()
        now = origins({p: list(shown[p].replicas) for p in self._journal.goal if p in shown}, moving)
        goal = {p: replicas for p, replicas in self._journal.goal.items() if p in now}
        rate, recorded = self._journal.rate, self._journal.throttles
        dead = throttle(self._talk, goal, now, rate=rate, recorded=recorded, save=self._save)
        if new := set(dead) - self._without_rate:
            note(f"{not_alive(sorted(new))}: the rate is set there when it is back.")
        self._without_rate = set(dead)

    def _throttle_the_returned(self, alive: Collection[int]) -> None:
        """Set the rate where it could not be set so far; where that fails it is tried again at the next look."""
        back = sorted(self._without_rate.intersection(alive))
        if not back:
            return
        try:
            self._throttle()
        except (Refused, OSError) as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise  # it is the journal that cannot be written
            if str(error) != self._why_no_rate:
                self._why_no_rate = str(error)
                note(f"no rate is set yet at {brokers_named(back)}, which came back: {error}")

    def _save(self, made: ThrottlesSet) -> None:
        def change(journal: Journal) -> None:
            journal.throttles = made

        self._journal.throttles = made
        journals.update(self._path, change)

    def _finish(self, done: str | None) -> None:
        """Take away what is ours, then note it."""
        left = self._patiently(lambda: unthrottle(self._talk, self._journal.throttles, self._path))

        def change(journal: Journal) -> None:
            journal.throttles = left
            if done is not None and journal.state == self._journal.state:
                journal.state = done

        journals.update(self._path, change)
        self._journal.throttles = left

    def _elect(self) -> None:
        """Give the leads to the first replicas, which the plan has chosen."""
        shown, _ = self._patiently(self._look)
        astray = [
            p
            for p, replicas in self._journal.goal.items()
            if p in shown and list(shown[p].replicas) == list(replicas) and shown[p].leader != replicas[0]
        ]
        if astray:
            self._patiently(lambda: self._talk.ask(admin.elect_leaders, astray, ElectionType.PREFERRED))

    # ---- who else has a say

    def _demand_unchanged(self) -> None:
        found = journals.load(self._path)
        if found is None or found.state != self._journal.state:
            raise TakenOver("gone" if found is None else found.state)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer; a cluster without controller gives none for a while. OutOfTime when it gives
        none until time is up."""
        missed: Refused | OSError | None = None
        left_s = self._looks.left_s
        for _ in Looks(PATIENCE_S if left_s is None else min(PATIENCE_S, left_s), first_s=FIRST_S, longest_s=LONGEST_S):
            self._hurry(again=missed is not None)
            try:
                return ask()
            except (Refused, OSError) as error:
                lasting = error.code not in TRANSIENT if isinstance(error, Refused) else error.filename is not None
                if lasting:
                    raise
                if missed is None:
                    note(f"no answer: {error}; asking again ...")
                missed = error
        if self._looks.left_s == 0:
            raise OutOfTime from missed
        assert missed is not None, "there is one look at least"
        raise missed

    def _hurry(self, *, again: bool) -> None:
        """Have no request take longer than there is time; ``again``: those that are open may wait for a dead broker."""
        if self._looks.left_s is None:
            return
        cluster = self._talk.cluster
        if cluster.limit(max(int(1000 * self._looks.left_s), LEAST_MS)) and again:
            cluster.client.close()

    def _tell(
        self, states: dict[TopicPartition, str], shown: Mapping[TopicPartition, ObservedPartition], moving: Moving
    ) -> None:
        """How far it is, whenever that changes; whom moves wait for, if they do."""
        counts = Counter(states.values())
        alive = self._patiently(self._talk.cluster.brokers).keys()
        self._throttle_the_returned(alive)
        held_up = self._patiently(lambda: self._reporter.tell(shown, moving, alive))
        dead = sorted(self._missed.keys() | held_up)
        missing = f", as {not_alive(dead)}" if dead else ""
        text = (
            f"{counts[waves.FINISHED]} of {len(states)} done, {counts[waves.MOVING]} under way,"
            f" {counts[waves.WAITING]} wait{missing}"
        )
        if text != self._told:
            self._told = text
            self._looks.soon()
        self._progress.at(counts[waves.FINISHED], text)
