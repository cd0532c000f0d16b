"""Rolling a cluster: in what order, how far it is, and by which command where the nodes are not ours.

The order is brokers that are not the controller, controllers that are no brokers, and the active controller last, so
that it changes once. How far a roll is stands in a file, so that one that was cut off goes on.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from moldau.admin.files import write_whole
from moldau.admin.main import fail
from moldau.admin.output import note, say
from moldau.admin.signals import caught_signals

SHELL_ENDS_S = 5.0
"""How long a shell may take to end when it is told to."""


def safe_order(brokers: Collection[int], controllers: Collection[int], active: int) -> list[int]:
    """All nodes in the order in which they are restarted."""
    return sorted({*brokers, *controllers}, key=lambda id: (id == active, id not in brokers, id))


class Rolled:
    """Which nodes of a roll were restarted, in a file, which is there while the roll is not done. ``command`` restarts
    them, where the nodes are not ours: a roll by another one is another roll."""

    def __init__(self, path: Path, cluster: str, command: str | None = None) -> None:
        self._path, self._cluster, self._command = path, cluster, command
        self.done: list[int] = []
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            if told["cluster"] != cluster:
                fail(f"{path} is of a roll of cluster {told['cluster']}, and this is {cluster}; --state names another")
            if (other := told.get("command", command)) != command:
                nodes = ", ".join(map(str, told["done"]))
                fail(
                    f"{path} is of a roll by another command, `{other}`, which restarted {nodes}: give that one to go"
                    " on, or remove the file, or name another by --state"
                )
            self.done = [int(id) for id in told["done"]]
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError):
            fail(f"{path} does not tell how far a roll is; remove it, or say --state", 2)

    def restarted(self, id: int) -> None:
        """Note one more."""
        self.done.append(id)
        told = {"cluster": self._cluster, "done": self.done, "command": self._command}
        write_whole(self._path, json.dumps(told) + "\n")

    def finished(self) -> None:
        """All are: the next roll begins anew."""
        self._path.unlink(missing_ok=True)


@contextmanager
def telling_of_an_interrupt(node: str) -> Iterator[None]:
    """Say at which node a roll was interrupted, by SIGINT or another signal that ends it, that the node may be down,
    and how the roll goes on."""
    try:
        with caught_signals():
            yield
    except KeyboardInterrupt:
        note(f"the roll was interrupted at {node}, which may be down; the same command goes on with it.")
        raise


def tell_order(order: Sequence[int], done: Collection[int], reasons: Callable[[int], Sequence[str]]) -> None:
    """Say in which order nodes would be restarted, and what speaks against each as things stand."""
    for id in order:
        if id not in done:
            against = reasons(id)
            when = f", as soon as nothing speaks against it: {against[0]}" if against else ""
            say(f"node {id} would be restarted{when}")


def filled(command: str, id: int, host: str, port: int) -> str:
    """A command with {id}, {host} and {port} filled in; other braces are the shell's."""
    return command.replace("{id}", str(id)).replace("{host}", shlex.quote(host)).replace("{port}", str(port))


def run_command(command: str, timeout_s: float) -> int | None:
    """Run a command by the shell, with our streams; its exit status. None when it ran longer: its shell is told to end,
    what that had started may go on.
    """
    process = subprocess.Popen(command, shell=True)
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(SHELL_ENDS_S)
        return None


def listed(ids: Sequence[int]) -> str:
    """Numbers with commas between."""
    return ", ".join(map(str, ids))
