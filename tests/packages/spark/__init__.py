"""The PySpark source: pure parts and readers over a cluster in memory, without a JVM."""
