"""Fetch requests: sessions, partitions, and records read for followers and consumers."""
