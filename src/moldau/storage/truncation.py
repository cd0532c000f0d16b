"""Cutting a log back: what goes from its segments, snapshots and marks, and in which order a crash may find it.

``log.py`` decides whether there is anything to cut. Read next: ``recovery.py`` for what a restart makes of half of it.
"""

from __future__ import annotations

from collections.abc import Generator

from moldau.storage.log_state import LogState
from moldau.storage.producer_state import drop_snapshots, follow, newest_snapshot, recall
from moldau.storage.producers import Producers
from moldau.storage.restarted import mark_restarted
from moldau.storage.segment import Segment
from moldau.storage.segment_file import UNBOUNDED
from moldau.storage.transactions import all_aborted


def truncate(log: LogState, offset: int) -> None:
    """Cut a log that ends above ``offset`` so that nothing at or above it is left: see ``Log.truncate_to``."""
    if offset < log.bases[0]:
        restart_at(log, offset, offset)
        log.epochs_changed |= log.epochs.clear()
        return
    with log.dir.watch:
        if log.swap is not None:
            log.swap.undo()
        if offset < log.log_start_offset:
            _mark(log)
        if log.active.base_offset > offset:
            while log.segments[-1].base_offset > offset:
                log.segments.pop().remove()
                log.bases.pop()
            # Before the cut: a removal that a power cut undoes would leave a gap behind it.
            log.folder.disk.sync_dir(log.folder.path)
        log.active = log.segments[-1]
        log.active.below = UNBOUNDED
        log.log_start_offset = min(log.log_start_offset, offset)
        cut = log.active.truncate(offset)
        drop_snapshots(log.folder, above=cut)
    if cut < log.log_start_offset:
        # The start lies inside the batch that went. A restart must not find a log that ends below its start.
        restart_at(log, log.log_start_offset, log.log_start_offset)
        log.epochs_changed |= log.epochs.truncate_from_end(log.log_end_offset)
        return
    offset = cut
    log.changed = True
    log.truncations += 1
    log.log_end_offset = offset
    log.recovery_point = min(log.recovery_point, offset)
    log.flush_wanted, log.held_from = min(log.flush_wanted, offset), min(log.held_from, offset)
    log.high_watermark = min(log.high_watermark, offset)
    log.cleaned_to = min(log.cleaned_to, log.active.base_offset)
    log.epochs_changed |= log.epochs.truncate_from_end(offset)
    _keep_aborted(log, offset)
    if log.known_producers is None or len(log.known_producers) or log.known_producers.aborted:
        log.known_producers = None
        log.dir.producers_cut(log)
    else:
        log.known_producers.end_offset = offset  # nobody was known, and nobody is
    _check_recovery_point(log)


def _keep_aborted(log: LogState, offset: int) -> None:
    """What ended below the cut stays known: neither the cut nor what follows it reads files for that."""
    known = log.kept_aborted if log.known_producers is None else all_aborted(log)
    log.kept_aborted = [one for one in known if one.last_offset < offset]


def restart_at(log: LogState, offset: int, start: int) -> None:
    """Make it a log without records that begins at ``start`` and whose next offset is ``offset``."""
    with log.dir.watch:
        if log.swap is not None:
            log.swap.undo()
        if not offset <= start == log.log_start_offset:
            _mark(log)
        while log.segments:  # from the end: what a crash leaves is always a log without gaps
            log.segments.pop().remove()
        drop_snapshots(log.folder, above=-1)
        log.active = Segment(log.folder, offset)
        log.active.open(create=True)
    log.folder.names.touch()
    log.segments.append(log.active)
    log.bases = [offset]
    log.changed = True
    log.truncations += 1
    log.log_end_offset = offset
    log.log_start_offset = start
    log.high_watermark = max(offset, start)
    log.recovery_point = min(log.recovery_point, offset)
    log.flush_wanted = log.held_from = 0
    log.cleaned_to = -1
    log.known_producers = Producers(offset)
    log.kept_aborted = []
    _check_recovery_point(log)


def _check_recovery_point(log: LogState) -> None:
    """Have what the checkpoint says of the log written, if it is too much now."""
    if log.awaits_checkpoint:
        assert log.dir.on_checkpoint_wanted is not None
        log.dir.on_checkpoint_wanted(log)


def _mark(log: LogState) -> None:
    """Say that what the checkpoint has of the log is outdated, before the log is so."""
    if not log.restarted and log.dir.starts.may_hold(log.partition):
        mark_restarted(log.folder)
        log.restarted = True


def restore(log: LogState) -> Generator[None, None, None]:
    """Read the state of a log that was cut, with pauses in which it is read, appended to, or cut again. OSError."""
    while log.known_producers is None:
        cuts = log.truncations
        producers = newest_snapshot(log.folder, log.segments[0].base_offset, log.log_end_offset)
        missing: list[str] = []  # of a segment that retention took meanwhile nothing needs to be known
        while log.truncations == cuts and log.known_producers is None and producers.end_offset < log.log_end_offset:
            yield from follow(producers, list(log.segments), log.log_end_offset, missing)
        yield from recall(producers, list(log.segments))
        if log.truncations == cuts and log.known_producers is None:
            log.known_producers = producers
