"""``moldau publish``: a cluster's state changes and metrics as topics of a cluster, by a process beside its nodes.

Every line of every node once, whatever is killed when; ``moldau.publishing`` tells how. Read next: asking.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import click

from moldau.admin.asking import Talk
from moldau.admin.completing import topics as complete_topics
from moldau.admin.main import fail, reason
from moldau.admin.options import DRY_RUN, DURATION, OUTPUT, SERVERS, client_config, refuse
from moldau.admin.output import note, show
from moldau.admin.produce import CODECS
from moldau.admin.signals import caught_signals
from moldau.admin.waiting import Looks

if TYPE_CHECKING:
    from moldau.publishing.figures import Figures
    from moldau.publishing.nodes import NodeFolder
    from moldau.publishing.stream import Stream
    from moldau.publishing.topic import ClusterTopic
    from moldau.wire.compression import Codec

PATIENCE_MS = 10_000
"""How long one try takes; what nobody took is tried again, for ever."""
LEAST_MS = 1_000
STATE_CHANGES, METRICS = "state-changes", "metrics"
COLUMNS = ("node", "lines", "left_bytes", "metrics", "page", "folder")


class PublishOptions(TypedDict):
    """What is published, and where to, as the options say it."""

    state_changes: str
    metrics: str
    only: str | None
    every: int
    pages: tuple[str, ...]
    replicas: int | None


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--state-changes", default="__moldau_state_changes", show_default=True, metavar="TOPIC",
    shell_complete=complete_topics, help="The topic of state changes.",
)  # fmt: skip
@click.option(
    "--metrics", default="__moldau_metrics", show_default=True, metavar="TOPIC", shell_complete=complete_topics,
    help="The topic of metrics.",
)  # fmt: skip
@click.option("--only", type=click.Choice((STATE_CHANGES, METRICS)), help="Publish nothing else.")
@click.option("--every", type=DURATION, default="10s", show_default=True, help="How often pages are asked for metrics.")
@click.option(
    "--page", "pages", multiple=True, metavar="NODE=HOST:PORT",
    help="Where a node's metrics are, if its server.properties does not say; repeat it.",
)  # fmt: skip
@click.option(
    "--replication-factor", "replicas", type=click.IntRange(1, 100),
    help="Of topics that are made (default: 3, or as many as there are brokers).",
)  # fmt: skip
@click.option("--once", is_flag=True, help="End when all that is in the files now is published.")
@click.option("--patient", is_flag=True, help="Wait for a cluster that does not answer yet, for ever.")
@DRY_RUN
@OUTPUT
@SERVERS
def publish(
    paths: tuple[str, ...],
    bootstrap: str,
    output: str,
    *,
    once: bool,
    patient: bool,
    dry_run: bool,
    **options: Unpack[PublishOptions],
) -> None:
    """Write the state changes and metrics of nodes to topics, as they come, until Ctrl-C or SIGTERM.

    PATHS are folders of nodes, or above them: what `moldau up` made, or the folders that `moldau node --logs` names.
    Every line of their state-change.jsonl becomes a record, once and in order for each node, through rotation and
    whatever is killed when: the next `publish` goes on where the topic ends. Of each page of metrics a record is
    written in each interval, also one that says that the page did not answer.

    \b
    moldau publish moldau-data --once
    moldau publish moldau-data --dry-run
    moldau publish moldau-data/node-1 --only state-changes --once
    moldau consume __moldau_state_changes --columns key,value

    Topics that are missing are made. A cluster that goes away is waited for; what nodes write meanwhile waits in their
    files. `moldau up --publish` starts this beside a cluster.
    """
    from moldau.publishing.stream import Away, NotTaken
    from moldau.wire.compression import BatchError

    nodes = _nodes(paths, options)
    found = nodes()
    with caught_signals(), ExitStack() as stack:
        try:
            publisher = _Publisher(stack, bootstrap, options, patient=patient)
            if dry_run:
                show(publisher.rows(found, look=True), output, COLUMNS)
                return
            _tell_pages(found, options)
            publisher.run(nodes, once=once)
            show(publisher.rows(found), output, COLUMNS)
        except KeyboardInterrupt:
            if once:
                raise
            return  # that is how it ends
        except (Away, NotTaken, BatchError) as error:
            fail(f"{bootstrap}: {error}")


def _nodes(paths: tuple[str, ...], options: PublishOptions) -> Callable[[], list[NodeFolder]]:
    """A function that looks for nodes, which has found some; ends the command when there are none."""
    from moldau.publishing.nodes import NoNodes, nodes_in, pages_of

    if options["every"] < LEAST_MS:
        refuse("--every: at least 1s")
    if options["state_changes"] == options["metrics"]:
        refuse(f"--state-changes and --metrics are both {options['metrics']}: a reader of either would get both")
    try:
        pages = pages_of(options["pages"])
    except ValueError as error:
        refuse(f"--page {error}")

    def nodes() -> list[NodeFolder]:
        return [one._replace(page=pages.get(one.node, one.page)) for one in nodes_in(paths)]

    try:
        found = nodes()
    except NoNodes as error:
        fail(str(error))
    except OSError as error:
        fail(reason(error))
    unknown = sorted(pages.keys() - {one.node for one in found})
    if unknown:
        there = ", ".join(str(one.node) for one in found)
        refuse(f"--page {unknown[0]}=...: there is no node {unknown[0]}, there are {there}")
    return nodes


def _tell_pages(found: list[NodeFolder], options: PublishOptions) -> None:
    """Name the nodes whose metrics nobody can ask for."""
    without = [str(one.node) for one in found if not one.page]
    if without and options["only"] != STATE_CHANGES:
        what = "its records of metrics say so" if len(without) == 1 else "their records of metrics say so"
        note(f"no http.listener is known of node {', '.join(without)}: {what}; --page NODE=HOST:PORT names one")


class _Publisher:
    """What is published, and how far it is."""

    def __init__(self, stack: ExitStack, bootstrap: str, options: PublishOptions, *, patient: bool) -> None:
        self._stack, self._bootstrap, self._options, self._patient = stack, bootstrap, options, patient
        self._written: dict[int, int] = {}
        self._streams: dict[int, Stream] = {}
        self._lines_topic = None if options["only"] == METRICS else self._topic("state_changes")
        self._metrics_topic = None if options["only"] == STATE_CHANGES else self._topic("metrics")

    def run(self, nodes: Callable[[], list[NodeFolder]], *, once: bool) -> None:
        """Until a signal comes, or (``once``) until what is there is written."""
        from moldau.publishing.figures import PAGE_S, Figures
        from moldau.publishing.running import MetricsThread, NodeStreams

        every_ms = self._options["every"]

        def pages() -> dict[int, str]:
            return {one.node: one.page for one in nodes()}

        figures = None
        if self._metrics_topic is not None:
            codec, timeout_s = self._compression(), min(PAGE_S, every_ms / 1000)
            figures = Figures(self._metrics_topic, every_ms=every_ms, codec=codec, timeout_s=timeout_s)
        thread = None if figures is None or once else MetricsThread(figures, pages, every_ms, note)
        if thread is not None:
            thread.start()

        def pause(pause_s: float) -> None:
            if thread is not None and not thread.is_alive:
                fail("metrics ended by an error, which stands above; whoever started this may start it again")
            time.sleep(pause_s)

        if self._lines_topic is not None:
            NodeStreams(nodes, self._stream, note).run(once=once, pause=pause)
        if once and figures is not None:
            self._write_once(figures, pages())
        while not once:  # the thread goes on
            pause(1.0)

    def rows(self, nodes: list[NodeFolder], *, look: bool = False) -> list[dict[str, object]]:
        """A row for each node; ``look``: how much is left is found out, and nothing was written."""
        rows: list[dict[str, object]] = []
        for one in nodes:
            stream = self._streams.get(one.node)
            if stream is None and look and self._lines_topic is not None:
                stream = self._stream(one)
            row: dict[str, object] = {"node": one.node, "lines": stream.lines if stream is not None else 0}
            row |= {"left_bytes": stream.left_bytes() if stream is not None else None}
            rows.append(row | {"metrics": self._written.get(one.node, 0), "page": one.page, "folder": one.folder})
        return rows

    def _topic(self, kind: Literal["state_changes", "metrics"]) -> ClusterTopic:
        from moldau.client.addresses import addresses
        from moldau.publishing import topic

        bootstrap = self._bootstrap
        try:
            first = addresses(bootstrap)[0] if self._patient else None
        except ValueError as error:
            fail(f"--bootstrap-server {bootstrap}: {error}", 2)
        talk = self._stack.enter_context(Talk(bootstrap, PATIENCE_MS, answered=first))
        like = topic.STATE_CHANGES if kind == "state_changes" else topic.METRICS
        return topic.ClusterTopic(talk.cluster, self._options[kind], like=like, replicas=self._options["replicas"])

    def _compression(self) -> Codec:
        from moldau.admin.client_config import BadClientConfig
        from moldau.wire.compression import Codec

        try:
            return Codec[client_config().one_of("compression.type", CODECS, "gzip").upper()]
        except BadClientConfig as error:
            refuse(f"--command-config {error}")

    def _stream(self, of: NodeFolder) -> Stream:
        from moldau.publishing.stream import Stream

        assert self._lines_topic is not None, "lines are published"
        stream = Stream(of.node, of.folder, self._lines_topic, now_ms=_now_ms, codec=self._compression(), say=note)
        self._streams[of.node] = stream
        return stream

    def _write_once(self, figures: Figures, pages: dict[int, str]) -> None:
        from moldau.publishing.running import ONCE_S
        from moldau.publishing.stream import Away

        figures.look(pages)
        for _ in Looks(ONCE_S):
            try:
                while figures.write():
                    pass
            except Away as error:
                last = error
                continue
            self._written = dict.fromkeys(pages, 1)
            return
        raise last


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
