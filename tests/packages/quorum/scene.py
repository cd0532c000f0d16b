"""Scenes: a conversation with one quorum machine as text. Commands stand above the dashes, what follows below them.

Commands:
  node 1 of 1,2,3 [observer] [log=1:4,2:5] [epoch=2] [leader=2] [voted=1] [snapshot=4@1]   start; log is epoch:end,...
  at 1500                                        time passes to 1500 ms (a Tick)
  request 2 vote|prevote 3 log=5@2               node 2 stands in epoch 3, its log ends at 5 in epoch 2
  request 2 fetch 3 at=5@2 | begin 3 | end 3 successors=1,3 | snapshot 3 4@1 position=0
  answer 2 granted|refused|begun 3 [leader=2] [code=NAME]
  answer 2 records 3 hw=5 4-5@3 ... | diverging 3 4@2 | snapshot 3 4@1 | piece 3 4@1 size=10 length=10
  refused 2 | lost 2 | flushed 5 | propose 2 | snapshot 4@1 | shutdown
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.model import Code
from moldau.quorum import (
    At,
    ElectionState,
    LogView,
    OffsetAndEpoch,
    Quorum,
    ReplicaKey,
    Unattached,
    VoterSet,
    start,
    step,
)
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum import messages as say


class Scene:
    """One machine, spoken to line by line."""

    def __init__(self) -> None:
        self.now = 0
        self.quorum: Quorum
        self.sent: dict[int, Any] = {}

    def run(self, line: str) -> str:
        """What a command leads to, one thing a line."""
        word, *rest = line.split()
        words = [one for one in rest if "=" not in one]
        options = dict(one.split("=", 1) for one in rest if "=" in one)
        if word == "node":
            effects = self._start(words, options)
        else:
            make: Callable[[list[str], dict[str, str]], on.Event] = getattr(self, f"_{word}")
            self.quorum, effects = step(self.quorum, make(words, options), At(self.now, 0))
        return "\n".join([f"[{self._role()}]", *(self._shown(effect) for effect in effects)])

    def _start(self, words: list[str], options: dict[str, str]) -> list[do.Effect]:
        log = LogView()
        for part in filter(None, options.get("log", "").split(",")):
            epoch, end = map(int, part.split(":"))
            log = log.appended(end, epoch)
        log = log.flushed_to(log.end)
        if "snapshot" in options:
            point = _point(options["snapshot"])
            log = log.with_snapshot(point).trimmed(point.offset)
        voted = options.get("voted")
        election = ElectionState(
            int(options.get("epoch", "0")),
            int(options["leader"]) if "leader" in options else None,
            ReplicaKey(int(voted)) if voted else None,
        )
        voters = VoterSet.of(*map(int, words[2].split(",")))
        me = ReplicaKey(int(words[0]))
        blank = Quorum(me=me, voters=voters, role=Unattached(0), log=log, flushes="observer" not in words)
        self.quorum, effects = start(blank, election, At(self.now, 0))
        return effects

    # ---- events

    def _at(self, words: list[str], options: dict[str, str]) -> on.Event:
        self.now = int(words[0])
        return on.Tick()

    def _request(self, words: list[str], options: dict[str, str]) -> on.Event:
        peer, kind, epoch = ReplicaKey(int(words[0])), words[1], int(words[2])
        request: say.RaftRequest
        if kind in ("vote", "prevote"):
            request = say.RaftVoteRequest(epoch, peer, self.quorum.me, _point(options["log"]), kind == "prevote")
        elif kind == "fetch":
            request = say.RaftFetchRequest(0, peer, epoch, _point(options["at"]), 500)
        elif kind == "begin":
            request = say.BeginEpochRequest(epoch, peer.id, self.quorum.me)
        elif kind == "end":
            successors = tuple(ReplicaKey(int(id)) for id in options["successors"].split(","))
            request = say.EndEpochRequest(epoch, peer.id, successors)
        else:
            request = say.RaftSnapshotRequest(0, peer, epoch, _point(words[3]), int(options["position"]))
        return on.RequestReceived(f"{peer.id} {kind}", request)

    def _answer(self, words: list[str], options: dict[str, str]) -> on.Event:
        peer, kind, epoch = int(words[0]), words[1], int(words[2])
        code = Code[options.get("code", "NONE")]
        leader = int(options["leader"]) if "leader" in options else None
        request = self.sent[peer]
        answer: say.RaftResponse
        if kind in ("granted", "refused"):
            answer = say.RaftVoteResponse(code, epoch, leader, kind == "granted")
        elif kind == "begun":
            answer = say.BeginEpochResponse(code, epoch, leader)
        elif kind == "ended":
            answer = say.EndEpochResponse(code, epoch, leader)
        elif kind == "piece":
            size, length = int(options["size"]), int(options["length"])
            answer = say.RaftSnapshotResponse(
                code, epoch, leader, _point(words[3]), size, request.position, length, "bytes"
            )
        else:
            answer = say.RaftFetchResponse(code, epoch, leader, int(options.get("hw", "-1")))
            if kind == "diverging":
                answer = answer._replace(diverging=_point(words[3]))
            elif kind == "snapshot":
                answer = answer._replace(snapshot=_point(words[3]))
            else:
                answer = answer._replace(spans=tuple(_span(one) for one in words[3:]), data="bytes")
        return on.ResponseReceived(peer, request, answer)

    def _refused(self, words: list[str], options: dict[str, str]) -> on.Event:
        return on.ConnectionRefused(int(words[0]), self.sent[int(words[0])])

    def _lost(self, words: list[str], options: dict[str, str]) -> on.Event:
        return on.Unreachable(int(words[0]), self.sent[int(words[0])])

    def _flushed(self, words: list[str], options: dict[str, str]) -> on.Event:
        return on.Flushed(int(words[0]))

    def _propose(self, words: list[str], options: dict[str, str]) -> on.Event:
        return on.Propose(self.quorum.role.epoch, int(words[0]), "bytes")

    def _snapshot(self, words: list[str], options: dict[str, str]) -> on.Event:
        return on.SnapshotTaken(_point(words[0]))

    def _shutdown(self, words: list[str], options: dict[str, str]) -> on.Event:
        return on.ShutDown()

    # ---- what is seen

    def _role(self) -> str:
        quorum, role = self.quorum, self.quorum.role
        parts = [type(role).__name__, f"epoch {role.epoch}"]
        if role.leader is not None:
            parts.append(f"leader {role.leader}")
        if role.voted is not None:
            parts.append(f"voted {role.voted.id}")
        log = quorum.log
        parts.append(f"log {log.start}..{log.end}" + ("" if log.flushed == log.end else f" flushed {log.flushed}"))
        return ", ".join([*parts, f"hw {quorum.high_watermark}"])

    def _shown(self, effect: do.Effect) -> str:
        name = type(effect).__name__
        match effect:
            case do.SendRequest(peer, request):
                self.sent[peer] = request
                return f"  send {peer}: {_fields(request)}"
            case do.SendResponse(token, answer):
                return f"  answer {token}: {_fields(answer)}"
            case do.ServeRecords(token, answer, begin, end):
                return f"  answer {token}: {_fields(answer)} with records {begin}..{end}"
            case do.ServeSnapshot(token, answer):
                return f"  answer {token}: {_fields(answer)} with bytes of the file"
            case _:
                return f"  {name}" + "".join(
                    f" {key}={_text(value)}" for key, value in effect._asdict().items() if value is not None
                )


def _point(text: str) -> OffsetAndEpoch:
    offset, epoch = text.split("@")
    return OffsetAndEpoch(int(offset), int(epoch))


def _span(text: str) -> say.BatchSpan:
    offsets, epoch = text.split("@")
    base, end = offsets.split("-")
    return say.BatchSpan(int(base), int(end), int(epoch))


QUIET = {"serial", "replica", "candidate", "voter", "max_wait_ms", "data", "log_start"}


def _fields(message: Any) -> str:
    """A message without what is the same in every scene, or not there."""
    shown = [type(message).__name__]
    for key, value in message._asdict().items():
        if key in QUIET or value is None or value == () or value == OffsetAndEpoch(-1, -1):
            continue
        shown.append(f"{key}={_text(value)}")
    return " ".join(shown)


def _text(value: Any) -> str:
    match value:
        case Code():
            return value.name
        case OffsetAndEpoch(offset, epoch):
            return f"{offset}@{epoch}"
        case ReplicaKey(id):
            return str(id)
        case ElectionState(epoch, leader, voted):
            return f"(epoch {epoch}, leader {leader}, voted {None if voted is None else voted.id})"
        case say.BatchSpan(base, end, epoch):
            return f"{base}-{end}@{epoch}"
        case tuple():
            return "[" + ",".join(_text(one) for one in value) + "]"
    return str(value)
