"""Which nodes there are, and that nothing that goes wrong for one of them ends the others' publishing, or its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from moldau.publishing.following import names_of
from moldau.publishing.nodes import NodeFolder, NoNodes, nodes_in, pages_of
from moldau.publishing.running import ONCE_S, RESCAN_S, MetricsThread, NodeStreams, ProblemReporter
from moldau.publishing.stream import Away, NotTaken, StepResult


def node(folder: Path, settings: str = "", line: str = "") -> Path:
    logs = folder / "logs"
    logs.mkdir(parents=True)
    if settings:
        (folder / "server.properties").write_text(settings)
    if line:
        (logs / "state-change.jsonl").write_text(f"{line}\n")
    return logs


# ---- which nodes there are


def test_nodes_are_found_by_their_settings_or_by_their_first_line(tmp_path: Path) -> None:
    first = node(tmp_path / "node-1", "node.id=1\nhttp.listener=127.0.0.1:9308\n", '{"node":9}')
    second = node(tmp_path / "node-2", "broker.id = 2\n")
    third = node(tmp_path / "deep" / "node-3", line='{"time_ms":1,"node":3}')
    node(tmp_path / "none", line="no JSON")
    (tmp_path / "other" / "logs").mkdir(parents=True)
    found = [
        NodeFolder(1, str(first), "127.0.0.1:9308"),
        NodeFolder(2, str(second), ""),
        NodeFolder(3, str(third.parent / "logs"), ""),
    ]
    assert nodes_in([str(tmp_path)]) == found[:2]
    assert nodes_in([str(tmp_path), str(tmp_path / "deep")]) == found
    assert nodes_in([str(first)]) == found[:1]
    assert nodes_in([str(tmp_path), str(tmp_path / "node-1")]) == found[:2]


def test_what_holds_no_node_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    node(tmp_path / "a", line='{"node":1}')
    node(tmp_path / "b", line='{"node":1}')
    for name, why in (
        ("file", "is no folder"),
        ("gone", "is not there"),
        ("empty", "neither a state-change.jsonl nor"),
    ):
        with pytest.raises(NoNodes, match=f"{name}.*{why}"):
            nodes_in([str(tmp_path / name)])
    with pytest.raises(NoNodes, match="node 1 has two logs, in .*a/logs and in .*b/logs"):
        nodes_in([str(tmp_path)])


def test_pages_are_named_by_node() -> None:
    assert pages_of(["1=127.0.0.1:9308", "2=[::1]:9"]) == {1: "127.0.0.1:9308", 2: "[::1]:9"}
    for text in ("1", "x=a:1", "1=a", "1=:5", "1=a:b", "²=a:1"):
        with pytest.raises(ValueError, match="NODE=HOST:PORT"):
            pages_of([text])


def test_numbers_tell_the_order_of_files_and_times_where_others_named_them(tmp_path: Path) -> None:
    for name in ("state-change.jsonl", "state-change.jsonl.10", "state-change.jsonl.2", "state-change.jsonl.bak"):
        (tmp_path / name).write_text("")
    names = [Path(path).name.removeprefix("state-change.jsonl") for path in names_of(str(tmp_path))]
    assert names == [".10", ".2", ""]
    assert names_of(str(tmp_path / "gone")) == []


def test_what_bears_the_name_of_a_log_and_is_no_file_costs_nobody_anything(tmp_path: Path) -> None:
    """A pipe was waited for without end, a device read without end, and a folder ended the command."""
    logs = tmp_path / "node-1" / "logs"
    logs.mkdir(parents=True)
    (logs / "state-change.jsonl").write_text('{"node":1}\n')
    (logs / "state-change.jsonl.1").mkdir()
    os.mkfifo(logs / "state-change.jsonl.2")
    (logs / "state-change.jsonl.3").symlink_to("/dev/zero")
    (logs / "state-change.jsonl.4").symlink_to("state-change.jsonl.4")
    os.mkfifo(tmp_path / "node-1" / "server.properties")
    (tmp_path / "node-2" / "logs" / "state-change.jsonl").mkdir(parents=True)
    assert names_of(str(logs)) == [str(logs / "state-change.jsonl")]
    assert nodes_in([str(tmp_path)]) == [(1, str(logs), "")]


# ---- what goes wrong


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []
        self.until_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def pause(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s
        if self.now_s > self.until_s:
            raise KeyboardInterrupt


class One:
    """A stream that does what it is told, then has nothing to do."""

    def __init__(self, *does: StepResult | Exception, clock: Clock | None = None) -> None:
        self.does = list(does)
        self.steps: list[float] = []
        self.closed = False
        self.clock = clock

    def step(self) -> StepResult:
        self.steps.append(self.clock() if self.clock is not None else 0)
        done = self.does.pop(0) if self.does else StepResult.IDLE
        if isinstance(done, Exception):
            raise done
        return done

    def close(self) -> None:
        self.closed = True


def test_a_node_that_cannot_be_published_is_tried_again_with_pauses_that_grow_and_holds_up_nobody() -> None:
    clock, said = Clock(), list[str]()
    wrong = One(*[NotTaken("TOPIC_AUTHORIZATION_FAILED")] * 6, clock=clock)
    well = One(*[StepResult.BUSY] * 3, clock=clock)
    streams = {1: wrong, 2: well}
    lines = NodeStreams(
        lambda: [NodeFolder(id, f"n{id}", "") for id in streams], lambda of: streams[of.node], said.append, clock
    )
    with pytest.raises(KeyboardInterrupt):
        lines.run(once=False, pause=clock.pause)
    assert len(well.steps) > 100
    assert max(clock.pauses) < 1
    gaps = [after - before for before, after in zip(wrong.steps[:6], wrong.steps[1:7], strict=True)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 20 * gaps[0]
    assert said == [
        "state changes of node 1: TOPIC_AUTHORIZATION_FAILED; it is tried again",
        f"state changes of node 1: goes on after {sum(gaps):.0f} s",
    ]


def test_what_is_over_in_a_moment_is_not_told() -> None:
    said: list[str] = []
    told = ProblemReporter("it", said.append, lambda: 0.0)
    for _ in range(2):
        told.wrong(Away("no leader"))
    told.well()
    assert said == []
    for _ in range(4):
        told.wrong(Away("no leader"))
    told.wrong(FileNotFoundError(2, "No such file or directory", "here"))
    told.well()
    assert said == [
        "it: no leader; it is tried again",
        "it: here: No such file or directory; it is tried again",
        "it: goes on after 0 s",
    ]


def test_nodes_that_come_later_are_taken_in_and_a_log_that_moved_is_followed() -> None:
    clock, said = Clock(), list[str]()
    found = [NodeFolder(1, "here", "")]
    made: list[One] = []

    def stream(of: NodeFolder) -> One:
        made.append(One(clock=clock))
        return made[-1]

    def nodes() -> list[NodeFolder]:
        if clock.now_s > 4 * RESCAN_S:
            raise NoNodes("gone")
        if clock.now_s > 2 * RESCAN_S:
            return [NodeFolder(1, "there", ""), NodeFolder(2, "new", "")]
        return found

    with pytest.raises(KeyboardInterrupt):
        NodeStreams(nodes, stream, said.append, clock).run(once=False, pause=clock.pause)
    assert said == ["node 1: its state-change.jsonl is in there now"]
    assert [one.closed for one in made] == [True, False, False]
    assert made[2].steps[-1] > 4 * RESCAN_S


def test_who_publishes_once_ends_when_nothing_is_left_and_does_not_wait_for_ever() -> None:
    clock = Clock()

    def run(one: One) -> None:
        NodeStreams(lambda: [NodeFolder(1, "n", "")], lambda of: one, lambda text: None, clock).run(
            once=True, pause=clock.pause
        )

    run(One(StepResult.BUSY, Away("no leader"), StepResult.BUSY))
    with pytest.raises(NotTaken):
        run(One(NotTaken("no")))
    began_s = clock.now_s
    with pytest.raises(Away):
        run(One(*[Away("no leader")] * 1000))
    assert clock.now_s - began_s >= ONCE_S
    with pytest.raises(NoNodes):
        NodeStreams(lambda: nodes_in(["nowhere"]), lambda of: One(), lambda text: None, clock)


class Seen:
    """Metrics that end their thread after some intervals."""

    def __init__(self) -> None:
        self.looks = 0
        self.due = list[int | None]()
        self.thread: MetricsThread | None = None

    def look(self, pages: object, due_ms: int | None = None) -> None:
        self.looks += 1
        self.due.append(due_ms)
        if self.looks == 3:
            raise OSError("a folder is gone")

    def write(self) -> bool:
        if self.looks == 2:
            raise Away("no leader")
        if self.looks == 4:
            assert self.thread is not None
            self.thread.end()
        return False


def test_metrics_are_looked_at_whatever_goes_wrong_with_writing() -> None:
    seen, said = Seen(), list[str]()
    seen.thread = MetricsThread(seen, dict, 10, said.append)
    seen.thread.start()
    seen.thread._thread.join(60)
    assert not seen.thread.is_alive
    assert seen.looks == 4
    first, *others = seen.due
    assert first is None
    assert all(one is not None and one % 10 == 0 for one in others)
    assert len(set(others)) == 3


def test_what_looks_found_is_written_though_they_take_as_long_as_their_interval() -> None:
    """Beside a page that does not answer, nothing of any node was ever written with `--every 5s` or less."""
    clock = Clock()
    waiting, written = 0, 0

    class Slow:
        def look(self, pages: Mapping[int, str], due_ms: int | None = None) -> None:
            nonlocal waiting
            clock.now_s += 2.0
            waiting += 3

        def write(self) -> bool:
            nonlocal waiting, written
            waiting, written = waiting - 1, written + 1
            if written == 6:
                thread.end()
            return bool(waiting)

    thread = MetricsThread(Slow(), dict, 1_000, lambda text: None, lambda: int(clock.now_s * 1000))
    thread.start()
    thread._thread.join(60)
    assert not thread.is_alive
    assert (waiting, written) == (0, 6)
