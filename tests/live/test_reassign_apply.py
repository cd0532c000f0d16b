"""`moldau reassign apply`: killed, with the controller killed, paused, called off, rolled back; and a drain.

One cluster of four brokers; moves are slow because they are throttled, and quick when the throttle is gone.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from throttles import later, throttles

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.client import admin
from moldau.client.admin import AlterOp, NewTopic, Resource, ResourceType
from moldau.model import Code, TopicPartition
from moldau.wire.batch import build

RATE = "leader.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
PATIENCE_S = 300

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    quiet = {"auto.leader.rebalance.enable": "false"}
    with Cluster(4, data=tmp_path_factory.mktemp("apply") / "cluster", config=quiet) as running:
        yield running


class Moldau:
    """The command, in processes of its own."""

    def __init__(self, cluster: Cluster, plan: Path) -> None:
        self.environment = {**os.environ, "MOLDAU_BOOTSTRAP": cluster.bootstrap_servers}
        self.plan = plan

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "moldau", "reassign", *words, "--plan", str(self.plan)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command(*words), env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "-o", "json").stdout)
        return found


def make(cluster: Cluster, name: str, *replicas: list[int], size: int = 400_000, batches: int = 1) -> None:
    """A topic with records: of more than one batch, that a throttle does not let through with one fetch."""
    client = cluster.client()
    made = client.run(admin.create_topics(client.client, [NewTopic(name=name, assignment=dict(enumerate(replicas)))]))
    assert made[name].ok, made
    cluster.wait_until_in_sync()
    fill(cluster, name, len(replicas), size=size, batches=batches)


def fill(cluster: Cluster, name: str, partitions: int, *, size: int, batches: int) -> None:
    """Write so many batches of that size to each partition."""
    client = cluster.client()
    for number in range(partitions):
        for _ in range(batches):
            batch = build([(0, None, bytes(size), ())])
            assert client.produce(TopicPartition(name, number), batch).code == Code.NONE


def replicas(cluster: Cluster, name: str) -> list[list[int]]:
    return [part.replicas for _, part in sorted(cluster.client().topics([name])[name].partitions.items())]


def write_plan(path: Path, name: str, *wanted: list[int]) -> Path:
    entries = [{"topic": name, "partition": n, "replicas": one} for n, one in enumerate(wanted)]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


def settings(cluster: Cluster, name: str) -> dict[str, str | None]:
    """Throttles that are set on the topic or on brokers."""
    return throttles(cluster.client(), name, cluster.alive())


def wait_until_set(cluster: Cluster, name: str, wanted: Mapping[str, str | None]) -> None:
    def same() -> bool:
        if (found := settings(cluster, name)) != wanted:
            raise LookupError(f"{found}, not {wanted}")  # so that the failure tells it
        return True

    cluster.wait_until(same, "what others have set is as it was")


def alter(cluster: Cluster, place: Resource, key: str, value: str | None) -> None:
    client = cluster.client()
    change = (key, AlterOp.DELETE if value is None else AlterOp.SET, value)
    assert client.run(admin.alter_configs(client.client, {place: [change]}))[place].ok


def test_a_plan_outlives_kill_9_of_its_process_and_of_the_controller(cluster: Cluster, tmp_path: Path) -> None:
    """And nobody else's throttle is touched, no second process takes part, and a rollback takes all of it back."""
    make(cluster, "moved", *[[1, 2]] * 8, batches=6)  # so that a move is under way for a minute, whoever looks
    make(cluster, "other", [1], size=10)
    theirs, entry = Resource(ResourceType.BROKER, "2"), Resource(ResourceType.TOPIC, "moved")
    alter(cluster, theirs, RATE, "70000000")
    alter(cluster, entry, LIST, "7:1")
    before = {f"2 {RATE}": "70000000", f"moved {LIST}": "7:1"}
    wait_until_set(cluster, "moved", before)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "moved", *[[3, 4]] * 8))
    words = ("apply", "--max-moves", "2", "--max-moves-per-broker", "2", "--throttle", "50kB")
    first = moldau.start(*words)
    cluster.wait_until(lambda: moldau.status()["counts"]["moving"] > 0, "moves are under way", PATIENCE_S)
    second = moldau.run("apply")
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr == f"moldau: {moldau.plan} is being applied by another process\n"
    seen = moldau.status()
    counts = seen["counts"]
    assert seen["applied"]
    assert counts["moving"] <= 2, "not more than allowed at once"
    assert counts["waiting"] > 0
    first.send_signal(signal.SIGKILL)
    first.communicate()
    orphan = moldau.run("status")
    assert orphan.returncode == 3
    assert f"nobody carries it out: `moldau reassign apply --plan {moldau.plan}` does" in orphan.stdout
    assert not moldau.status()["applied"]
    refused = Moldau(cluster, write_plan(tmp_path / "other.json", "other", [2])).run("apply")
    assert (refused.returncode, "--additional begins all the same" in refused.stderr) == (1, True)
    twice = Moldau(cluster, write_plan(tmp_path / "twice.json", "moved", *[[4, 3]] * 8)).run("apply")
    assert (twice.returncode, "being moved already, not by this plan" in twice.stderr) == (1, True)

    again = moldau.start(*words[:-1], "4MB")
    # The controller is to die while this one moves.
    cluster.wait_until(
        lambda: {settings(cluster, "moved").get(f"{id} {RATE}") for id in (1, 3, 4)} == {"4000000"},
        "the new rate is set",
        PATIENCE_S,
    )
    dead = cluster.controller()
    cluster.kill(dead)
    cluster.restart(dead)
    said, told = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, said + told
    cluster.wait_until(lambda: replicas(cluster, "moved") == [[3, 4]] * 8, "all is as planned, whoever is asked")
    if later(told):  # the moves may end before the broker is back
        assert moldau.run("verify").returncode == 0
    wait_until_set(cluster, "moved", before)
    assert moldau.run("status").returncode == 0
    assert moldau.run("apply").returncode == 0, "all of it is done: nothing happens"

    back = moldau.run("rollback", "--yes")
    assert back.returncode == 0, back.stderr
    cluster.wait_until(lambda: replicas(cluster, "moved") == [[1, 2]] * 8, "everything is where it was")
    assert json.loads(Path(f"{moldau.plan}.journal").read_text())["state"] == "rolled back"
    wait_until_set(cluster, "moved", before)
    alter(cluster, theirs, RATE, None)


def test_a_plan_pauses_goes_on_and_is_called_off(cluster: Cluster, tmp_path: Path) -> None:
    make(cluster, "paused", *[[1]] * 16, batches=3)  # of which each takes some seconds, one after the other
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "paused", *[[2]] * 16))
    running = moldau.start("apply", "--max-moves", "1", "--throttle", "200kB")
    cluster.wait_until(lambda: moldau.status()["counts"]["moving"] > 0, "a move is under way", PATIENCE_S)
    paused = moldau.run("pause")
    assert paused.returncode == 0, paused.stderr
    assert running.wait(PATIENCE_S) == 3
    assert "the plan is paused now, by another command" in running.communicate()[1]
    state = moldau.status()
    assert (state["state"], state["counts"]["moving"], state["throttled"]) == ("paused", 0, False)
    assert state["counts"]["waiting"] > 0
    wait_until_set(cluster, "paused", {})
    assert "`moldau reassign resume" in moldau.run("apply").stderr

    going_on = moldau.start("resume")
    cluster.wait_until(lambda: moldau.status()["counts"]["moving"] > 0, "a move is under way again", PATIENCE_S)
    going_on.send_signal(signal.SIGINT)
    said = going_on.communicate(timeout=PATIENCE_S)[1]
    assert (going_on.returncode, said.splitlines()[-1]) == (130, "moldau: interrupted")
    assert "what is under way goes on" in said
    off = moldau.run("cancel")
    assert off.returncode == 0, off.stderr
    assert re.search(r"\d moves? called off", off.stderr)
    cluster.wait_until(lambda: all(one in ([1], [2]) for one in replicas(cluster, "paused")), "nothing is in between")
    assert [1] in replicas(cluster, "paused")
    wait_until_set(cluster, "paused", {})
    assert moldau.status()["state"] == "cancelled"
    ended = moldau.run("status")
    assert (ended.returncode, "nobody moves it" in ended.stdout) == (4, True), "a script would wait for 3 without end"


def test_what_was_called_off_goes_back_to_the_very_order_that_it_had(cluster: Cluster, tmp_path: Path) -> None:
    make(cluster, "ordered", [2, 1], batches=8)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "ordered", [1, 4]))
    running = moldau.start("apply", "--throttle", "10kB")
    cluster.wait_until(lambda: moldau.status()["counts"]["moving"] > 0, "a move is under way", PATIENCE_S)
    off = moldau.run("cancel")
    assert off.returncode == 0, off.stderr
    running.communicate(timeout=PATIENCE_S)
    cluster.wait_until(lambda: sorted(replicas(cluster, "ordered")[0]) == [1, 2], "it was called off")
    assert moldau.status()["counts"]["waiting"] == 1, "nobody else has moved it"
    back = moldau.run("rollback", "--yes")
    assert back.returncode == 0, back.stderr
    cluster.wait_until(lambda: replicas(cluster, "ordered") == [[2, 1]], "its preferred leader is the old one")


def test_a_way_back_that_was_interrupted_is_called_off_by_the_command_that_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Its throttles stood, and the plan was rolling back for good: `cancel` knew only plans that were applied."""
    make(cluster, "halfway", *[[1]] * 6, size=10)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "halfway", *[[2]] * 6))
    done = moldau.run("apply", "--max-moves", "1", "--throttle", "400kB")
    assert done.returncode == 0, done.stderr
    fill(cluster, "halfway", 6, size=400_000, batches=4)  # the way back takes long, and can be looked at
    back = moldau.start("rollback", "--yes")
    cluster.wait_until(lambda: moldau.status()["counts"]["moving"] > 0, "something moves back", PATIENCE_S)
    back.send_signal(signal.SIGINT)
    said = back.communicate(timeout=PATIENCE_S)[1]
    assert "`moldau reassign cancel --plan" in said
    assert settings(cluster, "halfway")
    off = moldau.run("cancel")
    assert off.returncode == 0, off.stderr
    wait_until_set(cluster, "halfway", {})
    cluster.wait_until(lambda: all(one in ([1], [2]) for one in replicas(cluster, "halfway")), "nothing is in between")
    assert moldau.status()["state"] == "cancelled"
    again = moldau.run("rollback", "--yes")
    assert again.returncode == 0, again.stderr
    cluster.wait_until(lambda: replicas(cluster, "halfway") == [[1]] * 6, "it is as it was before the plan")


def test_throttles_that_stand_when_time_is_up_are_told_of_and_taken_away_by_the_command_that_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Nobody said that they stay, and `verify` left them to a process that had ended."""
    make(cluster, "late", [1, 2], batches=8)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "late", [1, 4]))
    late = moldau.run("apply", "--throttle", "10kB", "--timeout", "5")
    assert late.returncode == 3, late.stderr
    named = re.search(r"its throttles stand: .*`moldau (reassign verify [^`]*)` takes them away", late.stderr)
    assert named is not None, late.stderr
    verify = [sys.executable, "-m", "moldau", *shlex.split(named[1])]
    look = partial(subprocess.run, verify, env=moldau.environment, capture_output=True, text=True, check=False)
    assert look().returncode == 3, "what is under way keeps its throttle"
    assert settings(cluster, "late")
    client = cluster.client()
    client.run(admin.reassign(client.client, {TopicPartition("late", 0): None}))
    cluster.wait_until(lambda: replicas(cluster, "late") == [[1, 2]], "it was called off by somebody else")
    assert look().returncode == 4
    wait_until_set(cluster, "late", {})


def test_the_throttle_of_a_dead_broker_is_taken_away_later_by_the_command_that_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    make(cluster, "left", [1], batches=8)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "left", [3]))
    running = moldau.start("apply", "--throttle", "10kB")
    cluster.wait_until(lambda: moldau.status()["counts"]["moving"] > 0, "a move is under way", PATIENCE_S)
    would = moldau.run("rollback", "--dry-run", "-o", "json")
    assert [row["would"] for row in json.loads(would.stdout)] == ["be called off, then move back"], would
    cluster.kill(3)
    cluster.wait_until(lambda: 3 not in cluster.client().brokers(), "it is known to be dead")
    off = moldau.run("cancel")
    running.communicate(timeout=PATIENCE_S)
    assert off.returncode == 0, off.stderr
    named = re.search(r"broker 3 cannot be asked: .* `moldau (.*)` takes it away", off.stderr)
    assert named is not None, off.stderr
    assert moldau.status()["throttled"]
    cluster.restart(3)
    cluster.wait_until_in_sync()
    command = [sys.executable, "-m", "moldau", *shlex.split(named[1])]
    again = subprocess.run(command, env=moldau.environment, capture_output=True, text=True, check=False)
    assert again.returncode == 4, "it is not as planned, and nothing moves"
    wait_until_set(cluster, "left", {})
    assert not moldau.status()["throttled"]


def test_a_broker_that_was_away_when_rates_were_set_gets_its_rate_when_it_is_back_also_of_moves_under_way(
    cluster: Cluster, tmp_path: Path
) -> None:
    """It kept what it had: no rate, or one of an earlier process, under which its moves took minutes."""
    make(cluster, "away", [1, 2], batches=8)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "away", [3, 2]))
    cluster.kill(1)
    cluster.wait_until(lambda: 1 not in cluster.client().brokers(), "it is known to be dead")
    first = moldau.start("apply", "--throttle", "10kB")
    cluster.wait_until(lambda: moldau.status()["counts"]["moving"] > 0, "the move is under way", PATIENCE_S)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    again = moldau.start("apply", "--throttle", "11kB")
    cluster.wait_until(
        lambda: {settings(cluster, "away").get(f"{id} {RATE}") for id in (2, 3)} == {"11000"}, "the rate is set"
    )
    cluster.restart(1)
    cluster.wait_until(lambda: settings(cluster, "away").get(f"1 {RATE}") == "11000", "and where one was away")
    off = moldau.run("cancel")
    _, told = again.communicate(timeout=PATIENCE_S)
    assert off.returncode == 0, off.stderr
    assert "broker 1 is not alive: the rate is set there when it is back." in told
    wait_until_set(cluster, "away", {})
    cluster.wait_until_in_sync()
    client = cluster.client()
    code, _ = client.run(admin.elect_leaders(client.client, None))
    assert code is Code.NONE, "broker 1 leads again what it led"


def test_a_plan_that_has_ended_begins_anew_from_where_others_have_moved_things(
    cluster: Cluster, tmp_path: Path
) -> None:
    make(cluster, "overtaken", [1, 2], size=1_000)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "overtaken", [2, 3]))
    other = Moldau(cluster, write_plan(tmp_path / "other.json", "overtaken", [3, 4]))
    for one in (moldau, other, moldau):
        done = one.run("apply")
        assert done.returncode == 0, done.stderr
    cluster.wait_until(lambda: replicas(cluster, "overtaken") == [[2, 3]], "it is where it was moved to last")
    back = moldau.run("rollback", "--yes")
    assert back.returncode == 0, back.stderr
    before = "it is where it was when the plan was begun the last time"
    cluster.wait_until(lambda: replicas(cluster, "overtaken") == [[3, 4]], before)


def test_a_way_back_is_not_written_over_by_another(cluster: Cluster, tmp_path: Path) -> None:
    make(cluster, "kept", [1, 2], size=1_000)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "kept", [2, 3]))
    way_back = tmp_path / "before.json"
    assert moldau.run("execute", "--wait", "--rollback", str(way_back)).returncode == 0
    first = way_back.read_text()
    again = moldau.run("execute", "--rollback", str(way_back))
    assert again.returncode == 2, again.stderr
    assert "before.json is there and says otherwise" in again.stderr
    assert way_back.read_text() == first
    assert moldau.run("execute", "--rollback", str(moldau.plan)).returncode == 2, "the plan itself is no place for it"


def test_a_drained_broker_holds_nothing_and_the_plan_made_again_is_empty(cluster: Cluster, tmp_path: Path) -> None:
    make(cluster, "drained", [1, 4], [4, 2], [3, 4], size=10_000)
    moldau = Moldau(cluster, tmp_path / "plan.json")
    words = [sys.executable, "-m", "moldau", "reassign", "plan", "--drain", "4", "--out", str(moldau.plan)]

    def plan() -> str:
        return subprocess.run(words, env=moldau.environment, capture_output=True, text=True, check=True).stdout

    assert "replicas are copied" in plan()
    assert moldau.run("apply").returncode == 0

    def held() -> int:
        parts = [part for topic in cluster.client().topics().values() for part in topic.partitions.values()]
        return sum(4 in part.replicas for part in parts)

    cluster.wait_until(lambda: held() == 0, "it holds nothing")
    assert plan().endswith("nothing has to change.\n")

    def first_replicas_lead() -> bool:
        led = cluster.client().topics(["drained"])["drained"].partitions.values()
        return all(part.leader == part.replicas[0] for part in led)

    cluster.wait_until(first_replicas_lead, "the first replicas lead")


def test_what_is_wrong_is_told_in_one_line_and_nothing_is_begun(cluster: Cluster, tmp_path: Path) -> None:
    make(cluster, "wrong", [1], size=10)

    def refused(plan: Path, *words: str) -> tuple[int, str]:
        done = Moldau(cluster, plan).run(*(words or ("apply",)))
        assert (done.stdout, done.stderr.count("\n")) == ("", 1), done
        return done.returncode, done.stderr

    half = tmp_path / "half.json"
    half.write_text('{"version":1,"partitions":[{"topic":"wrong","par')
    assert refused(half)[0] == 2
    unknown = write_plan(tmp_path / "unknown.json", "wrong", [9])
    assert refused(unknown) == (1, "moldau: broker 9 is not alive, and the plan gives it replicas; nothing was begun\n")
    assert not Path(f"{unknown}.journal").exists()
    tried = Moldau(cluster, unknown).run("execute", "--dry-run", "-o", "json")
    assert (tried.returncode, [row["status"] for row in json.loads(tried.stdout)]) == (1, ["would be refused"])
    assert "broker 9 is not alive" in tried.stderr
    nowhere = write_plan(tmp_path / "nowhere.json", "no-such-topic", [1])
    assert refused(nowhere) == (1, "moldau: there is no topic no-such-topic\n")
    fine = write_plan(tmp_path / "fine.json", "wrong", [1])
    assert refused(fine, "pause") == (1, f"moldau: {fine} was never applied: fine.json.journal does not tell of it\n")
    assert Moldau(cluster, fine).run("apply").returncode == 0
    journal = Path(f"{fine}.journal")
    text = journal.read_text()
    journal.write_text(text.replace(json.loads(text)["cluster"], "another-cluster-of-mine"))
    code, why = refused(fine)
    assert (code, "is of cluster another-cluster-of-mine, and" in why) == (1, True)
    journal.write_text(text[: len(text) // 2])
    assert refused(fine)[0] == 2
    journal.write_text(text.replace('"state": "done"', '"state": "paused"'))
    write_plan(fine, "wrong", [2])
    code, why = refused(fine)
    assert (code, "has changed since it was begun" in why) == (1, True)
    assert replicas(cluster, "wrong") == [[1]]


SSH = """#!/bin/sh
# Stands for a way to the machine of a broker: a restart is that of the next one in a roll's order.
case "$*" in
*stop*) exec moldau broker stop 2 --force ;;
*restart*) exec PYTHON restart.py ;;
esac
"""
RESTART = """
import json
from pathlib import Path
from moldau import Cluster

cluster, left = Cluster(data="moldau-data"), Path("left.json")
if not left.exists():
    active = cluster.controller()
    ids = [node.id for node in cluster.spec.nodes if "broker" in node.roles]
    left.write_text(json.dumps(sorted(ids, key=lambda id: (id == active, id))))
id, *rest = json.loads(left.read_text())
left.write_text(json.dumps(rest))
cluster.restart(id, wait=False)
"""


def examples(noun: str, *verbs: str) -> Iterator[list[str]]:
    """The command lines that the help of a noun and of its verbs shows."""
    group = cli.get_command(click.Context(cli), noun)
    assert isinstance(group, click.Group)
    for command in (group, *(group.get_command(click.Context(group), verb) for verb in verbs)):
        assert command is not None
        lines = [line.strip() for line in (command.help or "").splitlines()]
        yield [line for line in lines if line.startswith(f"moldau {noun} ")]


def test_the_examples_that_the_help_shows_run(cluster: Cluster, tmp_path: Path) -> None:
    make(cluster, "orders", [1, 2], [2, 3], [3, 1], size=10)
    (tmp_path / "moldau-data").symlink_to(cluster.folder)
    for id in (1, 2, 3):
        (tmp_path / f"node-{id}").symlink_to(cluster.node(id).folder)
    (tmp_path / "ssh").write_text(SSH.replace("PYTHON", sys.executable))
    (tmp_path / "restart.py").write_text(RESTART)
    (tmp_path / "moldau").write_text(f'#!/bin/sh\nexec {sys.executable} -m moldau "$@"\n')
    for name in ("ssh", "moldau"):
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def run(line: str) -> None:
        line = line.replace("localhost:9092", cluster.bootstrap_servers)
        line = line.replace("2026-11-22 10:00:00", time.strftime("%F %T"))
        done = subprocess.run(
            line,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)

    for noun, verbs in {
        "reassign": ("plan", "apply", "status"),
        "leader": ("elect",),
        "quorum": (),
        "replica": (),
        "log": (),
    }.items():
        for shown in examples(noun, *verbs):
            assert shown, noun
            write_plan(tmp_path / "plan.json", "orders", [1, 2], [2, 3], [3, 1])
            run("moldau reassign apply --plan plan.json")
            for line in shown:
                run(line + (" --yes" if "unclean" in line else ""))
            cluster.wait_until_in_sync()
    for shown in examples("broker", "stop", "roll"):
        for line in shown:
            cluster.wait_until_in_sync()
            stops = " stop " in line or " roll" in line
            alone = " || true" if "--check" in line else " --force" if stops else ""  # topics here have one replica
            run(line + alone)
            if stops:
                run("moldau broker start 2")
    run("moldau topic delete orders --yes --wait")
    for line in in_the_docs():
        run(line)
        cluster.wait_until_in_sync()


def in_the_docs() -> list[str]:
    """The command lines of docs/tools.md; of Kafka's console tools other tests run all."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "tools.md").read_text()
    blocks = "".join(re.findall(r"```\w*\n(.*?)```", text, re.DOTALL))
    lines = re.findall(r"^(?:\$ )?((?:moldau|~/kafka/bin/)\S* .*?)(?:\s{2,}.*)?$", blocks, re.MULTILINE)
    assert len(lines) > 6, lines
    return [re.sub(r"/data/(\d)", r"node-\1/data", line) for line in lines]


def test_a_plan_with_directories_that_cannot_be_is_not_begun(cluster: Cluster, tmp_path: Path) -> None:
    make(cluster, "placed", [1, 2], size=10)
    plan = write_plan(tmp_path / "plan.json", "placed", [3, 4])
    told = json.loads(plan.read_text())
    told["partitions"][0]["log_dirs"] = ["any"]
    plan.write_text(json.dumps(told))
    moldau = Moldau(cluster, plan)
    for words in (["apply"], ["apply", "--dry-run"], ["status"]):
        refused = moldau.run(*words)
        assert (refused.returncode, refused.stdout) == (2, ""), words
        assert "placed-0 has 2 replicas, and log_dirs is not a list of as many" in refused.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["plan.json"], "no journal of something that was never begun"


def test_a_plan_that_was_made_for_another_cluster_is_refused_by_its_id(cluster: Cluster, tmp_path: Path) -> None:
    """Brokers have the same ids everywhere: where the topics were there, too, it was carried out."""
    make(cluster, "ours", [1, 2], size=10)
    plan = tmp_path / "plan.json"
    moldau = Moldau(cluster, plan)
    words = ["plan", "--topic", "ours", "--replace", "2=4", "--out", str(plan)]
    made = subprocess.run(
        [sys.executable, "-m", "moldau", "reassign", *words], env=moldau.environment, text=True, check=True,
        capture_output=True,
    )  # fmt: skip
    told = json.loads(plan.read_text())
    ours, told["cluster"] = told["cluster"], "q1Sh-9_ISia_zwGINzRvyQ"
    plan.write_text(json.dumps(told))
    for verb in ("apply", "status", "execute", "verify", "cancel"):
        refused = moldau.run(verb)
        assert (refused.returncode, refused.stdout) == (1, ""), (verb, made)
        assert f"is a plan for cluster q1Sh-9_ISia_zwGINzRvyQ, and this is cluster {ours}" in refused.stderr
    assert replicas(cluster, "ours") == [[1, 2]]
    told["cluster"] = ours
    plan.write_text(json.dumps(told))
    assert moldau.run("apply").returncode == 0
    cluster.wait_until(lambda: replicas(cluster, "ours") == [[1, 4]], "it is carried out")


def test_the_status_of_a_plan_tells_nothing_by_another_clusters_or_an_earlier_plans_journal(
    cluster: Cluster, tmp_path: Path
) -> None:
    make(cluster, "stays", [1, 2], [1, 2], size=10)
    moldau = Moldau(cluster, write_plan(tmp_path / "plan.json", "stays", [1, 2], [1, 2]))
    assert moldau.run("apply").returncode == 0
    write_plan(moldau.plan, "stays", [3, 4])  # another plan in the file of one that has ended
    seen = moldau.run("status", "--all", "-o", "json")
    report = json.loads(seen.stdout)
    assert (seen.returncode, report["state"], len(report["partitions"])) == (4, None, 1)
    assert "nobody carries it out" in moldau.run("status").stdout
    write_plan(moldau.plan, "stays", [1, 2], [1, 2])
    journal = moldau.plan.with_name("plan.json.journal")
    told = json.loads(journal.read_text())
    ours, told["cluster"] = told["cluster"], "q1Sh-9_ISia_zwGINzRvyQ"
    journal.write_text(json.dumps(told))
    for verb in ("status", "apply", "rollback", "pause", "resume"):
        refused = moldau.run(verb)
        assert (refused.returncode, refused.stdout) == (1, ""), verb
        assert f"{journal} is of cluster q1Sh-9_ISia_zwGINzRvyQ, and" in refused.stderr, verb
        assert f"is cluster {ours}" in refused.stderr, verb
