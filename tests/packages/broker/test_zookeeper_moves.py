"""RA-1: a move as in the worked example, from brokers 1, 2, 3 to 4, 5, 6, on the znodes, and under other controllers.

Apache Kafka 3.9.2 was watched as it moved a replica (2026-11-24): it writes the union into the topic's znode, then a
new leader epoch; the leader adds newcomers to the ISR; then it writes the new leader, the ISR without each that goes,
and the topic's znode last. Here union and epoch are one transaction, and so are leader, ISR and assignment at the end.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from moldau.controller import isr
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.ports.zookeeper import Delete, Set
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.zookeeper_nodes import Nodes

TOPIC, STATE, PLAN = "/brokers/topics/t", "/brokers/topics/t/partitions/0/state", "/admin/reassign_partitions"
OLD, NEW = (1, 2, 3), (4, 5, 6)


class Moment(NamedTuple):
    """What stands in the znodes of a partition after a transaction."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


BEGIN = Moment(OLD, (), (), 1, 0, OLD)


def moment(nodes: Nodes) -> Moment:
    topic, state = nodes.json(TOPIC), nodes.json(STATE)
    adding, removing = (tuple(topic.get(f"{which}_replicas", {}).get("0", ())) for which in ("adding", "removing"))
    replicas = tuple(topic["partitions"]["0"])
    return Moment(replicas, adding, removing, state["leader"], state["leader_epoch"], tuple(state["isr"]))


async def watched_move(nodes: Nodes, *, controllers_die: bool) -> list[Moment]:
    """The moments of the move. ``controllers_die``: at each of them, as soon as it is there."""
    nodes.write(TOPIC, b'{"version":1,"partitions":{"0":[1,2,3]}}')
    await until(lambda: STATE in nodes.server.znodes and nodes.agree(), "it has a leader")
    seen = [moment(nodes)]

    def written(*_: object) -> None:
        if (now := moment(nodes)) != seen[-1]:
            seen.append(now)
            if controllers_die:
                asyncio.get_running_loop().call_soon(end_the_controller)

    def end_the_controller() -> None:
        if "/controller" in nodes.server.znodes:
            nodes.server.apply(0, [Delete(path="/controller")])

    nodes.server.ensemble.witnesses.append(written)
    plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": NEW}]}
    nodes.write(PLAN, json.dumps(plan).encode())
    await until(lambda: PLAN not in nodes.server.znodes, "the plan is done")
    nodes.server.ensemble.witnesses.remove(written)
    await until(lambda: len(nodes.controllers) == 1 and nodes.agree(), "everybody knows")
    return seen


async def held_back(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move from broker 1 to 2 that a tool asks for, whose leader gets no change of the ISR through."""
    nodes.write(TOPIC, b'{"version":1,"partitions":{"0":[1]}}')
    await until(lambda: STATE in nodes.server.znodes and nodes.agree(), "it has a leader")
    monkeypatch.setattr(isr, "_refusal", lambda *_: Code.OPERATION_NOT_ATTEMPTED)
    plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]}]}
    nodes.write(PLAN, json.dumps(plan).encode())
    await until(lambda: moment(nodes).adding == (2,), "it moves")


def grown(nodes: Nodes) -> Set:
    """The state with the newcomer in sync, as a leader writes it that knows no AlterPartition."""
    state = nodes.json(STATE)
    return Set(path=STATE, data=json.dumps({**state, "isr": [1, 2]}).encode())


async def ended(nodes: Nodes) -> None:
    await until(lambda: moment(nodes)[:4] == ((2,), (), (), 2) and nodes.agree(), "the move ends")


def test_a_move_ends_when_its_state_in_zookeeper_has_the_target_in_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a note that says so: Kafka's controller watches the state of each partition that moves
    (PartitionReassignmentIsrChange), and only those."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await held_back(nodes, monkeypatch)
            nodes.server.apply(0, [grown(nodes)])
            await ended(nodes)

    run(scenario)


def test_a_new_controller_ends_a_move_whose_target_is_in_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it finds it when a controller of Apache Kafka dies between its last change of the ISR and the end."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await held_back(nodes, monkeypatch)
            nodes.server.apply(0, [Delete(path=PLAN), grown(nodes), Delete(path="/controller")])
            await ended(nodes)

    run(scenario)


def test_a_controllers_own_changes_of_a_state_that_it_watches_are_no_news(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            nodes.write(TOPIC, b'{"version":1,"partitions":{"0":[1]}}')
            await until(lambda: STATE in nodes.server.znodes and nodes.agree(), "it has a leader")
            epochs = nodes.controllers
            for target in ([2, 3], [1, 2], [3]):
                plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": target}]}
                nodes.write(PLAN, json.dumps(plan).encode())
                await until(lambda: PLAN not in nodes.server.znodes and nodes.agree(), "it is done")
                assert list(moment(nodes).replicas) == target
            assert nodes.controllers == epochs

    run(scenario)


def folders(at: Path) -> set[int]:
    """Brokers that have the replica."""
    return {id for id in (*OLD, *NEW) if (at / f"node-{id}" / "t-0").exists()}


@pytest.mark.parametrize("controllers_die", [False, True], ids=["one controller", "another one at every step"])
def test_the_worked_example_of_a_move_goes_its_way_on_the_znodes(tmp_path: Path, controllers_die: bool) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 6) as nodes:
            (epoch,) = nodes.controllers
            begin, union, *growing, end = await watched_move(nodes, controllers_die=controllers_die)
            assert begin == BEGIN
            assert union == Moment((*NEW, *OLD), NEW, OLD, 1, union.leader_epoch, OLD)
            assert union.leader_epoch > begin.leader_epoch, "brokers that go by it alone hear of their parts"
            for before, now in zip([union, *growing], growing, strict=False):
                assert now[:4] == union[:4], "nothing but the ISR and its epoch changes"
                assert set(before.isr) < set(now.isr) <= {*OLD, *NEW}
            assert end == Moment(NEW, (), (), 4, end.leader_epoch, end.isr)
            assert set(end.isr) == set(NEW)
            last = growing[-1] if growing else union
            assert end.leader_epoch > last.leader_epoch
            assert nodes.controllers[0] > epoch if controllers_die else nodes.controllers == [epoch]
            await until(lambda: folders(tmp_path) == set(NEW), "who is a replica no more has deleted its log")

    run(scenario)
