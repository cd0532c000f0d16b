"""Kafka's znodes and the session to a real ZooKeeper: what the ZooKeeper plane reads and writes by.

Pure: ``paths``, ``payload``, ``znodes`` and ``notes`` (what stands in a znode), ``reading`` (znodes -> metadata
records), ``writing`` (records -> operations). Shell: ``survey`` (reads it all through the port), ``session`` (the port
on kazoo). Nothing is imported here: a node in KRaft mode loads none of it. The plane: ``moldau.broker.zookeeper``.
"""
