"""Quotas that this node keeps its clients to: bytes, time, mutations of the controller, and new connections.

Read first: ``clients.py`` (who is throttled, and for how long), then ``network/charging.py`` (where it is asked).
"""
