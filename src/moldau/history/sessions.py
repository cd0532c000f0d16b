"""Tells records that a cluster wrote twice from records that a client sent twice.

An idempotent producer that begins a new epoch may send again, under new sequence numbers, what it sent under the old
one: librdkafka does so when a broker refuses a batch for the one ahead, or a record was too long under way. A cluster
cannot know that both are the same record; within one epoch of one producer it must (S16, KIP-98). Pure. Read next:
``checks.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from moldau.history.rows import INFO, OK, History, Read, Send

Session = tuple[int, int]
"""Producer id and epoch, as the batch on disk says; (-1, -1) without idempotence."""


def told_apart(
    history: History,
    sessions: Mapping[tuple[int, int], Session],
    may_resend: Callable[[Session], bool],
) -> tuple[History, int]:
    """Return the history with another name for each record that was resent in a newer session, and how many these are.

    Args:
        sessions: (partition, offset) -> the session that wrote there.
        may_resend: Whether the client had a reason of its own to send again what it had sent in that session.
    """
    copies: dict[tuple[int, str], list[Read]] = defaultdict(list)
    for read in history.final:
        copies[read.partition, read.value].append(read)
    sends = {(send.partition, send.value): send for send in history.sends}
    names: dict[tuple[int, int], str] = {}
    more: list[Send] = []
    for place, reads in copies.items():
        wrote = [sessions.get((read.partition, read.offset), (-1, -1)) for read in reads]
        if len(reads) < 2 or place not in sends or len(set(wrote)) < len(wrote):
            continue
        if not all(may_resend(session) for session in wrote[:-1]):
            continue
        send = sends[place]
        kept = send.offset if send.outcome == OK and send.offset >= 0 else reads[-1].offset
        for read, session in zip(reads, wrote, strict=True):
            if read.offset != kept:
                name = f"{read.value} in epoch {session[1]}"
                names[read.partition, read.offset] = name
                process = f"{send.process} in epoch {session[1]}"
                more.append(send._replace(process=process, value=name, outcome=INFO, offset=-1))
    if not names:
        return history, 0

    def renamed(reads: list[Read]) -> list[Read]:
        return [read._replace(value=names.get((read.partition, read.offset), read.value)) for read in reads]

    told = history._replace(sends=[*history.sends, *more], reads=renamed(history.reads), final=renamed(history.final))
    return told, len(more)
