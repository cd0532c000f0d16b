"""What comes next on the way from ZooKeeper to the quorum: a step machine. Pure; ``driver.py`` carries them out.

``step(state, event) -> (state, effects)``. One action is under way at a time, and its end is the next event; so
the order of the table is the order of the world: nothing is copied from a ZooKeeper whose controller still rules,
nothing is written to it before it has caught up with the log, and who does not rule the quorum does nothing at all.
Source: KIP-866 (the migration driver's states). Laws: ``laws.py``.
"""

from __future__ import annotations

from enum import Enum

from moldau.controller.migration import MigrationState
from moldau.model.named import NamedTuple


class MigrationStage(Enum):
    """Where the ruling controller stands."""

    OFF = "nothing to do"
    COUNT = "waiting until all controllers and brokers take part"
    CLAIM = "taking /controller"
    COPY = "copying what stands in ZooKeeper"
    COMPARE = "bringing ZooKeeper up to date"
    BOTH = "writing to the quorum and to ZooKeeper"


class MigrationMachine(NamedTuple):
    """``copied``: whether the log holds the cluster. ``said``: the last complaint, so that it is made once."""

    stage: MigrationStage = MigrationStage.OFF
    copied: bool = False
    said: str = ""


# ---- events


class MigrationRules(NamedTuple):
    """This controller rules the quorum; the log says how far the migration is."""

    state: MigrationState


class RulesNoMore(NamedTuple):
    """Another does, or none."""


class Counted(NamedTuple):
    """Who is missing, in words; nobody when empty."""

    missing: str


class Claimed(NamedTuple):
    """/controller is ours."""


class Copied(NamedTuple):
    """The quorum has committed everything that stood in ZooKeeper."""


class Compared(NamedTuple):
    """ZooKeeper says what the log says, and every decision since is on its way there."""


class Failed(NamedTuple):
    """An action failed, or what it had brought about is no more."""

    why: str


class PauseOver(NamedTuple):
    """The pause is over."""


Event = MigrationRules | RulesNoMore | Counted | Claimed | Copied | Compared | Failed | PauseOver


# ---- effects


class Action(Enum):
    """What the driver does; each of the first four ends with an event."""

    COUNT = "count who takes part"
    CLAIM = "take /controller"
    COPY = "copy"
    COMPARE = "compare and write what differs; then write every decision"
    SEND = "tell brokers in ZooKeeper mode everything, then every decision"
    STOP_WRITING = "write nothing more"
    STOP_SENDING = "send brokers nothing more"
    PAUSE = "try again in a while"


class Say(NamedTuple):
    """Words for the operator."""

    text: str
    is_trouble: bool = False


class EndNode(NamedTuple):
    """This node must not go on."""

    why: str


Effect = Action | Say | EndNode

_FROM_THE_START = "the cluster began in KRaft mode, and there is nothing to migrate: take the setting away"
_FINISHED = "the migration is finished; zookeeper.metadata.migration.enable has no effect any more"


def step(state: MigrationMachine, event: Event) -> tuple[MigrationMachine, list[Effect]]:
    """What an event means; one that does not fit the stage is late, and means nothing."""
    match event:
        case MigrationRules():
            return _begin(event.state)
        case RulesNoMore():
            return MigrationMachine(), [] if state.stage is MigrationStage.OFF else [
                Action.STOP_WRITING,
                Action.STOP_SENDING,
            ]
        case Failed() if state.stage is not MigrationStage.OFF:
            first = MigrationStage.CLAIM if state.copied else MigrationStage.COUNT
            said, words = _once(state, f"{state.stage.value}: {event.why}")
            return MigrationMachine(first, state.copied, said), [Action.STOP_WRITING, *words, Action.PAUSE]
        case PauseOver() if state.stage in (MigrationStage.COUNT, MigrationStage.CLAIM):
            return state, [Action.COUNT if state.stage is MigrationStage.COUNT else Action.CLAIM]
        case Counted() if state.stage is MigrationStage.COUNT:
            return _counted(state, event.missing)
        case Claimed() if state.stage is MigrationStage.CLAIM and not state.copied:
            return state._replace(stage=MigrationStage.COPY), [Action.COPY]
        case Claimed() if state.stage is MigrationStage.CLAIM:
            return state._replace(stage=MigrationStage.COMPARE), [Action.SEND, Action.COMPARE]
        case Copied() if state.stage is MigrationStage.COPY:
            text = "everything that stood in ZooKeeper is in the quorum's log, which leads from now on"
            return MigrationMachine(MigrationStage.COMPARE, copied=True), [Say(text), Action.SEND, Action.COMPARE]
        case Compared() if state.stage is MigrationStage.COMPARE:
            text = "ZooKeeper is up to date, and every decision is written there too"
            return MigrationMachine(MigrationStage.BOTH, copied=True), [Say(text)]
    return state, []


def _begin(found: MigrationState) -> tuple[MigrationMachine, list[Effect]]:
    match found:
        case MigrationState.PRE_MIGRATION:
            return MigrationMachine(MigrationStage.COUNT), [Action.COUNT]
        case MigrationState.MIGRATION:
            return MigrationMachine(MigrationStage.CLAIM, copied=True), [Action.CLAIM]
        case MigrationState.POST_MIGRATION:
            return MigrationMachine(), [Say(_FINISHED, is_trouble=True)]
    return MigrationMachine(), [EndNode(_FROM_THE_START)]


def _counted(state: MigrationMachine, missing: str) -> tuple[MigrationMachine, list[Effect]]:
    if not missing:
        text = "all controllers and brokers take part; the quorum takes over"
        return MigrationMachine(MigrationStage.CLAIM), [Say(text), Action.CLAIM]
    said, words = _once(state, missing)
    return state._replace(said=said), [*words, Action.PAUSE]


def _once(state: MigrationMachine, text: str) -> tuple[str, list[Effect]]:
    return text, [] if text == state.said else [Say(text, is_trouble=True)]
