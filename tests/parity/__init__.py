"""Spark's own Kafka connector beside format("moldau"), in one session: the same options, the same rows or refusals.

Runs in .venv-parity (scripts/parity.sh), as ``python -m tests.parity.compare BOOTSTRAP``; the tests that start it are
in tests/live/test_spark_parity.py. Read next: cases.py.
"""
