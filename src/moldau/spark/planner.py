"""Asks a cluster what a query's options mean now: the part of planning that batch and stream share.

Knows nothing of Spark. What is lost is found by ``offsets.py``; whether that stops the query is decided here, by
``onDataLoss``. Read next: readers.py (who plans), offsets.py (the arithmetic).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from moldau.spark.feed import Feed, FeedUnreachable
from moldau.spark.given import OptionError
from moldau.spark.losses import DataLossError, Loss, LossKind, warn
from moldau.spark.offsets import Moment, Offsets, Positions, missing, names, recreated, resolve, select
from moldau.spark.options import Options
from moldau.spark.start import LATEST, Start

T = TypeVar("T")
OpenFeed = Callable[[Options], Feed]


class LazyFeed:
    """A feed that is opened when first asked, and opened again when the cluster could not answer.

    Never pickled: ``__reduce__`` of its owners leaves it out.
    """

    def __init__(self, options: Options, open_feed: OpenFeed) -> None:
        self._options, self._open = options, open_feed
        self._feed: Feed | None = None

    def ask(self, question: Callable[[Feed], T]) -> T:
        """The answer; retried ``fetchOffset.numRetries`` times when the cluster does not answer."""
        for left in range(self._options.fetch_retries, -1, -1):
            try:
                if self._feed is None:
                    self._feed = self._open(self._options)
                return question(self._feed)
            except (OSError, FeedUnreachable):
                self.close()
                if not left:
                    raise
                time.sleep(self._options.fetch_retry_interval_ms / 1000)
        raise AssertionError("unreachable: the last try returns or raises")

    def close(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()


MADE_BY = "`moldau topic create NAME` makes a topic"


class Planner:
    """Answers about the subscribed partitions, from a feed of its own."""

    def __init__(self, options: Options, open_feed: OpenFeed) -> None:
        self.options = options
        self.line = LazyFeed(options, open_feed)

    def partitions(self) -> Positions:
        """The subscribed partitions that exist (their offsets are all 0) and the ids of their topics."""
        subscription = self.options.subscription
        names = set(subscription.topics) | {each.topic for each in subscription.partitions}
        topics = self.line.ask(lambda feed: feed.topics(names or None))
        found = select(subscription, topics)
        return Positions(dict.fromkeys(found, 0), {partition.topic: id for partition, id in found.items()})

    def existing(self) -> Positions:
        """As ``partitions``; OptionError when a subscribed topic is not there."""
        found = self.partitions()
        absent = missing(self.options.subscription, found.offsets)
        if absent:
            name, _, value = str(self.options.subscription).partition(" ")
            raise OptionError(name, value, f"not in the cluster: {', '.join(absent)}; {MADE_BY}")
        return found

    def resolve(self, start: Start, there: Positions, option: str) -> Positions:
        """The offsets that ``start`` comes to now, for the partitions ``there``."""
        ending = option.startswith("ending")  # an end without a matching record is the log's end, as in Spark
        when = Moment(option, time.time_ns() // 1_000_000, self.options.latest_on_no_match or ending)
        return Positions(self.line.ask(lambda feed: resolve(start, there.offsets, feed, when)), there.topic_ids)

    def committed(self, group_id: str, there: Positions) -> Offsets:
        """What a consumer group has committed, of the partitions ``there`` in which it did."""
        return self.line.ask(lambda feed: feed.committed(group_id, there.offsets))

    def edge(self, which: int, there: Positions) -> Positions:
        """Earliest (-2) or latest (-1, with leader epochs) of the partitions ``there``; without those that are gone."""
        if which == LATEST:
            ends = self.line.ask(lambda feed: feed.ends(there.offsets))
            epochs = {partition: end.leader_epoch for partition, end in ends.items() if end.leader_epoch >= 0}
            return Positions({partition: end.offset for partition, end in ends.items()}, there.topic_ids, epochs)
        asked = dict.fromkeys(there.offsets, which)
        return Positions(self.line.ask(lambda feed: feed.offsets(asked)), there.topic_ids)

    def diverged(self, before: Positions, after: Positions) -> Offsets:
        """Where the records that were read end, in logs that were cut off before the position (KIP-320).

        Asked only of partitions that another leader epoch answers for now: under the same one nothing is cut off.
        """
        asked = {
            partition: epoch
            for partition, epoch in before.epochs.items()
            if after.epochs.get(partition, epoch) != epoch and not recreated(before, after, partition)
        }
        ends = self.line.ask(lambda feed: feed.epoch_ends(asked)) if asked else {}
        return {partition: end for partition, end in ends.items() if end < before.offsets.get(partition, 0)}

    def told(self, losses: Sequence[Loss]) -> list[Loss]:
        """The losses, where partitions that were taken out of the subscription are not called gone."""
        subscription = self.options.subscription
        return [
            one._replace(kind=LossKind.NOT_LISTED)
            if one.kind is LossKind.PARTITION_GONE and not names(subscription, one.partition)
            else one
            for one in losses
        ]

    def report(self, losses: Sequence[Loss]) -> None:
        """Stop, or say what is lost and go on, as ``onDataLoss`` has it."""
        if losses and self.options.on_data_loss == "fail":
            raise DataLossError(losses)
        for loss in losses:
            warn(loss)
