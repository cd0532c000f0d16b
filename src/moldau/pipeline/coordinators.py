"""Asks all coordinators of groups at once: one that answers late, or not at all, holds up its own groups only.

Each is asked on a thread, over connections of its own. Read next: groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from moldau.client.client import PATIENT_MS, ClientOptions
from moldau.client.groups import coordinators, groups_of
from moldau.client.lines import ConnectionOptions
from moldau.client.sync import Cluster, Refused

T = TypeVar("T")

Unanswered = dict[str, str]
"""Why nothing is known of a group, or of a broker's groups, by its name."""


def patient(bootstrap: str) -> Cluster:
    """A client that waits as long as who only looks does."""
    connection = ConnectionOptions(request_timeout_ms=PATIENT_MS, connect_timeout_ms=PATIENT_MS)
    return Cluster(bootstrap, connection=connection, options=ClientOptions(api_timeout_ms=PATIENT_MS))


def all_groups(bootstrap: str) -> tuple[dict[int, list[str]], Unanswered]:
    """The groups of a cluster by the broker that coordinates them. OSError when no broker answers."""
    with patient(bootstrap) as cluster:
        brokers = list(cluster.brokers())
    asked = {id: [str(id)] for id in brokers}
    found, unanswered = at_once(bootstrap, asked, lambda one, id: one.run(groups_of(one.client, int(id))))
    theirs = {int(id): [one.group_id for one in listed] for id, listed in found.items()}
    return theirs, {f"broker {id}": f"its groups are not known: {why}" for id, why in unanswered.items()}


def by_coordinator(bootstrap: str, groups: Collection[str]) -> tuple[dict[int, list[str]], Unanswered]:
    """Who coordinates these groups, which need not be there. OSError when no broker answers."""
    with patient(bootstrap) as cluster:
        found, refused = cluster.run(coordinators(cluster.client, groups))
    theirs: dict[int, list[str]] = {}
    for group, id in found.items():
        theirs.setdefault(id, []).append(group)
    return theirs, {group: f"no coordinator: {code.name}" for group, code in refused.items()}


def at_once(
    bootstrap: str, groups: Mapping[int, Sequence[str]], work: Callable[[Cluster, str], T]
) -> tuple[dict[str, T], Unanswered]:
    """What ``work`` gives for each group, all coordinators at once; and of which there is no answer. When one does not
    answer in time, its other groups are not waited for."""
    if not groups:
        return {}, {}
    with ThreadPoolExecutor(len(groups)) as threads:
        parts = list(threads.map(partial(_one_after_the_other, bootstrap, work=work), groups.values()))
    found: dict[str, T] = {}
    unanswered: Unanswered = {}
    for answers, missing in parts:
        found |= answers
        unanswered |= missing
    return found, unanswered


def _one_after_the_other(
    bootstrap: str, groups: Sequence[str], work: Callable[[Cluster, str], T]
) -> tuple[dict[str, T], Unanswered]:
    found: dict[str, T] = {}
    unanswered: Unanswered = {}
    with patient(bootstrap) as cluster:
        for number, group in enumerate(groups):
            try:
                found[group] = work(cluster, group)
            except Refused as error:
                unanswered[group] = str(error)
            except OSError as error:
                unanswered |= dict.fromkeys(groups[number:], str(error))
                break
    return found, unanswered
