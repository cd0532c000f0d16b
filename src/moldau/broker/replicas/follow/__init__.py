"""Following leaders: fetchers, and what each knows of the partitions that it fetches."""
