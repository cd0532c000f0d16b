"""Topics that a pipeline is to write and that are not there: its sinks make none, and the first record for one would
end the run, of dead letters perhaps after days.

A batch with records for one is refused before anything of it is written: half of it would be in other places, and the
file as it was before an edit would be refused then.

Read next: positions.py (``plan``), running.py (a run says it when it begins).
"""

from __future__ import annotations

from moldau.client.client import ClientOptions
from moldau.pipeline.same_place import topics_of
from moldau.pipeline.spec import Pipeline

_LOOK_MS = 5_000
HOW = "is not in the cluster: a run ends at the first record for it; `moldau topic create {}` makes it"


class TopicAbsent(Exception):
    """A topic that a batch has records for is not there."""


def refuse_absent(cluster: str, topic: str) -> None:
    """TopicAbsent where the cluster says that it has no such topic; if it does not answer, the write says so."""
    from moldau.client.sync import Cluster, Refused

    try:
        with Cluster(cluster, options=ClientOptions(api_timeout_ms=_LOOK_MS)) as there:
            is_there = topic in there.topics([topic])
    except (OSError, Refused, ValueError):
        return
    if not is_there:
        raise TopicAbsent(
            f"topic {topic} is not in the cluster, and this batch has records for it; nothing of it was written."
            f" `moldau topic create {topic}` makes it"
        )


def absent_topics(pipeline: Pipeline) -> dict[str, str]:
    """The topics that are not there, as the file names them, with what that means; none of a cluster that does not
    answer, which is told elsewhere."""
    from moldau.client.sync import Cluster, Refused

    asked: dict[str, dict[str, str]] = {}
    for one in topics_of(pipeline):
        if one.cluster:
            asked.setdefault(one.cluster, {})[one.topic] = one.name
    found: dict[str, str] = {}
    for cluster, topics in asked.items():
        try:
            with Cluster(cluster, options=ClientOptions(api_timeout_ms=_LOOK_MS)) as there:
                known = there.topics()
        except (OSError, Refused, ValueError):
            continue
        found |= {name: HOW.format(topic) for topic, name in topics.items() if topic not in known}
    return found
