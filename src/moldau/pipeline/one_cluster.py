"""Topics that a pipeline reads and writes at addresses that have nothing in common, and that are of one cluster all the
same: by the address of another of its brokers, say. Addresses do not tell; the clusters' ids do.

Read next: same_place.py (what addresses tell), batches.py (which asks before anything of a batch is written).
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.client.client import ClientOptions
from moldau.pipeline.same_place import NO_END, SamePlaceError, WrittenTopic, reads, servers, topics_of
from moldau.pipeline.spec import Pipeline

_LOOK_MS = 5_000


def elsewhere(pipeline: Pipeline, cluster: str) -> Sequence[WrittenTopic]:
    """The topics that are written with the name of one that is read, or of another that is written, at addresses that
    are not those of it. ``cluster`` is read."""
    found = []
    written = list(topics_of(pipeline))
    for at, one in enumerate(written):
        there = servers(one.cluster)
        others = [servers(other.cluster) for other in written[:at] if other.topic == one.topic]
        if reads(pipeline, one.topic):
            others.append(servers(pipeline.source.options.get("kafka.bootstrap.servers") or cluster))
        if any(not there & other for other in others):
            found.append(one)
    return found


def refuse_one_cluster(pipeline: Pipeline, cluster: str) -> bool:
    """SamePlaceError where such a topic is one that is read or written otherwise, as the ids of clusters and topics
    tell. Whether all of them told; who does not answer is asked again by whoever writes."""
    suspects = elsewhere(pipeline, cluster)
    if not suspects:
        return True
    source = pipeline.source.options.get("kafka.bootstrap.servers") or cluster
    told = True
    for name in sorted({one.topic for one in suspects}):
        written = [one for one in topics_of(pipeline) if one.topic == name]
        addresses = {*([source] if reads(pipeline, name) else []), *(one.cluster for one in written)}
        ids = {one: _id_of(one, name) for one in addresses}
        told = told and None not in ids.values()
        seen: dict[tuple[str, bytes], WrittenTopic] = {}
        for one in written:
            id = ids[one.cluster]
            if id is None:
                continue
            if id == ids.get(source):
                raise SamePlaceError(
                    f"{one.what}: topic {one.name} is what the pipeline reads, since {one.cluster} and {source} are of"
                    f" one cluster (its id is {id[0]}); {NO_END}"
                )
            other = seen.setdefault(id, one)
            if other is not one:
                raise SamePlaceError(
                    f"{one.what}: {one.name} is written by two parts of the pipeline: it is the same topic as"
                    f" {other.name}, since both addresses are of one cluster (its id is {id[0]})"
                )
    return told


def _id_of(cluster: str, topic: str) -> tuple[str, bytes] | None:
    """The ids of the cluster at an address and of its topic (zeros where it has none); None where nobody says them."""
    from moldau.client.sync import Cluster, Refused

    try:
        with Cluster(cluster, options=ClientOptions(api_timeout_ms=_LOOK_MS)) as there:
            found, id = there.topics([topic]).get(topic), there.cluster_id()
    except (OSError, Refused, ValueError):
        return None
    return None if found is None or id is None else (id, found.topic_id)
