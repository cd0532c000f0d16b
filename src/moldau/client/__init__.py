"""A small Kafka client over ``moldau.ports.Net``: for fetchers, quorum peers, the command line, tests and Spark.

Read connection.py (one connection), client.py (a cluster: metadata, routing, retries), then producer.py, consumer.py,
admin.py; sync.py is the blocking way in, with sockets of its own. Names are imported from their modules: a process pays
for what it uses.
"""
