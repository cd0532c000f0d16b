"""A leader whose log cannot be written any more, while its directory answers: somebody removed its folder, say.

As long as it led, no replica whose log is whole could. So it is offline until this broker is started again, as a log is
that cannot be loaded, and the controller elects others. Unless there is nobody else in the ISR: what can still be read
is worth more than nothing then. Asked by ``replicas.py``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from moldau.broker.replica import Replica
from moldau.storage.errors import CorruptLog, LogError, UnusableFile
from moldau.storage.strays import put_out_of_use

if TYPE_CHECKING:
    from moldau.broker.replicas import Replicas

log = logging.getLogger("moldau.replicas")


def append_failed(replicas: Replicas, replica: Replica, error: LogError) -> None:
    """An append of a leader failed: see what it costs."""
    lasts = isinstance(error, CorruptLog) or (isinstance(error, UnusableFile) and not error.passing)
    if not lasts or len(replica.machine.isr) < 2 or replicas.by_key.get(replica.key) is not replica:
        replicas.failed(error)
        return
    partition = replica.partition
    log.error("%s is offline here until this broker is started again, and others lead: %s", partition, error)
    del replicas.by_key[replica.key], replicas.by_partition[partition]
    replicas.unreachable[replica.key] = partition
    put_out_of_use(replicas.logs, partition)
    replicas.act(replica, replica.machine.fail())
    replica.changed()
    replicas.place(replica.key)
    replicas.on_lost()
