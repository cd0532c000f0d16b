"""The chaos rules: what a verdict needs, what an empty run is worth, and that every scenario says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from moldau.cluster.chaos import net
from moldau.cluster.chaos.checking import ScenarioOutcome, keep, longest_gap_s, report, strays, vacuous
from moldau.cluster.chaos.command import main
from moldau.cluster.chaos.net import INSIDE, CannotBreak
from moldau.cluster.chaos.nets import NAMESPACES, Links, open_net
from moldau.cluster.chaos.scenario_context import ACKS_MIN, PARTITIONS, Fault, ScenarioContext, ScenarioOptions
from moldau.cluster.chaos.scenarios.disks import DAMAGES, FileDamage
from moldau.cluster.chaos.scenarios.links import both_ways
from moldau.cluster.chaos.scenarios.table import SCENARIOS
from moldau.cluster.chaos.system import KAFKA, MOLDAU, Rig, RigOptions
from moldau.cluster.chaos.volumes import Plain, SmallVolume
from moldau.cluster.kills.checking import RunVerdict
from moldau.cluster.modes import QUORUM
from moldau.history.checks import LOST, Anomaly
from moldau.history.rows import INFO, OK, History, Send, read_lines

SEEN = Fault(1.0, "kill -9 node 1", "others lead", 0.5)
UNSEEN = Fault(1.0, "kill -9 node 1", "others lead")
HEALED = Fault(2.0, "start node 1")


def history(acks: int = ACKS_MIN) -> History:
    sends = [Send("p0", n, p, f"{p}-{n}", n, n + 1, OK, n) for p in range(PARTITIONS) for n in range(acks)]
    return History(sends, [], [], {}, [])


def outcome(anomalies: int = 0, doubts: int = 0) -> ScenarioOutcome:
    found = [Anomaly(LOST, f"number {n}") for n in range(anomalies)]
    return ScenarioOutcome(history(), [], [SEEN, HEALED], found, [f"doubt {n}" for n in range(doubts)])


def test_an_anomaly_beats_a_doubt_and_a_doubt_beats_success() -> None:
    verdicts = [outcome().verdict, outcome(doubts=1).verdict, outcome(1, 1).verdict]
    assert verdicts == [RunVerdict.PASS, RunVerdict.UNKNOWN, RunVerdict.FAIL]
    assert [int(verdict) for verdict in verdicts] == [0, 3, 1]


def test_a_run_with_a_fault_that_was_noticed_and_enough_acknowledgements_proves_something() -> None:
    assert vacuous([SEEN, HEALED], history()) == []


@pytest.mark.parametrize(
    ("timeline", "acks", "why"),
    [
        ([SEEN, UNSEEN], ACKS_MIN, "not seen: others lead"),
        ([HEALED], ACKS_MIN, "nothing was broken"),
        ([], ACKS_MIN, "nothing was broken"),
        ([SEEN], ACKS_MIN - 1, "too little was acknowledged"),
        ([SEEN], 0, "too little was acknowledged"),
    ],
)
def test_a_run_in_which_too_little_happened_is_doubted(timeline: list[Fault], acks: int, why: str) -> None:
    assert any(why in doubt for doubt in vacuous(timeline, history(acks)))


class Dying:
    """A rig whose second node has ended."""

    def __init__(self, kind: str) -> None:
        self.brokers = dict.fromkeys((1, 2, 3), ("127.0.0.1", 9092))
        self.setup = RigOptions(kind, QUORUM, Plain())

    def alive(self, node: int) -> bool:
        return node != 2

    def last_words(self, node: int) -> str:
        return f"FATAL at {node}"


@pytest.mark.parametrize(("kind", "told"), [(MOLDAU, [("X7", "node 2 ended by itself: FATAL at 2")]), (KAFKA, [])])
def test_a_node_that_ends_though_nobody_told_it_to_is_told_once(kind: str, told: list[tuple[str, str]]) -> None:
    context = ScenarioContext(cast("Rig", Dying(kind)), ScenarioOptions(seed=1), lambda text: None)
    context.note_dead_nodes()
    context.note_dead_nodes()
    assert [(anomaly.law, anomaly.text) for anomaly in context.found] == told


def test_a_node_that_was_killed_has_not_ended_by_itself() -> None:
    context = ScenarioContext(cast("Rig", Dying(MOLDAU)), ScenarioOptions(seed=1), lambda text: None)
    context.down.add(2)
    context.note_dead_nodes()
    assert context.found == []


def test_folders_that_are_too_many_or_too_few_are_told() -> None:
    expected = {1: {"a-0", "b-0"}, 2: {"a-0"}}
    assert list(strays(expected, expected)) == []
    found = list(strays(expected, {1: {"a-0"}, 2: {"a-0", "old-3"}}))
    assert [(anomaly.kind, anomaly.law) for anomaly in found] == [("stray", "C9")] * 2
    assert "node 1 has no folder b-0" in found[0].text
    assert "node 2 has a folder old-3" in found[1].text


def test_the_longest_silence_is_that_of_one_partition() -> None:
    second = 1_000_000_000
    acks = [(0, 1), (1, 2), (0, 5), (1, 6), (1, 9)]
    sends = [Send("p0", n, p, str(n), 0, at * second, OK, n) for n, (p, at) in enumerate(acks)]
    assert longest_gap_s([*sends, Send("p0", 9, 0, "late", 0, 99 * second, INFO)]) == 4.0
    assert longest_gap_s([]) == 0


def test_every_scenario_says_in_a_sentence_what_it_does_and_after_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in listed] == list(SCENARIOS)
    assert all(line.endswith(".") for line in listed)
    for scenario in SCENARIOS.values():
        assert "After " in (scenario.act.__doc__ or ""), scenario.act.__name__


def test_a_report_shortens_and_the_folder_has_all_of_it(tmp_path: Path) -> None:
    many = outcome(20, 1)
    assert "and 12 more" in report(many, "again")
    assert report(many, "again").endswith("FAIL; reproduce: again")
    keep(many, tmp_path, "again")
    assert (tmp_path / "report.txt").read_text().count("S1 lost") == 20
    assert read_lines((tmp_path / "history.jsonl").read_text().splitlines()) == many.history
    assert len((tmp_path / "timeline.jsonl").read_text().splitlines()) == 2


def test_without_the_tools_the_command_runs_where_it_is_and_remembers_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIDE, "")
    monkeypatch.delenv(INSIDE)
    monkeypatch.setattr(net, "TOOLS", ("there-is-no-such-tool",))
    assert net.enclosed("json.tool", ["--help"]) is None
    with pytest.raises(CannotBreak, match="no there-is-no-such-tool on the PATH"):
        open_net(Links.CUT, NAMESPACES)


def test_a_link_is_cut_one_way_for_requests_to_a_port_and_answers_from_it() -> None:
    assert net.rules(1, 2, ()) == [["from", "10.77.1.1", "to", "10.77.2.1"]]
    ends = [rule[4:] for rule in net.rules(2, 1, (9092,))]
    assert ends == [["ipproto", "tcp", "sport", "9092"], ["ipproto", "tcp", "dport", "9092"]]
    assert both_ways(1, [2, 3]) == [(1, 2), (2, 1), (1, 3), (3, 1)]


@pytest.mark.parametrize("damage", DAMAGES, ids=[damage.what for damage in DAMAGES])
def test_a_damage_leaves_the_file_different_or_gone(damage: FileDamage, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(200)))
    damage.act(file)
    assert not file.exists() or file.read_bytes() != bytes(range(200))


def test_a_plain_folder_is_neither_filled_nor_frozen(tmp_path: Path) -> None:
    for act in (Plain().fill, Plain().freeze):
        with pytest.raises(CannotBreak):
            act(tmp_path)


def test_a_full_disk_is_emptied_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "filler").write_bytes(b"x")
    SmallVolume().empty(tmp_path)
    SmallVolume().empty(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_kafka_without_jars_or_with_a_zookeeper_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MOLDAU_KAFKA_JARS", str(tmp_path))
    assert main(["2", "--system", "kafka"]) == 2
    assert "make jars" in capsys.readouterr().out
    assert main(["2", "--system", "kafka", "--plane", "zookeeper"]) == 2
    assert "no ZooKeeper mode" in capsys.readouterr().out
