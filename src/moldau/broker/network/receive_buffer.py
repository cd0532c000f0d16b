"""What has come of a connection's frames: in the receive buffer that all connections share, until a frame is not whole.

The loop asks for room, fills it and says so in one go, one connection after the other, so that one buffer serves all:
an idle connection owns none. The beginning of a small frame is kept as it is and put before what comes next; a larger
frame gets a buffer of its own, which grows with what has really come, now or in the frame before: a size alone takes no
memory (law X1). Decides no limits: ``memory.py``. Read next: ``connection.py``, which finds the frames.
"""

from __future__ import annotations

from moldau.broker.network.arriving import kind_of
from moldau.broker.network.memory import LARGEST_BUFFER, MemoryOwner, RequestMemory

SHARED_BYTES = 64 * 1024
_SIZE_BYTES = 4
SHORT_READ_BYTES = 4096
"""The most that is read at once while bytes of requests fill the memory that they may."""


class SharedBuffer:
    """The receive buffer of one node's connections."""

    __slots__ = ("data", "view")

    def __init__(self) -> None:
        self.data = bytearray(SHARED_BYTES)
        self.view = memoryview(self.data)


class ReceiveBuffer:
    """The receiving side of one connection."""

    __slots__ = ("_filled", "_kept", "_need", "_own", "_shared", "_starved", "_usual", "brought", "memory", "owner")

    def __init__(self, owner: MemoryOwner, memory: RequestMemory, shared: SharedBuffer) -> None:
        self.owner = owner
        self.memory = memory
        self._shared = shared
        self._kept = b""
        self._own: bytearray | None = None
        self._filled = 0
        self._need = 0
        self._usual = 0  # bytes of the last frame that was too large for the shared buffer, if there was one
        self._starved = False
        self.brought = 0
        """Bytes that have come, in all."""

    @property
    def starved(self) -> bool:
        """Whether nothing can be read until memory is free."""
        return self._starved

    @property
    def held(self) -> int:
        """Bytes of memory that this connection owns."""
        return len(self._kept) if self._own is None else len(self._own)

    @property
    def come(self) -> int:
        """Bytes that have come of what is not handled yet."""
        return len(self._kept) if self._own is None else self._filled

    @property
    def is_own(self) -> bool:
        """Whether what ``arrived`` returned lies in a buffer of this connection's own."""
        return self._own is not None

    def space(self) -> memoryview:
        """Where the loop puts what comes next; never empty."""
        if self._own is None and self._usual and not self._kept:  # its frames are large: spare a copy of what comes
            self._own = self.memory.spare(self.owner, self._usual)
            self._filled, self._need = 0, _SIZE_BYTES
        if self._own is not None:
            return memoryview(self._own)[self._filled :]
        view, kept = self._shared.view, self._kept
        if kept:
            view[: len(kept)] = kept
            view = view[len(kept) :]
        return view[:SHORT_READ_BYTES] if self.memory.is_short else view

    def arrived(self, size: int) -> memoryview | None:
        """So many bytes were put there: what is to be looked at for whole frames, and ``keep`` is due next; None while
        a frame in a buffer of its own is not whole."""
        self.brought += size
        if self._own is None:
            kept, self._kept = self._kept, b""
            if kept:
                if not size:
                    self._shared.view[: len(kept)] = kept
                self.memory.forget(len(kept))
            return self._shared.view[: len(kept) + size]
        self._filled += size
        if self._filled >= self._need:
            return memoryview(self._own)[: self._filled]
        if self._filled == len(self._own):
            self._grow()
        return None

    def keep(self, came: memoryview, start: int, need: int) -> None:
        """What ``came`` from ``start`` on is not handled yet; it begins a frame of ``need`` bytes, if that is known."""
        left = len(came) - start
        own = self._own
        kind = kind_of(came[start : start + 6], need)
        if own is not None and start:
            self.memory.begin_frame(self.owner, kind)
        if own is not None and self._need > SHARED_BYTES:  # as large a frame has come whole
            self._usual = min(self._need, LARGEST_BUFFER)
        if own is not None and left > SHARED_BYTES and need <= len(own):  # it goes on where it is
            if start:
                memoryview(own)[:left] = came[start:]
            self._filled, self._need = left, need
            return
        self._own = None
        if left and need <= SHARED_BYTES and left <= SHARED_BYTES:
            self._kept = bytes(came[start:])
            self.memory.hold(left)
        elif left:
            size = max(left, min(need, max(2 * left, self._usual)))
            buffer = self.memory.buffer(self.owner, size, kind)
            if buffer is None:
                buffer = self.memory.keep(self.owner, left, kind)
            buffer[:left] = came[start:]
            self._own, self._filled, self._need = buffer, left, need
            self._starved = left == len(buffer) < need
        if own is not None:
            self.memory.release(self.owner, own)

    def retry(self) -> None:
        """There may be memory again."""
        if self._starved:
            self._grow()

    def _grow(self) -> None:
        """Move the beginning of a frame into a larger buffer, if there is memory for it."""
        own = self._own
        assert own is not None, "only a frame in a buffer of its own grows"
        kind = kind_of(own[: min(self._filled, 6)], self._need)
        larger = self.memory.buffer(self.owner, min(self._need, 4 * self._filled), kind)
        self._starved = larger is None
        if larger is not None:
            larger[: self._filled] = own
            self._own = larger
            self.memory.release(self.owner, own)

    def take(self) -> bytearray:
        """The buffer of what came, for somebody who looks into it for longer, and gives it back to the memory."""
        own, self._own = self._own, None
        assert own is not None, "what came is in a buffer of its own"
        return own

    def drop(self) -> None:
        """Nothing of what has come is wanted any more."""
        if self._kept:
            self.memory.forget(len(self._kept))
            self._kept = b""
        own, self._own, self._starved = self._own, None, False
        if own is not None:
            self.memory.release(self.owner, own)
