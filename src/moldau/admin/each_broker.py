"""What only a broker itself can tell: its settings, what is in its log directories. Each is asked, those that answer.

A broker that takes connections and says nothing (its process is held by a signal, its disk hangs) costs seconds and a
note, and what the others say is told all the same. Read next: asking.py, brokers.py.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from moldau.admin.asking import Talk, note, silent_brokers

if TYPE_CHECKING:
    from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsResponse

    Told = dict[int, list[DescribeLogDirsResponse.DescribeLogDirsResult]]
    """Log directories by broker."""

DIRECTORIES_S = 10.0
"""How long a broker that answers may take to tell what is in its directories."""


def answering(talk: Talk, ids: Collection[int], lacking: str) -> list[int]:
    """The brokers that answer, sorted; a note names each of the others, and what is lacking therefore."""
    silent = silent_brokers(talk, ids)
    for id, why in silent.items():
        note(f"broker {id} does not answer ({why}): {lacking}")
    return [id for id in sorted(ids) if id not in silent]


def told_directories(talk: Talk, ids: Collection[int]) -> Told:
    """What these brokers tell of their log directories; a note names each that does not tell."""
    from moldau.client import admin
    from moldau.client.lines import UnsupportedApi
    from moldau.client.sync import Refused

    lacking = "what is in its directories is not known"
    found: Told = {}
    there = answering(talk, ids, lacking)
    if not there:
        return found
    with talk.apart(int(1000 * DIRECTORIES_S)) as other:
        try:
            other.cluster.brokers()
        except (OSError, Refused, UnsupportedApi) as error:
            note(f"the brokers cannot be asked ({error}): {lacking}")
            return found
        for id in there:
            try:
                found |= other.ask(admin.describe_log_dirs, [id])
            except (OSError, Refused, UnsupportedApi) as error:
                note(f"broker {id} does not answer ({error}): {lacking}")
    return found
