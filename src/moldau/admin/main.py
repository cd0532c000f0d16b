"""The ``moldau`` command. ``moldau node`` is started without loading the rest: a broker must be up in half a second.

Every other noun is a file of this package, loaded when it is named. Exit codes: 0 done, 1 failed, 2 usage, 3 still in
progress, 4 mismatch, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module

TYPE_CHECKING = False  # not the typing module's: what is loaded here is loaded before an interrupt is caught
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130
_LOCAL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""How writing to a file fails, and talking to a broker does not."""


def main() -> None:
    """The entry point."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["node"] and "--help" not in arguments:
            import gc

            gc.disable()  # nothing of what is loaded becomes garbage: ``collect_seldom`` enables it again
            from moldau.admin.node import run_node

            sys.exit(run_node(arguments[1:]))
        _demand_streams()
        try:
            _run(arguments)
        finally:
            sys.stdout.flush()  # here, where it can still be told that nothing was written
    except KeyboardInterrupt:  # also while it was still loading
        fail("interrupted", INTERRUPTED)
    except RuntimeError as error:  # Python 3.11 wraps an interrupt that comes while a class of an import is made
        if isinstance(error.__cause__, KeyboardInterrupt):
            fail("interrupted", INTERRUPTED)
        raise
    except BrokenPipeError:  # whoever read our output has gone
        from moldau.admin.output import drop_output

        drop_output()
        raise SystemExit(1) from None
    except OSError as error:
        if is_local(error):
            from moldau.admin.output import drop_output

            drop_output()
        fail(reason(error))
    finally:
        # CPython notes an interrupt that comes while a string is evaluated (a codec is being made, say), although it is
        # handled here, and would end the process by the signal and not with our exit code; the next string clears that.
        exec("")


def _run(arguments: list[str]) -> None:
    if arguments and arguments[0].endswith(".sh"):
        from moldau.admin.classic.run import is_classic, run

        if is_classic(arguments[0]):
            sys.exit(run(arguments[0], arguments[1:]))
    import_module("moldau.admin.cli").run()


def _demand_streams() -> None:
    """End when standard output is closed: an answer that nobody can have is none. Of a closed input nothing comes."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):  # what a terminal's encoding has not is shown, and ends nothing
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:
        fail("standard output is closed")


def is_local(error: BaseException) -> bool:
    """Whether it is this machine's output that failed, a full disk say, and not a connection."""
    if not isinstance(error, OSError) or error.filename is not None or error.errno not in _LOCAL:
        return False
    return error.strerror == os.strerror(error.errno)  # a library that says more of it was not writing our output


def reason(error: BaseException) -> str:
    """What went wrong, in words: without Python's number of it, and with the file's name where it has one."""
    if isinstance(error, OSError) and error.strerror:
        where = error.filename or ("standard output" if is_local(error) else "")
        return f"{where}: {error.strerror}" if where else error.strerror
    return str(error) or type(error).__name__


def fail(message: str, code: int = 1) -> NoReturn:
    """Say why on stderr and end with ``code``."""
    from moldau.admin.output import lines_printable, take_bar_away  # here: a node that runs has none

    take_bar_away()
    print(f"moldau: {lines_printable(message)}", file=sys.stderr)
    raise SystemExit(code)
