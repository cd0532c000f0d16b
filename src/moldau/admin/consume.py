"""``moldau consume`` and ``moldau tail``: records of topics, to the ends that they have now, or as they come.

Alone, from a place; or as a member of a group, which remembers where it was. What is committed for a group is what was
printed, however the command ends. Read next: record_text.py (formats), starting.py (places).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from moldau.admin.asking import Talk, refused
from moldau.admin.completing import groups as complete_groups
from moldau.admin.completing import topics as complete_topics
from moldau.admin.main import fail
from moldau.admin.options import SERVERS, F, refuse
from moldau.admin.output import note
from moldau.admin.record_text import COLUMNS, FORMATS, formatter, readable
from moldau.admin.signals import Raised, Signals, caught_signals
from moldau.admin.starting import PLACE, StartingPoint, offsets
from moldau.admin.whole_records import Portion
from moldau.model.counted import counted
from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    from moldau.client.consumer import Chunk, Consumer
    from moldau.model import TopicPartition
    from moldau.wire.batch import Record

POLL_MS = 200
LEADERLESS_S = 15.0
"""How long a partition without a leader is waited for once nothing else comes; an election takes less."""
LOOK_S = 10.0
"""How often topics are asked for new partitions."""
TAILED = "timestamp,partition,offset,key,value"


class ReadOptions(TypedDict):
    """What the options of both commands say."""

    columns: tuple[str, ...]
    most: int | None
    group: str | None
    grep: str | None
    key: str | None
    header: str | None
    committed: bool
    output: str


def READ(command: F) -> F:
    """The options of both commands."""
    for option in reversed(
        (
            click.option("-n", "--max", "most", type=click.IntRange(min=1), metavar="N", help="End after N records."),
            click.option(
                "-g", "--group", metavar="ID", shell_complete=complete_groups, help="Share as a member of a group."
            ),
            click.option("--grep", metavar="REGEX", help="Only where key or value match."),
            click.option("-k", "--key", help="Only with this key."),
            click.option("-H", "--header", metavar="KEY[=VALUE]", help="Only with this header."),
            click.option(
                "--committed", is_flag=True, help="Leave out records of transactions that are open or aborted."
            ),
            click.option(
                "-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="How to print."
            ),
        )
    ):
        command = option(command)
    return command


def _columns(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COLUMNS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(COLUMNS)}", context, parameter)
    return names


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITIONS]...", shell_complete=complete_topics)
@click.option("--from", "place", type=PLACE, default="earliest", show_default=True, help="Where to begin.")
@click.option("--follow", is_flag=True, help="Do not end where the topics end now.")
@click.option("--columns", default="value", show_default=True, callback=_columns, help="Of text, with commas between.")
@READ
@SERVERS
def consume(
    topics: tuple[str, ...], bootstrap: str, place: StartingPoint, follow: bool, **options: Unpack[ReadOptions]
) -> None:
    """Read records of TOPICS from a place to where they end now.

    \b
    moldau consume orders
    moldau consume orders:0 --from 10 --max 5 --columns offset,key,value
    moldau consume orders --from -10m --grep paid -o json
    moldau consume orders --group billing --max 100
    """
    _read(topics, bootstrap, place, follow, options)


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITIONS]...", shell_complete=complete_topics)
@click.option("--from", "place", type=PLACE, default="latest", show_default=True, help="Where to begin.")
@click.option("--columns", default=TAILED, show_default=True, callback=_columns, help="Of text, with commas between.")
@READ
@SERVERS
def tail(topics: tuple[str, ...], bootstrap: str, place: StartingPoint, **options: Unpack[ReadOptions]) -> None:
    """Follow the records of TOPICS as they come, until Ctrl-C.

    \b
    moldau tail orders
    moldau tail orders --from -10m --grep 'paid|refund'
    moldau tail orders --from -5 --max 5 -o hex
    """
    _read(topics, bootstrap, place, True, options)


def _read(topics: tuple[str, ...], bootstrap: str, place: StartingPoint, follow: bool, options: ReadOptions) -> None:
    keep = _filter(options)
    with caught_signals(Raised.WHEN_REPEATED) as signals:
        try:
            with signals.raised(Raised.AT_ONCE):
                talk = Talk(bootstrap)
        except KeyboardInterrupt:
            note("0 records.")
            return
        with talk:
            reading = _Reading(talk, _consumer(talk, options, latest=place.kind == "latest"), options, keep, signals)
            try:
                with signals.raised(Raised.AT_ONCE):  # whatever is waited for; writing has a say of its own
                    if options["group"] is not None:
                        reading.join(topics, place)
                    else:
                        reading.assign(topics, place)
                    reading.run(follow, _Stop(signals))
            except KeyboardInterrupt:
                reading.go_back_to_what_was_written()
            except BaseException:
                reading.go_back_to_what_was_written()
                raise
            finally:
                reading.close()
            matched = f", {reading.seen} looked at" if reading.seen != reading.printed else ""
            note(f"{counted(reading.printed, 'record')}{matched}.")
    if reading.unread:
        named = ", ".join(map(str, reading.unread[:3])) + (", ..." if len(reading.unread) > 3 else "")
        topic = reading.unread[0].topic
        fail(f"{named}: no leader answers, so not read to the end that it has (`moldau topic describe {topic}`)")


class _Stop:
    """Asked for by Ctrl-C and SIGTERM; one that comes again after a while ends at once."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    @property
    def asked(self) -> bool:
        """Whether to end."""
        return self._signals.asked is not None


class _Place(NamedTuple):
    """Where reading goes on in a partition behind a record, and how many were looked at and printed with it."""

    partition: TopicPartition
    next_offset: int
    seen: int
    printed: int


class _Reading:
    """A consumer, what it has printed, and where it ends."""

    def __init__(
        self, talk: Talk, consumer: Consumer, options: ReadOptions, keep: Callable[[Record], bool], signals: Signals
    ) -> None:
        self.talk = talk
        self.seen = self.printed = self._wanted = 0
        self._keep = keep
        self._most: int | None = options["most"]
        self._show = formatter(options["output"], options["columns"])
        self._signals = signals
        self._consumer = consumer
        consumer.on_revoked = self._forget
        self._ends: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}
        """Where each partition goes on after all that has left this process."""
        self._topics: list[str] = []
        self.unread: list[TopicPartition] = []
        """Partitions that were not read to their end, as they have no leader."""
        self._quiet_since = time.monotonic()
        self._look_at = time.monotonic() + LOOK_S

    def assign(self, topics: tuple[str, ...], place: StartingPoint) -> None:
        """Read these partitions alone."""
        asked = sorted({one for text in topics for one in self.talk.partitions(text)})
        self._consumer.assign(offsets(self.talk, asked, place, without=self.unread))
        if self.unread:
            have = counted(len(asked), "partition has", "partitions have")
            note(f"{len(self.unread)} of {have} no leader that answers; the others are read")
        self._topics = [text for text in topics if ":" not in text]

    def join(self, topics: tuple[str, ...], place: StartingPoint) -> None:
        """Read as a member of the group."""
        if split := [text for text in topics if ":" in text]:
            refuse(f"{split[0]}: a group shares partitions out itself; name topics only")
        if place.kind not in ("earliest", "latest"):
            refuse("a group goes on where it was: --from is earliest or latest, for what it never committed")
        self.talk.existing(topics)
        self.talk.cluster.run(self._consumer.subscribe(topics))

    def run(self, follow: bool, stop: _Stop) -> None:
        """Print what comes, until it is enough."""
        while not stop.asked:
            self._written = {one: self._consumer.position(one) for one in self._consumer.assignment}
            chunks = self.talk.cluster.run(self._consumer.poll(POLL_MS))
            self._written |= {chunk.partition: chunk.offset for chunk in chunks}
            if not self._print(chunks, stop):
                for chunk in chunks:
                    self._go_back(chunk.partition, self._written[chunk.partition])
                return
            if chunks:
                self._quiet_since = time.monotonic()
            elif not follow and (self._is_at_end() or self._is_left_without_leaders()):
                return
            if follow and self._topics and time.monotonic() > self._look_at:
                self._take_new_partitions()

    def go_back_to_what_was_written(self) -> None:
        """Forget what was polled since: whoever reads our output may never get it, so it is not to be committed."""
        from moldau.client.reading import LATEST

        for one in self._consumer.assignment:
            self._consumer.seek(one, self._written.get(one, LATEST))

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        """Others read on in them: where they come back to us they may be further than what we have written."""
        for one in partitions:
            self._written.pop(one, None)

    def close(self) -> None:
        """Leave, committing what was printed where a group is to remember it."""
        if self._consumer.member is not None:
            self.talk.cluster.run(self._consumer.close())

    def _print(self, chunks: Collection[Chunk], stop: _Stop) -> bool:
        """Whether to go on."""
        return all(self._write(portion) for portion in self._portions(chunks, stop)) and not self._is_enough(stop)

    def _is_enough(self, stop: _Stop) -> bool:
        return stop.asked or self._wanted == self._most

    def _portions(self, chunks: Collection[Chunk], stop: _Stop) -> Iterator[Portion[_Place]]:
        """What is to be printed, and where reading goes on behind each record, until it is enough."""
        portion: Portion[_Place] = Portion()
        try:
            for chunk in chunks:
                for place, shown in self._places(chunk):
                    if portion.add(place, shown):
                        yield portion
                        portion = Portion()
                    if self._is_enough(stop):
                        yield portion
                        return
        except (Exception, SystemExit):
            yield portion
            raise
        yield portion

    def _places(self, chunk: Chunk) -> Iterator[tuple[_Place, bytes]]:
        from moldau.model import Code

        partition = chunk.partition
        if chunk.fetched.code is not Code.NONE:
            refused(f"{partition} at offset {chunk.offset}", chunk.fetched.code)
        for record in readable(partition, chunk.records(self._consumer.options.isolation)):
            is_wanted = self._keep(record)
            self._wanted += is_wanted
            shown = self._show(partition, record) if is_wanted else b""
            yield _Place(partition, record.offset + 1, 1, int(is_wanted)), shown
        yield _Place(partition, chunk.fetched.next_offset, 0, 0), b""

    def _write(self, portion: Portion[_Place]) -> bool:
        """Whether it could be written before a signal came."""
        with self._signals.raised(Raised.NOT):
            try:
                portion.write(sys.stdout, self._signals, self._stay)
            except KeyboardInterrupt:
                return False
            finally:
                for place in portion.written:
                    self._written[place.partition] = place.next_offset
                    self.seen += place.seen
                    self.printed += place.printed
        return True

    def _stay(self) -> None:
        self.talk.cluster.run(self._consumer.stay())

    def _go_back(self, partition: TopicPartition, offset: int) -> None:
        if partition in self._consumer.assignment:
            self._consumer.seek(partition, offset)

    def _is_at_end(self) -> bool:
        """Whether all partitions were read to where they ended when they were first looked at."""
        from moldau.client.reading import LATEST

        mine = self._consumer.assignment
        if not mine:
            return False
        new = {one: LATEST for one in mine if one not in self._ends and self._consumer.position(one) >= 0}
        if new:
            found = self.talk.cluster.offsets(new, isolation=self._consumer.options.isolation)
            self._ends.update((one, found[one].offset) for one in new)
        return not self._unfinished()

    def _unfinished(self) -> list[TopicPartition]:
        """Partitions whose end was not reached, or is not known yet."""
        position, ends = self._consumer.position, self._ends
        return [one for one in sorted(self._consumer.assignment) if one not in ends or position(one) < ends[one]]

    def _is_left_without_leaders(self) -> bool:
        """Whether nothing has come for a while, and all that is left to read has no leader: that is ``unread`` then."""
        if time.monotonic() < self._quiet_since + LEADERLESS_S:
            return False
        unfinished = self._unfinished()
        unled = self._without_leader(unfinished)
        if not unled or len(unled) < len(unfinished):
            return False
        self.unread = unled
        return True

    def _without_leader(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """The partitions that have no leader now."""
        there = self.talk.cluster.topics(sorted({one.topic for one in partitions})) if partitions else {}
        return [one for one in partitions if one.topic in there and self.talk.cluster.client.view.leader(one) is None]

    def _take_new_partitions(self) -> None:
        """Begin to read what topics have got since, from its first record on."""
        from moldau.client.reading import EARLIEST
        from moldau.model import TopicPartition

        self._look_at = time.monotonic() + LOOK_S
        mine = {one: self._consumer.position(one) for one in self._consumer.assignment}
        known = self.talk.cluster.topics(self._topics)
        there = {TopicPartition(name, number) for name, topic in known.items() for number in topic.partitions}
        if new := there - set(mine):
            note(f"new partitions: {', '.join(map(str, sorted(new)))}")
            self._consumer.assign({**mine, **dict.fromkeys(new, EARLIEST)})


def _consumer(talk: Talk, options: ReadOptions, *, latest: bool) -> Consumer:
    from moldau.admin.client_config import BadClientConfig
    from moldau.client.consumer import Consumer, ConsumerOptions
    from moldau.client.membership import GroupOptions
    from moldau.client.reading import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED

    config = talk.config
    try:
        isolation = config.one_of("isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted")
        group = None
        if options["group"] is not None:
            group = GroupOptions(
                group_id=options["group"],
                instance_id=config.text("group.instance.id") or None,
                session_timeout_ms=config.integer("session.timeout.ms", 45_000),
                rack=config.text("client.rack") or None,
            )
        settings = ConsumerOptions(
            group=group,
            reset=LATEST if latest else EARLIEST,
            isolation=READ_COMMITTED if options["committed"] or isolation == "read_committed" else READ_UNCOMMITTED,
            max_bytes=config.integer("fetch.max.bytes", 50 << 20),
            partition_max_bytes=config.integer("max.partition.fetch.bytes", 1 << 20),
            min_bytes=config.integer("fetch.min.bytes", 1),
            max_wait_ms=config.integer("fetch.max.wait.ms", 100),
            rack=config.text("client.rack"),
        )
    except BadClientConfig as error:
        refuse(f"--command-config {error}")
    return Consumer(talk.cluster.client, settings)


def _filter(options: ReadOptions) -> Callable[[Record], bool]:
    """Whether a record is wanted."""
    key = None if options["key"] is None else options["key"].encode()
    name, equals, value = (options["header"] or "").partition("=")
    try:
        pattern = None if options["grep"] is None else re.compile(options["grep"].encode())
    except re.error as error:
        refuse(f"--grep {options['grep']}: {error}")

    def keep(record: Record) -> bool:
        if key is not None and record.key != key:
            return False
        if name and not any(k == name and (not equals or v == value.encode()) for k, v in record.headers):
            return False
        return pattern is None or any(pattern.search(data) for data in (record.key, record.value) if data is not None)

    return keep
