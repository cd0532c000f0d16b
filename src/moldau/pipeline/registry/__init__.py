"""Schema registries that have Confluent's REST interface: a client, and a registry for tests.

Read next: client.py (asks), double.py (answers, in tests).
"""
