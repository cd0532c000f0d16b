"""What a node tells of itself over HTTP: figures under the names that Kafka's dashboards know, and its health.

Loaded only where ``http.listener`` is set. Read next: ``page.py`` (the requests), ``figures.py``, ``health.py``.
"""
