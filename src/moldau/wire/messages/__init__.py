"""Requests and responses, one file per api key: kNN_name.py. The list with versions is ``moldau.wire.apis``."""
