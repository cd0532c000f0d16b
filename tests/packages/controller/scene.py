"""Scenes: a conversation with a controller as text. Commands stand above the dashes, what follows below them.

Commands:
  brokers 0 1 2 [elr=off]             a cluster in which these brokers serve
  topic t 0,1,2 1,2,0 [key=value]     a topic with these assignments, one a partition
  refused 1 | silent 1                its port refuses connections; nothing is heard of it for a session
  restart 1 [clean] | heartbeat 1     a new process registers; a heartbeat (with "go": it wants to shut down)
  isr t-0 0,1                         the leader asks for this ISR
  elect preferred|unclean t-0 | move t-0 2,3 | cancel t-0 | set t key=value | delete t | grow t 3
"""

from __future__ import annotations

from typing import Any

from moldau.controller.requests import (
    AlterPartitionReassignments,
    BrokerRefused,
    ConfigChange,
    CreatePartitions,
    DeleteTopics,
    ElectLeaders,
    IncrementalAlterConfigs,
    MorePartitions,
    Move,
    Tick,
)
from moldau.controller.state_change import Author, state_changes
from moldau.image import Recovery
from moldau.simulator.machines.controller_harness import ControllerHarness


class Scene:
    """One controller, spoken to line by line."""

    def __init__(self) -> None:
        self.harness = ControllerHarness()
        self.lives: dict[int, int] = {}

    def run(self, line: str) -> str:
        """What a command leads to: the answer where there is one, each change, and where partitions stand now."""
        word, *rest = line.split()
        words = [one for one in rest if "=" not in one]
        options = dict(one.split("=", 1) for one in rest if "=" in one)
        before = self._partitions()
        said = getattr(self, f"_{word}")(words, options)
        after = self._partitions()
        lines = [f"[{said or 'done'}]"]
        if word not in ("brokers", "topic"):
            for change in state_changes(self.harness.delta, self.harness.image, Author(0, 1)):
                facts = change.facts
                if facts["event"] == "broker":
                    lines.append(f"  broker {facts['broker']}: {facts['from']} -> {facts['to']}")
        lines += [f"  {name}: {text}" for name, text in after.items() if before.get(name) != text]
        lines += [f"  {name}: gone" for name in before if name not in after]
        return "\n".join(lines)

    def _partitions(self) -> dict[str, str]:
        image = self.harness.image
        told = {}
        for topic in sorted(image.names):
            for p in image.topics[image.names[topic]].partitions.values():
                parts = [f"leader {p.leader} epoch {p.leader_epoch}", f"isr {_ids(p.isr)} of {_ids(p.replicas)}"]
                parts += [
                    f"{name} {_ids(ids)}" for name, ids in (("adding", p.adding), ("removing", p.removing)) if ids
                ]
                parts += [f"elr {_ids(p.elr)}"] if p.elr else []
                parts += [f"last known {_ids(p.last_known_elr)}"] if p.last_known_elr else []
                parts += ["recovering"] if p.recovery == Recovery.RECOVERING else []
                told[f"{topic}-{p.id}"] = ", ".join(parts)
        return told

    # ---- commands

    def _brokers(self, words: list[str], options: dict[str, str]) -> str:
        self.harness = ControllerHarness(elr=options.get("elr") != "off")
        for id in map(int, words):
            self.lives[id] = 0
            self.harness.add_broker(id)
        return f"{len(words)} brokers serve"

    def _topic(self, words: list[str], options: dict[str, str]) -> None:
        assignments = [tuple(map(int, one.split(","))) for one in words[1:]]
        self.harness.create(words[0], *assignments, configs=options)

    def _refused(self, words: list[str], options: dict[str, str]) -> None:
        id = int(words[0])
        self.harness.submit(BrokerRefused(broker_id=id, broker_epoch=self.harness.broker(id).epoch))

    def _silent(self, words: list[str], options: dict[str, str]) -> None:
        silent = set(map(int, words))
        for _ in range(19):
            self.harness.now_ms += 500
            for id in sorted(self.harness.image.brokers):
                if id not in silent and not self.harness.broker(id).fenced:
                    self.harness.heartbeat(id)
            self.harness.submit(Tick())
            if all(self.harness.broker(id).fenced for id in silent):
                return

    def _restart(self, words: list[str], options: dict[str, str]) -> str:
        id = int(words[0])
        self.lives[id] += 1
        epoch = self.harness.broker(id).epoch if "clean" in words else -1
        reply = self.harness.register(id, self.lives[id], previous_is_gone=True, previous_broker_epoch=epoch)
        return str(reply.code.name)

    def _heartbeat(self, words: list[str], options: dict[str, str]) -> str:
        reply = self.harness.heartbeat(int(words[0]), want_shut_down="go" in words)
        if "go" in words:
            return "it may go" if reply.should_shut_down else "not yet"
        return "it is fenced" if reply.is_fenced else "it serves"

    def _isr(self, words: list[str], options: dict[str, str]) -> str:
        topic, number = words[0].rsplit("-", 1)
        return str(self.harness.set_isr(topic, int(number), *map(int, words[1].split(","))).name)

    def _elect(self, words: list[str], options: dict[str, str]) -> str:
        topic, number = words[1].rsplit("-", 1)
        kind = 1 if words[0] == "unclean" else 0
        reply = self.harness.submit(ElectLeaders(election_type=kind, partitions=((topic, int(number)),)))
        return str(reply.partitions[0][2].code.name)

    def _move(self, words: list[str], options: dict[str, str]) -> str:
        return self._reassign(words[0], tuple(map(int, words[1].split(","))))

    def _cancel(self, words: list[str], options: dict[str, str]) -> str:
        return self._reassign(words[0], None)

    def _reassign(self, name: str, replicas: tuple[int, ...] | None) -> str:
        topic, number = name.rsplit("-", 1)
        move = Move(topic=topic, partition=int(number), replicas=replicas)
        reply = self.harness.submit(AlterPartitionReassignments(moves=(move,)))
        return str(reply.partitions[0][2].code.name)

    def _set(self, words: list[str], options: dict[str, str]) -> None:
        changes = tuple((key, 0, value) for key, value in options.items())
        change = ConfigChange(resource_type=2, resource_name=words[0], changes=changes)
        self.harness.submit(IncrementalAlterConfigs(resources=(change,)))

    def _delete(self, words: list[str], options: dict[str, str]) -> str:
        return str(self.harness.submit(DeleteTopics(topics=(words[0],))).topics[0].problem.code.name)

    def _grow(self, words: list[str], options: dict[str, str]) -> Any:
        more = MorePartitions(name=words[0], count=int(words[1]))
        self.harness.submit(CreatePartitions(topics=(more,)))


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids)) or "nobody"
