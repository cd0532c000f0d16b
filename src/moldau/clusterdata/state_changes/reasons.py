"""Why a partition changed, seen from what lines tell before and after: no more than they prove.

A replica that leads without having been in the ISR that was told last was not always elected uncleanly: ISR changes may
be missing from the lines; the step that ends a move brings a new replica into the ISR and lets it lead; and Kafka 4's
controller may take an eligible leader replica, which lost nothing. An unclean election is named where a line says that
the leader has to recover (KIP-704, Kafka 3.2), and where a controller older than that wrote each version of the
partition's znode down: it had no other way to such a leader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.clusterdata.state_changes.eras import Event
from moldau.model.named import NamedTuple

_RECOVERY = re.compile(r"leaderRecoveryState[=:](RECOVER(?:ED|ING)|1\b)", re.IGNORECASE)
"""A request's 0 says nothing: it stands there also where the sender knew no such field."""
_ADDING = re.compile(r"adding ?replicas[ =]\[([\d, ]*)\]", re.IGNORECASE)
_REMOVING = re.compile(r"removing ?replicas[ =]\[([\d, ]*)\]", re.IGNORECASE)
_ZNODE_VERSION = re.compile(r"LeaderAndIsr\(.*zkVersion=\d")

Moving = tuple[frozenset[int], frozenset[int]]
"""The replicas that a reassignment adds and removes."""
NOT_MOVING: Moving = (frozenset(), frozenset())


class StateAfter(NamedTuple):
    """A partition after a change, as far as lines tell. ``recovering``: whether its leader was elected uncleanly and
    has not made good for it yet; ``replicas``: those that were told no later than this, empty where a change that is
    told of may have made others."""

    event: Event
    recovering: bool | None = None
    moving: Moving | None = None
    replicas: tuple[int, ...] = ()
    deleted: bool = False
    """Whether the topic is deleted later on, nobody knows when."""
    recovering_last: bool | None = None
    """``recovering`` as it was told last: a broker's line of a partition without leader tells nothing of it."""
    isr_last: tuple[int, ...] = ()
    """The ISR as it was told last; empty where it never was."""

    @property
    def isr(self) -> tuple[int, ...]:
        """The ISR; empty where it is not told."""
        return self.event.isr or ()

    @property
    def leader(self) -> int:
        """The leader."""
        assert self.event.leader is not None
        return self.event.leader


def recovering(event: Event) -> bool | None:
    """Whether a line says that the leader has to recover; None when it does not say."""
    found = _RECOVERY.search(event.text)
    return None if found is None else found[1].upper() != "RECOVERED"


def moving(event: Event) -> Moving | None:
    """Which replicas a line says are added and removed; None when it does not say."""
    adding, removing = _ADDING.search(event.text), _REMOVING.search(event.text)
    return None if adding is None or removing is None else (_ids(adding[1]), _ids(removing[1]))


def _ids(text: str) -> frozenset[int]:
    return frozenset(int(one) for one in text.replace(" ", "").split(",") if one)


def seen_from(before: StateAfter | None, now: StateAfter, in_sync_once: Iterable[int]) -> str:
    """What a change looks like. ``in_sync_once`` are the replicas that were told to be in sync at any time before."""
    if before is None:
        return _first(now.event)
    if now.leader < 0:
        return _offline(before, now)
    if _is_unclean(before, now):
        return f"unclean election: broker {now.leader} was not in sync"
    if (before.leader, before.isr) != (now.leader, now.isr) and (ended := _ended(before, now)) is not None:
        return ended
    if now.leader != before.leader:
        return _elected(before, now)
    was, isr = before.isr, now.isr
    if was and isr and set(was) != set(isr):
        if (ended := _both_ways(before, now)) is not None:
            return ended
        left, came = sorted(set(was) - set(isr)), sorted(set(isr) - set(was))
        known = set(in_sync_once)
        words = [f"broker {one} fell out of sync" for one in left]
        words += [f"broker {one} is in sync{' again' if one in known else ''}" for one in came]
        return ", ".join(words)
    return "leader epoch raised" if now.event.leader_epoch != before.event.leader_epoch else "state changed"


def _first(event: Event) -> str:
    is_made = event.leader_epoch == 0 and event.partition_epoch in (0, None)
    return "created" if is_made else "first that these logs tell"


def _offline(before: StateAfter, now: StateAfter) -> str:
    if before.leader < 0:
        return "still offline"
    if now.deleted:
        return f"offline: broker {before.leader} does not lead any more; the topic was deleted after that"
    return f"offline: broker {before.leader} left, and nobody in sync is alive"


def _is_next(before: StateAfter, now: StateAfter) -> bool:
    """Whether nothing can have changed in between."""
    epochs = before.event.partition_epoch, now.event.partition_epoch
    return epochs[0] is not None and epochs[1] is not None and epochs[1] - epochs[0] == 1


def _is_stranger(before: StateAfter, now: StateAfter) -> bool:
    """Whether the leader is another one, which was not in the ISR that was told last."""
    return now.leader != before.leader and bool(before.isr) and now.leader not in before.isr


def _is_unclean(before: StateAfter, now: StateAfter) -> bool:
    """Whether it is proved that the leader was elected without being in sync."""
    if now.recovering is not None:
        return now.recovering and (before.recovering_last is False or _is_stranger(before, now))
    return (
        _is_stranger(before, now)
        and _is_next(before, now)
        and set(now.isr) == {now.leader}
        and now.event.role == "Controller"
        and _ZNODE_VERSION.search(now.event.text) is not None
    )


def _ended(before: StateAfter, now: StateAfter) -> str | None:
    """The reason that a reassignment ended, where lines tell which replicas were being added and removed, and that none
    are."""
    if before.moving in (None, NOT_MOVING) or now.moving != NOT_MOVING or not now.isr:
        return None
    assert before.moving is not None
    adding, removing = before.moving
    if now.leader != before.leader and before.leader not in removing and not _is_next(before, now):
        return None  # it ended at some time in between, and something else made another lead
    if removing & set(now.isr) or not (removing or adding <= set(now.isr)):
        return "reassignment ended"
    if not removing:
        return "reassignment completed"
    return _no_replicas(removing)


def _no_replicas(gone: Iterable[int]) -> str:
    one, *more = sorted(gone)
    if not more:
        return f"reassignment completed: broker {one} is no replica any more"
    return f"reassignment completed: brokers {', '.join(map(str, (one, *more)))} are no replicas any more"


def _both_ways(before: StateAfter, now: StateAfter) -> str | None:
    """The reason of one decision that takes from the ISR and adds to it and leaves more than the leader in it, which
    nothing does but the end of a move; nor can a leader that stays be the only one that came."""
    was, isr = set(before.isr), set(now.isr)
    if not (_is_next(before, now) and was - isr and isr - was):
        return None
    if isr == {now.leader} and now.leader != before.leader:
        return None
    return _no_replicas(was - isr)


def _elected(before: StateAfter, now: StateAfter) -> str:
    """Why another leads."""
    if before.leader < 0:
        is_clean = now.leader in before.isr_last or (now.recovering is False and _is_next(before, now))
        doubt = "" if is_clean else "; not known whether it was in sync"
        return f"online again: broker {now.leader} is alive{doubt}"
    if _is_stranger(before, now):
        return _stranger(before, now)
    if now.isr and before.leader not in now.isr:
        return _both_ways(before, now) or f"broker {before.leader} left"
    if now.replicas and now.leader == now.replicas[0]:
        return f"preferred election: broker {now.leader} is the first replica"
    return "election"


def _stranger(before: StateAfter, now: StateAfter) -> str:
    """What is known of an election whose winner was not in the ISR that was told last, where it is not proved that the
    election was unclean."""
    epochs = before.event.partition_epoch, now.event.partition_epoch
    if epochs[0] is None or epochs[1] is None:
        return (
            f"not known: perhaps an unclean election, broker {now.leader} was not in sync when these logs last told,"
            " and without partition epochs nobody knows what they left out"
        )
    if not _is_next(before, now):
        return f"not known: decisions between partition epoch {epochs[0]} and {epochs[1]} are not in these logs"
    if (ended := _both_ways(before, now)) is not None:
        return ended
    if len(now.isr) > 1:
        return f"election: broker {now.leader} came in sync by the same decision"
    return (
        f"not known whether broker {now.leader} was in sync: it was not in the ISR told last, but the end of a"
        " reassignment looks the same, and these lines do not say that it has to recover"
    )
