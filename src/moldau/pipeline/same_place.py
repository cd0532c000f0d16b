"""Which parts of a pipeline name one place: what it reads, what it writes, and the folder of its checkpoint and books.

A place may be spelled in many ways (``t``, ``./x/../t/``, ``file:///srv/t``, a link, another address of one cluster).
URIs of stores are compared as they stand, but for what surely is the same: a slash at the end, s3a:// and s3://.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from moldau.pipeline.spec import Pipeline, TableSink, TopicSink

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_TOPIC = "{topic}"
_NAME = "[a-zA-Z0-9._-]{1,249}"
_LOOPBACK = ("localhost", "::1")
NO_END = "it would never come to an end"


class Clash(NamedTuple):
    """Two parts that name one place, or one within the other; ``path`` is the part of the file to mend."""

    path: str
    message: str
    error: bool = True


class SamePlaceError(Exception):
    """A pipeline whose parts name one place; the message has one line for each."""


class WrittenTopic(NamedTuple):
    """A topic that is written: by which part of the file, what that is, the topic's name there and its own, and the
    cluster, an empty text where nothing says it."""

    path: str
    what: str
    name: str
    topic: str
    cluster: str


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as a part of the pipeline names it: ``keys`` say where it is, the first of them the place itself."""

    path: str
    what: str
    name: str
    keys: tuple[str, ...]


def refuse_same_places(pipeline: Pipeline) -> None:
    """SamePlaceError where two parts of a pipeline name one place."""
    wrong = [one.message for one in clashes(pipeline) if one.error]
    if wrong:
        raise SamePlaceError("\n".join(f"pipeline {pipeline.name}: {text}" for text in wrong))


def clashes(pipeline: Pipeline) -> list[Clash]:
    """Every place that two parts of the pipeline share."""
    tables = [*_tables(pipeline)]
    many = _Many([one.keys[0] for one in tables if _TOPIC in one.keys[0]], pipeline.source.pattern)
    tables = [replace(one, keys=(*one.keys, *many.of(one.keys[0]))) for one in tables]
    found = [*_of_topics(pipeline), *_of_tables(tables), *_of_folder(tables, pipeline.folder, many)]
    return list(dict.fromkeys(found))


def identity(place: str, options: Mapping[str, str] | None = None) -> str:
    """The same text for each spelling of a folder's path or URI; other texts for stores behind different endpoints."""
    if place.startswith("file:"):
        place = "/" + place.removeprefix("file:").lstrip("/")
    if "://" not in place:
        return os.path.realpath(place) if "\0" not in place else place
    scheme = place.partition("://")[0].lower()
    scheme = _SCHEMES.get(scheme, scheme)
    endpoint = (options or {}).get("AWS_ENDPOINT_URL", "").rstrip("/")
    rest = place.partition("://")[2].rstrip("/")
    return f"{scheme}://{rest}" + (f" at {endpoint}" if endpoint else "")


class _Many:
    """Tables with ``{topic}`` whose topics a pattern gives, and not a list."""

    def __init__(self, templates: Sequence[str], pattern: str | None) -> None:
        self._templates = {
            one: re.compile(f"{re.escape(before)}({_NAME}){re.escape(after)}")
            for one in templates
            for before, _, after in [one.partition(_TOPIC)]
        }
        self._matches: Callable[[str], object] = lambda topic: None
        if pattern is not None and templates:
            from moldau.spark.given import OptionError
            from moldau.spark.options import java_pattern

            with contextlib.suppress(OptionError):  # the source tells of it
                self._matches = java_pattern(pattern).search

    def of(self, key: str) -> list[str]:
        """The tables, one of whose topics' tables lies there."""
        found = [(one, pattern.fullmatch(key)) for one, pattern in self._templates.items()]
        return [one for one, match in found if match is not None and self._matches(match[1])]


# --- tables and the folder


def _tables(pipeline: Pipeline) -> Iterator[_Table]:
    """The tables that are read and written; one with ``{topic}`` once for each topic that is named."""
    feed, letters = pipeline.source.feed, pipeline.dead_letters
    if feed is not None:
        keys = _keys(feed.table, feed.format, feed.options)
        yield _Table("source", "source", feed.table, keys)
    for at, sink in enumerate(pipeline.sinks):
        if not isinstance(sink, TableSink):
            continue
        for topic in pipeline.source.topics or (_TOPIC,):
            place = sink.table.replace(_TOPIC, topic)
            yield _Table(f"sinks[{at}]", "a sink", place, _keys(place, sink.format, sink.options))
            if _TOPIC not in sink.table:
                break
    if letters.table is not None:
        yield _Table("dlq", "dlq", letters.table, (identity(letters.table), letters.table))


def _keys(place: str, format: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """What says where a table is: its folder, how books call it, and of Iceberg its name in the catalog."""
    where = identity(place, options)
    if format != "iceberg":
        return (where, place)
    name = options.get("identifier") or f"default.{place.rstrip('/').rsplit('/', 1)[-1]}"
    return (where, place, f"iceberg {options.get('catalog', '')} {options.get('uri', '')} {name}")


def _of_tables(tables: Sequence[_Table]) -> Iterator[Clash]:
    """Tables that are one, and those that lie in another."""
    seen: dict[str, _Table] = {}
    for one in tables:
        for key in one.keys:
            other = seen.setdefault(key, one)
            if other is one:
                continue
            why = f"{one.name} is written by two parts of the pipeline"
            if other.path == one.path:
                why = f"its options.identifier names one table, {_TOPIC} many"
            elif other.path == "source":
                why = f"table {one.name} is what the pipeline reads"
            same = "" if other.path == one.path or other.name == one.name else f": it is the same table as {other.name}"
            yield Clash(one.path, f"{one.what}: {why}{same}")
            break
    for one in tables:
        for above in _above(one.keys[0]):
            outer = seen.get(above)
            if outer is not None and outer.keys[0] == above:
                why = f"lies in the table {outer.name}: a vacuum of that one removes its files"
                yield Clash(one.path, f"{one.what}: {one.name} {why}", False)


def _of_folder(tables: Sequence[_Table], name: str, many: _Many) -> Iterator[Clash]:
    """Tables in the folder of the checkpoint and the books, and that folder in a table."""
    if not name:  # neither a folder nor a name that is one, which is told already
        return
    folder = identity(name)
    above = [folder, *_above(folder)]
    above += [template for one in above for template in many.of(one)]
    for one in tables:
        if one.keys[0] == folder:
            yield Clash(one.path, f"{one.what}: table {one.name} is the pipeline's own folder")
        elif folder in _above(one.keys[0]):
            yield Clash(one.path, f"{one.what}: table {one.name} lies in the pipeline's own folder {name}")
        elif one.keys[0] in above:
            yield Clash(one.path, f"{one.what}: the pipeline's own folder {name} lies in the table {one.name}")


def _above(key: str) -> Iterator[str]:
    """The folders that a folder lies in, the nearest first."""
    place, _, endpoint = key.partition(" at ") if "://" in key else (key, "", "")
    top = place.find("://") + 3 if "://" in place else 1
    while (end := place.rfind("/", top)) > 0:
        place = place[:end]
        yield f"{place} at {endpoint}" if endpoint else place


# --- topics


def _of_topics(pipeline: Pipeline) -> Iterator[Clash]:
    """Topics that are written twice, or written and read."""
    ours = servers(pipeline.source.options.get("kafka.bootstrap.servers") or _cluster(pipeline))
    seen: dict[str, list[tuple[frozenset[str], str]]] = {}
    for path, what, name, topic, cluster in topics_of(pipeline):
        there = servers(cluster)
        others = seen.setdefault(topic, [])
        for at, other in others:
            if at & there:
                same = "" if name == other else f": it is the same topic as {other}"
                yield Clash(path, f"{what}: {name} is written by two parts of the pipeline{same}")
                break
        others.append((there, name))
        if there & ours and reads(pipeline, topic):
            yield Clash(path, f"{what}: topic {name} is what the pipeline reads{_by(pipeline)}; {NO_END}")


def reads(pipeline: Pipeline, topic: str) -> bool:
    """Whether the source reads topics of this name."""
    pattern = pipeline.source.pattern
    if pattern is None:
        return topic in pipeline.source.topics
    from moldau.spark.given import OptionError
    from moldau.spark.options import java_pattern

    try:
        return java_pattern(pattern).search(topic) is not None
    except OptionError:  # the source tells of it
        return False


def _by(pipeline: Pipeline) -> str:
    pattern = pipeline.source.pattern
    return "" if pattern is None else f", by its pattern {pattern!r} (which is searched for anywhere in a name)"


def topics_of(pipeline: Pipeline) -> Iterator[WrittenTopic]:
    """The topics that are written."""
    ours = _cluster(pipeline)
    for at, sink in enumerate(pipeline.sinks):
        if isinstance(sink, TopicSink):
            cluster = sink.options.get("kafka.bootstrap.servers") or sink.cluster or ours
            yield WrittenTopic(f"sinks[{at}]", "a sink", sink.name, sink.topic, cluster)
    if pipeline.dead_letters.topic is not None:
        yield WrittenTopic("dlq", "dlq", pipeline.dead_letters.topic, pipeline.dead_letters.topic, ours)


def _cluster(pipeline: Pipeline) -> str:
    return pipeline.cluster or os.environ.get("MOLDAU_BOOTSTRAP", "")


def servers(bootstrap: str) -> frozenset[str]:
    """The addresses of a list, of which two clusters have none in common; all names of this machine are one."""
    found = set[str]()
    for one in bootstrap.split(","):
        host, _, port = one.strip().lower().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        found.add(f"{'127.0.0.1' if host in _LOOPBACK else host}:{port}")
    return frozenset(found)
