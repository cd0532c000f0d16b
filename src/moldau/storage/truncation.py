"""Cutting a log back: what goes from its segments, snapshots and marks, at once in memory, in its files by ``cuts.py``.

``log.py`` decides whether there is anything to cut. Read next: ``recovery.py`` for what a restart makes of half of it.
"""

from __future__ import annotations

from collections.abc import Generator

from moldau.storage.cuts import Cut, do
from moldau.storage.log_state import LogState
from moldau.storage.producer_state import follow_in_slices, newest_snapshot, recall_in_slices
from moldau.storage.producers import Producers
from moldau.storage.segment import Segment
from moldau.storage.segment_file import UNBOUNDED
from moldau.storage.transactions import all_aborted, forget_above


def truncate(log: LogState, offset: int) -> None:
    """Cut a log that ends above ``offset`` so that nothing at or above it is left: see ``Log.truncate_to``."""
    if offset < log.bases[0]:
        restart_at(log, offset, offset)
        log.epochs_changed |= log.epochs.clear()
        return
    with log.dir.offline_on_error:
        if log.swap is not None:
            log.swap.undo()
        marked = offset < log.log_start_offset and _mark(log)
        gone = []
        while log.segments[-1].base_offset > offset:
            gone.append(_pop(log))
            log.bases.pop()
        log.active = log.segments[-1]
        log.active.below = UNBOUNDED
        log.log_start_offset = min(log.log_start_offset, offset)
        cut = log.active.truncate(offset)
        log.cuts.append(Cut(gone, log.active, cut, log.taken, marked=marked))
    if cut < log.log_start_offset:
        # The start lies inside the batch that went. A restart must not find a log that ends below its start.
        restart_at(log, log.log_start_offset, log.log_start_offset)
        log.epochs_changed |= log.epochs.truncate_from_end(log.log_end_offset)
        return
    offset = cut
    log.changed = True
    log.truncations += 1
    log.folder.generation += 1
    log.log_end_offset = offset
    log.recovery_point = min(log.recovery_point, offset)
    log.flush_wanted, log.held_from = min(log.flush_wanted, offset), min(log.held_from, offset)
    log.high_watermark = min(log.high_watermark, offset)
    log.cleaned_to = min(log.cleaned_to, log.active.base_offset)
    log.epochs_changed |= log.epochs.truncate_from_end(offset)
    forget_above(log, offset)
    _keep_aborted(log, offset)
    if log.known_producers is None or len(log.known_producers) or log.known_producers.aborted:
        log.known_producers = None
        log.dir.producers_cut(log)
    else:
        log.known_producers.end_offset = offset  # nobody was known, and nobody is
    _carry_out(log)


def _keep_aborted(log: LogState, offset: int) -> None:
    """What ended below the cut stays known: neither the cut nor what follows it reads files for that."""
    known = log.kept_aborted if log.known_producers is None else all_aborted(log)
    log.kept_aborted = [one for one in known if one.last_offset < offset]


def restart_at(log: LogState, offset: int, start: int) -> None:
    """Make it a log without records that begins at ``start`` and whose next offset is ``offset``."""
    with log.dir.offline_on_error:
        if log.swap is not None:
            log.swap.undo()
        marked = not offset <= start == log.log_start_offset and _mark(log)
        gone = []
        while log.segments:  # from the end: what a crash leaves is always a log without gaps
            gone.append(_pop(log))
        log.active = Segment(log.folder, offset)
        log.cuts.append(Cut(gone, log.active, None, log.taken, marked=marked))
    log.segments.append(log.active)
    log.bases = [offset]
    log.changed = True
    log.truncations += 1
    log.folder.generation += 1
    log.log_end_offset = offset
    log.log_start_offset = start
    log.high_watermark = max(offset, start)
    log.recovery_point = min(log.recovery_point, offset)
    log.flush_wanted = log.held_from = 0
    log.cleaned_to = -1
    log.known_producers = Producers(offset)
    log.kept_aborted = []
    log.closings = []
    _carry_out(log)


def _pop(log: LogState) -> Segment:
    """The last segment, which is in use no more."""
    segment = log.segments.pop()
    if log.opening is not None and log.opening.segment is segment:
        log.opening = None
    segment.drop()
    return segment


def _carry_out(log: LogState) -> None:
    """Have the files cut, and what the checkpoint says of the log written, if it is too much now."""
    if log.dir.on_checkpoint_wanted is not None:
        log.dir.on_checkpoint_wanted(log)
    else:
        with log.dir.offline_on_error:
            finish(log)


class Cutting:
    """All cuts of a log that wait, in a form that a worker thread can run; an error is kept."""

    __slots__ = ("_cuts", "_folder", "error")

    def __init__(self, log: LogState) -> None:
        self._folder, self._cuts = log.folder, list(log.cuts)
        self.error: OSError | None = None

    def run(self) -> None:
        """Do what was not done yet, in order."""
        try:
            do(self._folder, self._cuts)
        except OSError as error:
            self.error = error


def drop_done(log: LogState) -> None:
    """Some of the log's cuts may be done."""
    if log.cuts:
        log.cuts = [cut for cut in log.cuts if not cut.done]
        log.folder.names.touch()


def finish(log: LogState) -> None:
    """Do all cuts of a log here and now, or wait for whoever is doing them. OSError."""
    do(log.folder, log.cuts)
    drop_done(log)


def _mark(log: LogState) -> bool:
    """Whether the files are to say that what the checkpoint has of the log is outdated, before they are so."""
    if log.restarted or not log.dir.starts.may_hold(log.partition):
        return False
    log.restarted = True
    return True


def restore_in_slices(log: LogState) -> Generator[None, None, None]:
    """Read the state of a log that was cut, with pauses in which it is read, appended to, or cut again. OSError."""
    while log.known_producers is None:
        cuts = log.truncations
        producers = newest_snapshot(log.folder, log.segments[0].base_offset, log.log_end_offset)
        missing: list[str] = []  # of a segment that retention took meanwhile nothing needs to be known
        is_recalled = False
        while log.truncations == cuts and log.known_producers is None:
            if producers.end_offset < log.log_end_offset:
                yield from follow_in_slices(producers, list(log.segments), log.log_end_offset, missing)
            elif not is_recalled:  # what is appended in its pauses is followed then
                yield from recall_in_slices(producers, list(log.segments))
                is_recalled = True
            else:
                log.known_producers = producers
