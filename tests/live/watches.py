"""Commands with ``--watch``, run as people run them: on a terminal or into a pipe, until a key ends them."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import threading
from typing import Self

from kafka_peer import wait_until
from moldau_peer import COMMAND

EVERY_S = "0.2"


class Watching:
    """A command that looks again and again; ``shown`` and ``said`` are what it has written so far."""

    def __init__(self, *words: str, terminal: bool) -> None:
        self.words = words
        self.shown, self.said = b"", b""
        output = read = None
        if terminal:
            read, output = pty.openpty()
        self._process = subprocess.Popen(
            [str(COMMAND), *words, "--watch", EVERY_S],
            stdin=output if terminal else subprocess.DEVNULL,
            stdout=output if terminal else subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        )
        if output is not None:
            os.close(output)
        assert self._process.stderr is not None
        self._terminal = read
        self._out = read if read is not None else self._process.stdout.fileno()  # type: ignore[union-attr]  # piped
        self._threads = [
            threading.Thread(target=self._read, args=(self._out, "shown"), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr.fileno(), "said"), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, source: int, into: str) -> None:
        while True:
            try:
                more = os.read(source, 1 << 16)
            except OSError:  # how a terminal ends
                return
            if not more:
                return
            setattr(self, into, getattr(self, into) + more)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(60)
        if self._terminal is not None:
            os.close(self._terminal)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def wait_for(self, what: bytes, after: int = 0, *, times: int = 1) -> None:
        """Until ``what`` is shown so often behind the place ``after``."""
        name = " ".join(self.words[:2])

        def seen() -> bool:
            assert self._process.poll() is None, f"{name} ended: {self.said.decode()}"
            return self.shown[after:].count(what) >= times

        wait_until(seen, f"{name} shows {what!r}", 300)

    def interrupted(self) -> int:
        """Ctrl-C, as a terminal sends it; the exit status."""
        self._process.send_signal(signal.SIGINT)
        status = self._process.wait(120)
        for thread in self._threads:
            thread.join(60)
        return status
