"""The group coordinator's host: which shards this broker leads, and their logs."""
