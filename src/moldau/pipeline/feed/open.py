"""The feed of the table that a pipeline reads."""

from __future__ import annotations

from moldau.pipeline.feed.changes import ChangeFeed, FeedError
from moldau.pipeline.spec import Pipeline, TableFeed


class NoFeed(ValueError):
    """Something that is done with topics, and not with the feed of a table; the message says what."""


def open_feed(source: TableFeed) -> ChangeFeed:
    """The feed; FeedError when its library is missing."""
    if source.format == "iceberg":
        try:
            from moldau.pipeline.feed.iceberg import IcebergFeed

            return IcebergFeed(source.table, source.options)
        except ImportError as error:
            raise FeedError(f"{source.table}: Iceberg needs pyiceberg: pip install 'moldau[iceberg]'") from error
    from moldau.pipeline.feed.delta import DeltaFeed

    return DeltaFeed(source.table, source.options)


def refuse_feed(pipeline: Pipeline, what: str) -> None:
    """NoFeed when the pipeline reads a table, and ``what`` is for topics."""
    if pipeline.source.feed is not None:
        raise NoFeed(f"{what} is for pipelines that read topics; {pipeline.name} reads the table "
                     f"{pipeline.source.feed.table}")  # fmt: skip
