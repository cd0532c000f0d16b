"""The bench: Moldau measured against Apache Kafka on one machine. Start at run.py."""
