"""Real nodes under random frames, batches, settings and damaged files: ``python -m tests.fuzz --help``."""
