"""Laws of the control plane, judged at committed batches: the controller room's own, and that all nodes agree.

C1, C2, C8, C10 and C11 are moldau.controller.laws over the newest committed image; C3 compares the images of all nodes
at the same offset. C7 too: a broker's new registration follows the end of the old one.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.node import Node
from moldau.controller.laws import Watch
from moldau.image import Delta, Image, image_hash
from moldau.simulator.looking import Eyes

EVERY = 7
"""Images are compared at offsets that this divides: hashing is slow, and a difference stays."""


class ControlLaws:
    """``heard`` at each committed batch of each node."""

    def __init__(self, eyes: Eyes) -> None:
        self._eyes = eyes
        self._hashes: dict[int, tuple[int, bytes]] = {}
        self._images: dict[int, Image] = {}
        self._watch: Watch | None = None
        self._offset = -1
        eyes.listeners.append(self.heard)

    def heard(self, id: int, node: Node, delta: Delta, is_news: bool) -> None:
        """A node applied a batch, or a snapshot: then its image is another one."""
        image = node.metadata.image
        whole = self._images.get(id) is not image
        self._images[id] = image
        if node.metadata.offset % EVERY == 0:
            self._agree(id, node.metadata.offset, image)
        if not is_news:
            return
        if self._watch is None or whole:
            self._watch = Watch(image)
            return
        try:
            self._watch.after(image, delta)
        except AssertionError as error:
            self._eyes.cluster.breaks(f"C1..C11: at metadata offset {node.metadata.offset}: {error}".partition("\n")[0])

    def _agree(self, id: int, offset: int, image: Image) -> None:
        mine = image_hash(image)
        first, theirs = self._hashes.setdefault(offset, (id, mine))
        if mine != theirs:
            self._eyes.cluster.breaks(f"C3: n{id} and n{first} have different images at offset {offset}")

    def is_at_rest(self) -> bool:
        """Whether all nodes that live have applied the same batches."""
        return len({node.metadata.offset for _, node in self._eyes.nodes()}) <= 1

    def at_rest(self) -> list[str]:
        """C3, L6: all nodes that live hold one image."""
        images: dict[bytes, Any] = {}
        for id, node in self._eyes.nodes():
            images.setdefault(image_hash(node.metadata.image), []).append(f"n{id}@{node.metadata.offset}")
        return [] if len(images) <= 1 else [f"C3: nodes at rest have different images: {list(images.values())}"]
