"""When a log is flushed, what a flush of it takes along, and what counts as durable once it has run.

``flush.py`` is one flush, in a form that a thread can run; here is what it means for its log. On the loop, as all of
the log. Read next: ``moldau.broker.replicas.awaited_flushes`` (who runs those that answers wait for), ``log_dirs.py``.
"""

from __future__ import annotations

from moldau.storage.flush import Flush, Postponed, small_files
from moldau.storage.log_state import LogState
from moldau.storage.segment_file import FEW_ENTRIES
from moldau.storage.truncation import drop_done


def want(log: LogState, first: int, now_ms: int) -> None:
    """As many records as flush.messages says are not durable: have what came from ``first`` on wait for a flush, or
    flush here and now where nobody does it elsewhere."""
    if log.dir.on_flush_wanted is None:
        log.flush(now_ms=now_ms)
        return
    if log.log_end_offset - max(log.recovery_point, log.flush_wanted) < log.flush_messages:
        return  # enough of them are being flushed
    if not log.awaits_flush:
        log.held_from = first
    log.flush_wanted, log.last_flush_ms = log.log_end_offset, now_ms
    log.dir.on_flush_wanted(log)


def begin(log: LogState, up_to: int | None, *, whole: bool) -> Flush | None:
    """See ``Log.begin_flush``."""
    log.dir.ensure_online()
    up_to = log.log_end_offset if up_to is None else min(up_to, log.log_end_offset)
    if log.opening is not None:  # what is not in a file yet cannot be durable
        up_to = min(up_to, log.opening.segment.base_offset)
    small_saved = log.topic_id_saved and not log.epochs_changed
    if up_to <= log.recovery_point and small_saved and not whole and not (log.sealed or log.closings or log.cuts):
        return None
    with log.dir.offline_on_error:
        # While another flush is still to write them, this one must not be through before they are written.
        small = {} if small_saved and not log.saving else small_files(log.topic_id, log.epochs)
        first = log.segment_at(log.recovery_point)
        dirty = [segment for segment in log.segments[first:] if segment.base_offset < up_to]
        indexes = [s for s in dirty if whole or s is not log.active or s.unsynced_entries >= FEW_ENTRIES]
        indexes += [segment for segment in log.sealed if segment not in indexes]
        flush = Flush(log.folder, dirty, up_to, small, Postponed(indexes, log.closings, log.cuts))
        log.sealed, log.closings = [], []
        flush.truncations = log.truncations
        flush.saves = bool(small)
        log.topic_id_saved, log.epochs_changed = True, False
        log.saving += flush.saves
        return flush


def end(log: LogState, flush: Flush) -> None:
    """See ``Log.end_flush``."""
    flush.release()
    drop_done(log)
    log.saving -= flush.saves
    assert flush.done or flush.error is not None, "a flush is ended before it was run"
    if flush.error is not None:
        # All of it is due again; a failed sync takes the directory offline, and is never repeated.
        log.topic_id_saved, log.epochs_changed = log.topic_id is None, True
        log.sealed += [one.segment for one in flush.indexes if one.segment is not log.active and not one.segment.gone]
        if flush.truncations == log.truncations:
            log.closings[:0] = flush.closings
        raise log.dir.judge(flush.error) from flush.error
    if flush.truncations == log.truncations:
        log.recovery_point = max(log.recovery_point, flush.up_to)
        log.held_from = max(log.held_from, flush.up_to)
        for one in flush.indexes:
            one.segment.index_synced = one.entries
