"""``moldau reassign apply``, ``pause``, ``resume``, ``cancel`` and ``rollback``: a plan carried out with a journal.

Each of them writes in the journal what is to become of the plan, waits until the process that carries it out has
stopped, and goes on in its place. Read next: ``journal.py``, ``carrying.py``.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from moldau.admin import directories, plans
from moldau.admin.asking import IN_PROGRESS, OUTPUT, SERVERS, Talk, note, show
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, SECONDS, YES, confirm
from moldau.admin.output import TABLES
from moldau.admin.plans import Directories, Plan
from moldau.admin.rate import RateArgument
from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment.carrying import Carrier, OutOfTime, TakenOver
from moldau.admin.reassignment.cluster import current, demand_cluster, read, under_way
from moldau.admin.reassignment.journal import (
    CANCELLED,
    CANCELLING,
    DONE,
    ENDED,
    PAUSED,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    BadJournal,
    Busy,
    Journal,
)  # fmt: skip
from moldau.admin.reassignment.waits import not_alive
from moldau.admin.signals import caught_signals
from moldau.admin.waiting import Looks
from moldau.model.counted import counted

VERBS = {RUNNING: "apply", PAUSED: "resume", CANCELLING: "cancel", ROLLING_BACK: "rollback"}
"""What goes on with a plan that has not ended."""
LOOKED_AT_S = 0.2
"""For how long, at most, somebody who looks whether the plan is carried out holds its lock."""
HANDOVER_S = 60.0
"""How long the process that carries a plan out may take to see that something else is wished."""

PLAN = click.option(
    "--plan", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True, help="A plan file."
)
TIMEOUT = click.option("--timeout", type=SECONDS, help="End after so many seconds; the moves go on.")
WOULD = ("topic", "partition", "would", "replicas", "wanted")
IN_DIRECTORY = "move to its log directory"
"""What a dry run shows of each partition."""
COLUMNS = ("topic", "partition", "status", "replicas", "wanted")
"""What programs are told of each at the end."""


@click.command()
@SERVERS
@PLAN
@click.option("--max-moves", type=click.IntRange(min=1), default=10, show_default=True, help="Moves at once, in all.")
@click.option(
    "--max-moves-per-broker", type=click.IntRange(min=1), default=4, show_default=True,
    help="Of them, those that one broker takes part in: it gets a replica, or is copied from.",
)  # fmt: skip
@click.option("--throttle", type=RateArgument(), help="What each broker may spend on the moves, a second: 50MB.")
@click.option("--additional", is_flag=True, help="Begin although moves that are not of this plan are under way.")
@TIMEOUT
@DRY_RUN
@OUTPUT
def apply(
    path: Path, bootstrap: str, max_moves: int, max_moves_per_broker: int, throttle: float | None, additional: bool,
    timeout: float | None, dry_run: bool, output: str,
) -> None:  # fmt: skip
    """Carry out a plan, a few moves at once, and stay until it is done.

    \b
    moldau reassign apply --plan plan.json --throttle 50MB --max-moves 4

    A journal beside the plan (plan.json.journal) says what was before and what has been set, so that after whatever
    killed it the same command goes on. Throttles that somebody else has set stay as they are; ours are taken away
    at the end. Exit 0: all as planned; 1: something was refused; 3: paused, or time is up; 4: somebody else has moved
    a partition meanwhile.
    """
    plan = read(path, plans.parse)
    named = read(path, plans.directories_in)  # what is wrong with them is said before anything is begun

    def begin(talk: Talk) -> Journal:
        demand_cluster(talk, path)
        journal = known(path, talk, plan)
        if journal is not None and journal.plan != plan:  # another plan, made where one was that has ended
            journal = None
        if journal is not None and journal.state not in (RUNNING, *ENDED):
            fail(
                f"the plan is {journal.state}: `moldau reassign {VERBS[journal.state]} --plan {path}` goes on with that"
            )
        now = current(talk, {p.topic for p in plan}, plan)
        moving = under_way(talk, None).keys()
        taken = moving & plan.keys()
        if taken and (journal is None or journal.state in ENDED):
            are = counted(len(taken), "of its partitions is", "of its partitions are")
            fail(f"{are} being moved already, not by this plan: {min(taken)} ...")
        if journal is None:
            placed = directories.current(talk, now)
            journal = Journal(cluster=talk.cluster.cluster_id() or "", plan=plan, before=now, before_placed=placed)
        elif journal.state in ENDED:
            journal.begin_again(now, directories.current(talk, now))
        foreign = moving - plan.keys()
        if foreign and not additional:
            are = counted(len(foreign), "move that is not of this plan is", "moves that are not of this plan are")
            fail(f"{are} under way; --additional begins all the same")
        _demand_alive(talk, plan, now)
        if lines := directories.absent(talk, named):
            fail(f"{lines[0]}; nothing was begun")
        journal.state = RUNNING
        journal.max_moves, journal.max_moves_per_broker = max_moves, max_moves_per_broker
        journal.rate = None if throttle is None else int(throttle)
        if not dry_run:
            journals.write(path, journal)
        return journal

    with _mine(path, LOOKED_AT_S), Talk(bootstrap) as talk:
        journal = begin(talk)
        if dry_run:
            _show_what_would_be(talk, journal, path, output)
            return
        _carry(talk, path, journal, timeout, output)


@click.command()
@SERVERS
@PLAN
@TIMEOUT
@DRY_RUN
@OUTPUT
def pause(path: Path, bootstrap: str, timeout: float | None, dry_run: bool, output: str) -> None:
    """Begin no more moves of a plan. Waits for those that are under way, and takes the throttles away."""
    if dry_run:
        _would(path, bootstrap, PAUSED, (RUNNING, PAUSED), output)
        return
    with _wished(path, bootstrap, PAUSED, (RUNNING, PAUSED)) as (talk, journal):
        with _words(path):
            carrier = Carrier(talk, path, journal, {}, timeout)
            code = carrier.wait_for_the_moves()
            _show_how_it_is(carrier, output)
        raise SystemExit(code)


@click.command()
@SERVERS
@PLAN
@TIMEOUT
@DRY_RUN
@OUTPUT
def resume(path: Path, bootstrap: str, timeout: float | None, dry_run: bool, output: str) -> None:
    """Go on with a plan that was paused, as it was begun, and stay until it is done."""
    if dry_run:
        _would(path, bootstrap, RUNNING, (PAUSED,), output)
        return
    with _wished(path, bootstrap, RUNNING, (PAUSED,)) as (talk, journal):
        _carry(talk, path, journal, timeout, output)


@click.command()
@SERVERS
@PLAN
@TIMEOUT
@DRY_RUN
@YES
@OUTPUT
def rollback(path: Path, bootstrap: str, timeout: float | None, dry_run: bool, yes: bool, output: str) -> None:
    """Take everything back to where it was before the plan: what is under way is called off, what is done moves back.

    With the limits and the throttle with which the plan was begun.
    """
    every = (RUNNING, PAUSED, CANCELLING, ROLLING_BACK, *ENDED)
    if dry_run:
        _would(path, bootstrap, ROLLING_BACK, every, output)
        return
    with Talk(bootstrap) as talk:
        _applied(path, talk, every)  # who has nothing to take back is not asked
    confirm(f"Take back all that {path} has moved?", yes)
    with _wished(path, bootstrap, ROLLING_BACK, every) as (talk, journal):
        with _words(path):
            Carrier(talk, path, journal, {}, timeout).call_off()
        _carry(talk, path, journal, timeout, output)


def cancel_plan(path: Path, bootstrap: str, timeout: float | None, dry_run: bool) -> None:
    """Call off what a plan that is being applied has under way; what is done stays."""
    of = (RUNNING, PAUSED, CANCELLING, ROLLING_BACK)
    if dry_run:
        _would(path, bootstrap, CANCELLING, of, "text")
        return
    with _wished(path, bootstrap, CANCELLING, of) as (talk, journal), _words(path):
        carrier = Carrier(talk, path, journal, {}, timeout)
        note(f"{counted(carrier.call_off(), 'move')} called off.")
        carrier.cancelled(CANCELLED)


def is_applied(path: Path) -> bool:
    """Whether a plan has a journal of something that has not ended."""
    journal = _load(path)
    return journal is not None and journal.state not in ENDED


# ---- parts


def _carry(talk: Talk, path: Path, journal: Journal, timeout: float | None, output: str) -> None:
    """Carry out what the journal says, and end the command."""
    with _words(path):
        carrier = Carrier(talk, path, journal, placed_by(path, journal), timeout)
        code = carrier.carry_out(ROLLED_BACK if journal.is_going_back else DONE)
        _show_how_it_is(carrier, output)
    raise SystemExit(code)


def placed_by(path: Path, journal: Journal | None) -> Directories:
    """The log directories that the replicas of a plan are to be in: those that the plan names, or those from before it
    when it is taken back."""
    named = read(path, plans.directories_in)
    return journal.before_placed if journal is not None and journal.is_going_back else named


def _show_how_it_is(carrier: Carrier, output: str) -> None:
    """For programs; people are told on the way."""
    if output not in TABLES:
        show(carrier.rows(), output, COLUMNS)


def _throttles_stand(verb: str, plan: str) -> str:
    """What goes on would be throttled no more without them."""
    return (
        f"its throttles stand: `moldau reassign {verb} --plan {plan}` goes on, and takes them away at its end;"
        f" `moldau reassign verify --plan {plan}` takes them away when nothing is under way, and `moldau reassign"
        f" cancel --plan {plan}` calls off what is, and takes them away."
    )


@contextlib.contextmanager
def _words(path: Path) -> Iterator[None]:
    """What is told when a command ends before the plan does, also by a signal."""
    try:
        with caught_signals():
            yield
    except TakenOver as error:
        note(f"this ends here: the plan is {error.state} now, by another command.")
        raise SystemExit(IN_PROGRESS) from None
    except OutOfTime:
        named = shlex.quote(str(path))
        note(f"time is up. What is under way goes on; `moldau reassign status --plan {named}` tells how far it is.")
        journal = _load(path)
        if journal is not None and journal.throttles:
            note(_throttles_stand(VERBS.get(journal.state, "apply"), named))
        raise SystemExit(IN_PROGRESS) from None
    except BadJournal as error:
        fail(str(error))
    except KeyboardInterrupt:
        note(f"what is under way goes on; the same command, or `moldau reassign cancel --plan {path}`, ends it.")
        raise


@contextlib.contextmanager
def _mine(path: Path, wait_s: float) -> Iterator[None]:
    """While this process carries the plan out; ends the command when another one does, and goes on doing so."""
    with contextlib.ExitStack() as stack:
        for _ in Looks(wait_s):  # a lock can be waited for without end, or not at all: flock knows no time
            try:
                stack.enter_context(journals.held(path))
                break
            except Busy:
                continue
        else:
            fail(f"{path} is being applied by another process")
        yield


def _applied(path: Path, talk: Talk, of: tuple[str, ...]) -> Journal:
    """The journal of a plan that was begun, and is in one of these states; ends the command when there is none."""
    plan = read(path, plans.parse)
    journal = known(path, talk, plan)
    if journal is None or journal.plan != plan:
        fail(f"{path} was never applied: {journals.journal_of(path).name} does not tell of it")
    if journal.state not in of:
        if journal.state in VERBS and not journals.is_held(path):
            fail(
                f"the plan is {journal.state}, and nobody carries it out: "
                f"`moldau reassign {VERBS[journal.state]} --plan {path}` does"
            )
        fail(f"the plan is {journal.state}: `moldau reassign status --plan {path}` tells how far it is")
    return journal


def _would(path: Path, bootstrap: str, state: str, of: tuple[str, ...], output: str) -> None:
    """Show what would become of the partitions in another state of the plan; nothing is asked for."""
    with Talk(bootstrap) as talk:
        journal = _applied(path, talk, of)
        journal.state = state
        _show_what_would_be(talk, journal, path, output)


def _show_what_would_be(talk: Talk, journal: Journal, path: Path, output: str) -> None:
    now = current(talk, {p.topic for p in journal.goal}, journal.goal)
    moving = under_way(talk, list(journal.goal))
    placed = placed_by(path, journal) if journal.state in (RUNNING, ROLLING_BACK) else {}
    misplaced = directories.misplaced(talk, placed)
    rows = []
    for p, wanted in sorted(journal.goal.items()):
        is_there = now[p] == wanted
        would = IN_DIRECTORY if is_there and p in misplaced else _what(journal.state, is_there, p in moving)
        rows.append({
            "topic": p.topic, "partition": p.partition, "would": would, "replicas": now[p], "wanted": wanted,
        })  # fmt: skip
    show(rows, output, WOULD)


def _what(state: str, is_there: bool, moves: bool) -> str:
    """What would become of a partition: in Kafka a move can be called off, but not be halted."""
    if moves:
        return {CANCELLING: "be called off", ROLLING_BACK: "be called off, then move back"}.get(state, "go on moving")
    if is_there:
        return "stay"
    return {CANCELLING: "stay", PAUSED: "wait", ROLLING_BACK: "move back"}.get(state, "move")


@contextlib.contextmanager
def _wished(path: Path, bootstrap: str, state: str, of: tuple[str, ...]) -> Iterator[tuple[Talk, Journal]]:
    """Note what is wished, and take the place of the process that carries the plan out."""
    with Talk(bootstrap) as talk:
        _applied(path, talk, of)

        def change(one: Journal) -> None:
            one.state = state

        _updated(path, change)
        with _mine(path, HANDOVER_S):
            found = _load(path)
            assert found is not None
            yield talk, found


def _updated(path: Path, change: Callable[[Journal], None]) -> Journal:
    try:
        return journals.update(path, change)
    except BadJournal as error:
        fail(str(error))
        raise


def _load(path: Path) -> Journal | None:
    try:
        return journals.load(path)
    except BadJournal as error:
        fail(str(error), 2)
        raise


def known(path: Path, talk: Talk, plan: Plan) -> Journal | None:
    """The plan's journal; ends the command when it is of another cluster, or the plan is another one by now. One that
    has ended may be of an earlier plan in the same file."""
    journal, file = _load(path), journals.journal_of(path)
    if journal is None:
        return None
    cluster = talk.cluster.cluster_id() or ""
    if journal.cluster != cluster:
        fail(f"{file} is of cluster {journal.cluster}, and {talk.bootstrap} is cluster {cluster}")
    if journal.plan != plan and journal.state not in ENDED:
        fail(f"{path} has changed since it was begun: {file} is of another plan")
    return journal


def _demand_alive(talk: Talk, plan: Plan, now: Plan) -> None:
    """End the command when a replica is to go to a broker that is not there."""
    alive = talk.cluster.brokers()
    dead = sorted({r for p, wanted in plan.items() for r in wanted if r not in now[p] and r not in alive})
    if dead:
        fail(f"{not_alive(dead)}, and the plan gives {'it' if len(dead) == 1 else 'them'} replicas; nothing was begun")
