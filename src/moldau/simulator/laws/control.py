"""Laws of the control plane, checked at committed batches: those of ``moldau.controller``, and that all nodes agree.

C1, C2, C7, C8, C10, C11, C12, S10 and S11 are moldau.controller.laws over the newest committed image and the request
behind each batch; C3 compares the images of all nodes at the same offset. C4 looks at every reply of a controller.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.node import Node
from moldau.controller.active import ControllerResult
from moldau.controller.facts import Facts
from moldau.controller.laws import LawChecker
from moldau.image import Delta, Image, image_hash
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.laws.quorum import driver_of

EVERY = 7
"""Images are compared at offsets that this divides: hashing is slow, and a difference stays."""


class ControlLaws:
    """``heard`` at each committed batch of each node."""

    def __init__(self, observer: ClusterObserver) -> None:
        self._observer = observer
        self._hashes: dict[int, tuple[int, bytes]] = {}
        self._images: dict[int, Image] = {}
        self._watch: LawChecker | None = None
        self._asks: dict[int, tuple[int, Any]] = {}  # offset of a proposal's last record -> (epoch, its request)
        self._controllers: dict[int, Any] = {}
        observer.listeners.append(self.heard)

    def heard(self, id: int, node: Node, delta: Delta, is_news: bool) -> None:
        """A node applied a batch, or a snapshot: then its image is another one."""
        image = node.metadata.image
        whole = self._images.get(id) is not image
        self._images[id] = image
        if node.metadata.offset % EVERY == 0:
            self._agree(id, node.metadata.offset, image)
        if (
            node.config.is_controller
            and self._controllers.get(id) is not node.controller
            and node.controller._machine is not None
        ):
            self._controllers[id] = node.controller
            self._follow(id, node)
        if not is_news:
            return
        if self._watch is None or whole:
            self._watch = LawChecker(image)
            return
        request = self._asks.get(node.metadata.offset, (0, None))[1]
        try:
            self._watch.after(image, delta, request)
        except AssertionError as error:
            self._observer.cluster.violated(
                f"C1..C12, S10, S11: at metadata offset {node.metadata.offset}: {error}".partition("\n")[0]
            )

    def _agree(self, id: int, offset: int, image: Image) -> None:
        mine = image_hash(image)
        first, theirs = self._hashes.setdefault(offset, (id, mine))
        if mine != theirs:
            self._observer.cluster.violated(f"C3: n{id} and n{first} have different images at offset {offset}")

    def _follow(self, id: int, node: Node) -> None:
        """Observe every request that a controller decides and every reply that leaves it, from outside.

        C4: no reply before all that it saw is committed. A process that is no controller any more refuses.
        """
        shell, controller = node.controller, node.controller._controller
        decide, settle = controller.decide, shell._settle
        saw: dict[int, int] = {}

        def requested(request: Any, facts: Facts) -> ControllerResult:  # Any: each request's own kind
            answer: ControllerResult = decide(request, facts)
            if controller.epoch is None:
                return answer
            if answer.records and controller.epoch >= self._asks.get(controller._last_proposed, (0, None))[0]:
                self._asks[controller._last_proposed] = (controller.epoch, request)
            if answer.token is not None:
                saw[answer.token] = controller._last_proposed
            elif answer.reply is not None:  # a part of a decision says nothing
                self._spoken(id, node, controller._last_proposed)
            return answer

        def settled(token: int, reply: Any) -> None:
            if controller.epoch is not None and token in saw:
                self._spoken(id, node, saw.pop(token))
            settle(token, reply)

        controller.decide, shell._settle = requested, settled  # type: ignore[method-assign]  # seen from outside

    def _spoken(self, id: int, node: Node, saw: int) -> None:
        committed = driver_of(node).quorum.high_watermark
        if committed <= saw:
            self._observer.cluster.violated(f"C4: n{id} answers what it saw up to {saw}, and {committed} is committed")

    def is_at_rest(self) -> bool:
        """Whether all nodes that live have applied the same batches."""
        return len({node.metadata.offset for _, node in self._observer.nodes()}) <= 1

    def at_rest(self) -> list[str]:
        """C3, L6: all nodes that live hold one image."""
        images: dict[bytes, Any] = {}
        for id, node in self._observer.nodes():
            images.setdefault(image_hash(node.metadata.image), []).append(f"n{id}@{node.metadata.offset}")
        wrong = [] if len(images) <= 1 else [f"C3: nodes at rest have different images: {list(images.values())}"]
        return wrong + self._who_rules() + self._who_votes()

    def _who_votes(self) -> list[str]:
        """R9: at rest all nodes that live count by the same voters, on the same disks, under one kraft.version."""
        quorums = {id: driver_of(node).quorum for id, node in self._observer.nodes()}
        told = {id: (one.kraft_version, one.voters.ids) for id, one in quorums.items()}
        keys = {tuple(voter.key for voter in one.voters.voters) for one in quorums.values()}
        same = len(set(told.values())) <= 1 and len(keys) <= 1
        return [] if same else [f"R9: (kraft.version, voters) by node, when all is quiet: {told}, {len(keys)} sets"]

    def _who_rules(self) -> list[str]:
        """L8: at rest one controller rules, and all nodes that live follow it, in one epoch."""
        ruling = [id for id, node in self._observer.nodes() if node.is_active_controller]
        if len(ruling) != 1:
            return [f"L8: {ruling} rule, when all is quiet"]
        roles = [driver_of(node).quorum.role for _, node in self._observer.nodes()]
        told = sorted({(role.epoch, role.leader if role.leader is not None else ruling[0]) for role in roles})
        return (
            [] if len(told) == 1 and told[0][1] == ruling[0] else [f"L8: n{ruling[0]} rules; (epoch, leader): {told}"]
        )
